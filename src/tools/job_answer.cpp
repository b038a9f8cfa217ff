// SPDX-License-Identifier: Apache-2.0
#include "tools/job_answer.h"

#include <perfpred/throughput_deriver.h>

#include "step/epoch_steps.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

std::string key_without(const Workload& workload, const std::vector<std::string>& fields) {
  std::string key = workload.key();
  for (const std::string& field : fields) {
    const std::size_t begin = key.find(";" + field + "=") + field.size() + 2;
    key.erase(begin, key.find(';', begin) - begin);
  }
  return key;
}

}  // namespace

std::vector<std::string> unknown_fields(const Workload& workload, bool images_given) {
  if (!is_captured_step(workload.network)) return {};
  std::vector<std::string> unknown = {"input", "classes", "optimizer"};
  if (!images_given) unknown.emplace_back("train_images");
  return unknown;
}

JobAnswer answer_job(const TimeRegressor& model, const Workload& workload, const JobTerms& terms, bool images_given) {
  JobAnswer answer = {workload, images_given || !is_captured_step(workload.network), forecast(model, workload, terms),
                      key_without(workload, unknown_fields(workload, images_given))};
  if (answer.knows_epoch) return answer;
  Forecast& job = answer.job;
  const double share = job.step_sec.p50 / job.prediction.time_sec.p50;
  job.prediction.time_sec = job.step_sec;
  job.images_per_sec = ThroughputDeriver(epoch_steps(workload).samples).derive(job.step_sec);
  for (TimeTerm& term : job.breakdown) term.sec *= share;
  return answer;
}

}  // namespace perfpred
