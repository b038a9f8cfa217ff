// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/forecast.h>
#include <perfpred/workload.h>

#include <string>
#include <vector>

namespace perfpred {

/// The fields of a captured step (network `step:...`) that the step file does not say; its workload holds stand-ins
/// there. Empty for other networks.
/// @param images_given  whether the request says how many samples an epoch has
[[nodiscard]] std::vector<std::string> unknown_fields(const Workload& workload, bool images_given);

/// What a model answers for a job. Where the samples of an epoch are not known, a step stands for the whole epoch: in
/// prediction.time_sec, images_per_sec and breakdown.
struct JobAnswer {
  Workload workload;
  bool knows_epoch = true;  ///< total_sec, price and epochs_in_budget mean nothing otherwise
  Forecast job;
  std::string key;  ///< the workload's, empty in its unknown fields
};

/// @throws InputError as forecast()
[[nodiscard]] JobAnswer answer_job(const TimeRegressor& model, const Workload& workload, const JobTerms& terms,
                                   bool images_given);

}  // namespace perfpred
