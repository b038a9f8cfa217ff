// SPDX-License-Identifier: Apache-2.0
#include "tools/job_answer.h"

#include <perfpred/error.h>
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

Workload with_tokens(Workload workload, std::int64_t train_tokens) {
  if (workload.input.size() != 1) {
    throw InputError("train_tokens is for networks of sequences; --train-images says how many samples an epoch has");
  }
  workload.train_images = (train_tokens + workload.input.front() - 1) / workload.input.front();
  return workload;
}

JobAnswer answer_job(const TimeRegressor& model, const Workload& workload, const JobTerms& asked, bool images_given,
                     const Prices& prices) {
  JobTerms terms = asked;
  terms.find_largest_batch = true;
  const auto price = prices.find(workload.device);
  if (!terms.price_per_hour && price != prices.end()) terms.price_per_hour = price->second.per_hour;
  JobAnswer answer = {workload,
                      images_given || !is_captured_step(workload.network),
                      forecast(model, workload, terms),
                      key_without(workload, unknown_fields(workload, images_given)),
                      {},
                      {}};
  if (!asked.price_per_hour && price != prices.end()) answer.currency = price->second.currency;
  answer.advice = fit_advice(model, workload, terms, answer.job, prices);
  if (answer.knows_epoch) return answer;
  Forecast& job = answer.job;
  const double share = job.step_sec.p50 / job.prediction.time_sec.p50;
  job.prediction.time_sec = job.step_sec;
  job.images_per_sec = ThroughputDeriver(epoch_steps(workload).samples).derive(job.step_sec);
  for (TimeTerm& term : job.breakdown) term.sec *= share;
  return answer;
}

}  // namespace perfpred
