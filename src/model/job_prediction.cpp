// SPDX-License-Identifier: Apache-2.0
#include <perfpred/job_prediction.h>

#include <limits>
#include <utility>

#include "model/refusal.h"
#include "model/unstated.h"
#include "workload/workload_columns.h"

namespace perfpred {

std::vector<JobPrediction> predict_each(const TimeRegressor& model, std::span<const Workload> workloads) {
  std::vector<Prediction> predictions(workloads.size());
  std::vector<JobPrediction> answers(workloads.size());
  JobVariants::predict_all(model, workloads, predictions, [&](std::size_t place) {
    Refusal why = refusal();
    answers[place].status = why.status;
    answers[place].error = std::move(why.error);
    constexpr double none = std::numeric_limits<double>::quiet_NaN();
    predictions[place].time_sec = {none, none, none};
  });
  for (std::size_t i = 0; i < answers.size(); ++i) {
    answers[i].prediction = predictions[i];
    if (answers[i].status != JobStatus::ok || workloads[i].knows_epoch()) continue;
    answers[i].status = JobStatus::unstated;
    answers[i].error = lacking_epoch(workloads[i]);
  }
  return answers;
}

}  // namespace perfpred
