// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/forecast.h>
#include <perfpred/workload.h>

#include <string>
#include <vector>

#include "tools/fit_advice.h"
#include "tools/prices.h"

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
  std::vector<FitAdvice> advice;
  std::string currency;  ///< of the price; empty if it is not known
};

/// A workload of as many samples an epoch as hold so many tokens. @throws InputError if its samples are no sequences
[[nodiscard]] Workload with_tokens(Workload workload, std::int64_t train_tokens);

/// @param prices  of devices where the terms have none
/// @throws InputError as forecast()
[[nodiscard]] JobAnswer answer_job(const TimeRegressor& model, const Workload& workload, const JobTerms& terms,
                                   bool images_given, const Prices& prices = {});

}  // namespace perfpred
