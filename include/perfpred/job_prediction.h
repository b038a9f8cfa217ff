// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/prediction.h>
#include <perfpred/workload.h>

#include <span>
#include <string>
#include <vector>

namespace perfpred {

class TimeRegressor;

/// Whether one of many jobs was predicted.
enum class JobStatus {
  ok,
  failed,       ///< at run time, as without memory
  wrong_input,  ///< the caller can mend it: a device without rates, a network that cannot take its input
  unstated,     ///< nobody stated the samples of an epoch (Workload::knows_epoch())
};

/// The prediction of one of many jobs, or the reason why it was not predicted.
struct JobPrediction {
  JobStatus status = JobStatus::ok;
  std::string error = {};      ///< one line; empty if ok
  Prediction prediction = {};  ///< its times are NaN unless ok
};

/// Predicts many workloads as TimeRegressor::predict() does; one that cannot be predicted leaves the others their
/// predictions.
[[nodiscard]] PERFPRED_API std::vector<JobPrediction> predict_each(const TimeRegressor& model,
                                                                   std::span<const Workload> workloads);

}  // namespace perfpred
