// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <span>
#include <string>

namespace perfpred {

/// Writes what the kinds of regressor see of each row, for use elsewhere: `key`; depth, base_filters, log2_batch_size,
/// log10_params, log10_steps_per_epoch (kinds without physics; empty outside `cifar_cnn`); steps and samples of an
/// epoch, layers, other_ops, and a sample's training flops and forward elements (hybrid); parameters by the positions
/// of their layer's output: conv_params (32 or more), deep_params (2 to 31), dense_params (1); and the label,
/// avg_time_mean.
/// @throws InputError if a network has no description or no file can be made there; Error if the disk refuses
void write_features(const std::string& path, std::span<const AggregateRow> rows);

}  // namespace perfpred
