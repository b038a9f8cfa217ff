// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <string>
#include <vector>

namespace perfpred {

/// The workloads that give the fields that a request leaves out: the model's example, then one of each other network
/// and on each other device that the model was fitted on. A model that has seen no run gives Workload() without
/// network, depth and base_filters.
[[nodiscard]] std::vector<Workload> base_workloads(const TimeRegressor& model);

/// The same without what a request has to name: batch_size, and depth and base_filters of cifar_cnn.
[[nodiscard]] std::vector<Workload> without_sizes(std::vector<Workload> bases);

/// The name that the model or its catalogue has for what a user calls a device. @throws InputError as
/// DeviceCatalogue::full_name()
[[nodiscard]] std::string device_name(const TimeRegressor& model, const std::string& asked);

}  // namespace perfpred
