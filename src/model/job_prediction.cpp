// SPDX-License-Identifier: Apache-2.0
#include <perfpred/job_prediction.h>

#include <limits>
#include <utility>

#include "model/refusal.h"
#include "model/unstated.h"
#include "workload/workload_columns.h"

namespace perfpred {

std::vector<JobPrediction> predict_each(const TimeRegressor& model, std::span<const Workload> workloads) {
  return predict_each(model, workloads, [](std::size_t, Estimate&) {});
}

std::vector<JobPrediction> predict_each(const TimeRegressor& model, std::span<const Workload> workloads,
                                        const std::function<void(std::size_t place, Estimate&)>& widen) {
  std::vector<JobPrediction> answers(workloads.size());
  const auto answered = [&](std::size_t place, JobEstimate estimate) {
    if (workloads[place].knows_epoch()) {
      widen(place, estimate.time);
    } else {
      answers[place].status = JobStatus::unstated;
      answers[place].error = lacking_epoch(workloads[place]);
    }
    answers[place].prediction = estimate.prediction();
    answers[place].prediction.time_sec = of_known_epoch(workloads[place], answers[place].prediction.time_sec);
  };
  JobVariants::predict_all(model, workloads, answered, [&](std::size_t place) {
    Refusal why = refusal();
    answers[place].status = why.status;
    answers[place].error = std::move(why.error);
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    answers[place].prediction.time_sec = {none, none, none};
  });
  return answers;
}

}  // namespace perfpred
