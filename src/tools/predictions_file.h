// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/prediction.h>

#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// Writes predictions.csv: the workload's fields, the quantiles of seconds per epoch and images a second, in_domain and
/// reason.
/// @throws Error if the sizes differ or the disk refuses, InputError if no file can be made there
void write_predictions(const std::string& path, std::span<const Workload> workloads,
                       std::span<const Prediction> predictions);

/// The same with measured_time_sec and measured_images_per_sec at the end; empty where a row has no time.
void write_predictions(const std::string& path, std::span<const AggregateRow> measured,
                       std::span<const Prediction> predictions);

}  // namespace perfpred
