// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/device.h>

#include <span>
#include <string>

namespace perfpred {

/// Writes the features of each row as CSV, for use with other tools:
/// * `key`;
/// * depth, base_filters, log2_batch_size, log10_params, log10_steps_per_epoch: inputs of the models without a cost
///   model; empty outside `cifar_cnn`;
/// * steps and samples of an epoch, layers, other_ops, and training FLOPs and forward elements of one sample: inputs of
///   `hybrid`;
/// * parameters by the number of positions (height x width) of their layer's output: conv_params (32 or more),
///   deep_params (2 to 31), dense_params (1);
/// * avg_time_mean, the label.
/// @throws InputError if a network is unknown or no file can be made there; Error if the disk refuses
void write_features(const std::string& path, std::span<const AggregateRow> rows, const DeviceCatalogue& devices);

}  // namespace perfpred
