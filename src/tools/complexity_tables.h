// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

class OpGraph;
struct Workload;

/// A network, and its training step by batch size.
struct NetworkSteps {
  std::string network;
  std::string input;                    ///< one sample, as "3x224x224"
  std::optional<std::int64_t> classes;  ///< not known of a file
  std::function<OpGraph(std::int64_t batch)> step;
};

/// Steps that are counted without tracing, whatever the workload's batch size.
[[nodiscard]] NetworkSteps steps_of(const Workload& workload);

/// Writes what networks ask of a device into a folder (made where it is not there): models.csv, a row per network
/// (parameters; FLOPs, bytes and kept activations of one image or sequence), and batches.csv, a row per network and
/// batch size (of one training step, and its peak of memory).
/// @returns the files
/// @throws InputError for a batch size that is not positive, no network or no batch size, and what the steps throw
std::vector<std::string> write_complexity_tables(const std::string& folder, std::span<const NetworkSteps> networks,
                                                 std::span<const std::int64_t> batch_sizes);

}  // namespace perfpred
