// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_time_model.h>

#include <cstddef>
#include <string>
#include <vector>

#include "evaluate/baselines.h"
#include "evaluate/split.h"

namespace perfpred {

/// Errors of a regressor on the parts of the split that it was fitted on.
struct FitReport {
  TimeMetrics train, val, test;            ///< val: of no rows where the model was fitted on them, too
  std::vector<NamedMetrics> baselines;     ///< fitted on train and val, scored on test
  std::size_t unstable = 0, disagree = 0;  ///< flagged rows of train and val
};

/// @throws InputError that names a row which cannot be predicted
[[nodiscard]] FitReport report_fit(const TimeRegressor& model, const Split& split);

/// Errors of times of steps, and how many of them the 90 % intervals held.
struct StepErrors {
  TimeMetrics metrics;  ///< throughput: samples a second
  std::optional<double> coverage90;
};

/// Errors of an op model on the measurements that it was fitted on.
struct OpFitReport {
  StepErrors fitted;          ///< `steps`, and the layers as the model answers them
  StepErrors steps;           ///< the steps among them, by the part of the model that learned steps
  std::size_t by_layers = 0;  ///< of these steps, those that the model answers by rates of layers in place of that part
  StepErrors left_out_layers;  ///< layers, each by rates that were fitted on four fifths of them, without it
};

/// @param steps, layers  tables that OpTimeModel::fit() took; may be empty
/// @throws InputError as OpTimeModel::fit()
[[nodiscard]] OpFitReport report_op_fit(const OpTimeModel& model, const std::vector<std::string>& steps,
                                        const std::string& layers, const DeviceCatalogue& devices);

/// What to say where 90 % intervals of steps or of layers that were left out hold fewer than 75 %; empty where they do.
[[nodiscard]] std::string coverage_warning(const OpFitReport& report);

}  // namespace perfpred
