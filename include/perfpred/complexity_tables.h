#pragma once
#include <perfpred/export.h>
#include <perfpred/vocabulary.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// Writes what networks ask of a device, with their usual inputs, into a folder (made where it is not there):
/// models.csv, a row per network (parameters; FLOPs, bytes and kept activations of one image or sequence), and
/// batches.csv, a row per network and batch size (of one training step, and its peak of memory).
/// @returns the files
/// @throws InputError for a network that is not known, a batch size that is not positive, or no network or batch size
PERFPRED_API std::vector<std::string> write_complexity_tables(const std::string& folder,
                                                              std::span<const std::string> networks,
                                                              std::span<const std::int64_t> batch_sizes,
                                                              Optimizer optimizer, Precision precision);

}  // namespace perfpred
