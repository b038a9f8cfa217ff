// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/forecast.h>
#include <perfpred/workload.h>

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/fit_advice.h"
#include "tools/prices.h"
#include "tools/workload_sweep.h"

namespace perfpred {

/// The fields that nobody knows of a workload, which holds stand-ins there: those of a captured step (network
/// `step:...`) that the step file does not say, and the samples of an epoch that it does not know.
[[nodiscard]] std::vector<std::string> unknown_fields(const Workload& workload);

/// What a model answers for a job.
struct JobAnswer {
  Workload workload;
  Forecast job;
  std::string key;  ///< the workload's, of a captured step empty in its unknown fields
  std::vector<FitAdvice> advice;
  std::string currency;                    ///< of the price; empty if it is not known
  std::vector<std::string> assumed = {};   ///< fields that the answer rests on and that nobody stated
  std::vector<std::string> left_out = {};  ///< what the answer does not hold, a line each
  std::int64_t batches = 1;                ///< of a step, whose gradients one update uses

  /// Seconds of an epoch, of a step where the workload does not know its epoch.
  [[nodiscard]] const Quantiles& sec() const { return workload.knows_epoch() ? job.prediction.time_sec : job.step_sec; }
};

/// `input=1024;padding=packed`, fields that the answer rests on and that nobody stated.
[[nodiscard]] std::string assumed_text(const JobAnswer& answer);

/// What is asked of a job besides its workload.
struct AskedTerms {
  JobTerms job;
  std::optional<std::int64_t> train_tokens;  ///< an epoch's, in place of its samples
  Prices prices;                             ///< of devices where the job has none
  std::string of_epochs = {};  ///< name of a term that is given and needs an epoch that is known; empty: none
  bool advises = true;         ///< otherwise the largest batch and the advice are left out, which take most of the time

  /// A workload of as many samples an epoch as hold so many tokens. @throws InputError if its samples are no sequences
  [[nodiscard]] Workload applied_to(Workload workload) const;
};

/// @throws InputError as forecast() and AskedTerms::applied_to(), and for AskedTerms::of_epochs
[[nodiscard]] JobAnswer answer_job(const TimeRegressor& model, const Workload& workload, const AskedTerms& terms);

/// answer_job() of each row that has a workload, with what the row left unstated; nothing for the others and for those
/// that it refuses, whose error says why.
/// @param prepare  called before each answer; an InputError of it is the row's, too
/// @throws InputError, the first error, if no row has an answer; if there are prices and none is of a row's device
[[nodiscard]] std::vector<std::optional<JobAnswer>> answer_rows(const TimeRegressor& model, std::span<AskedRow> rows,
                                                                AskedTerms terms,
                                                                const std::function<void(const Workload&)>& prepare);

/// `2 of 10 rows have no answer; the first: configs.csv:3: ...`; empty if all have one.
[[nodiscard]] std::string unanswered_text(std::span<const AskedRow> rows);

}  // namespace perfpred
