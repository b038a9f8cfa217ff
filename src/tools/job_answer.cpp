// SPDX-License-Identifier: Apache-2.0
#include "tools/job_answer.h"

#include <perfpred/error.h>
#include <perfpred/throughput_deriver.h>

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "step/epoch_steps.h"
#include "step/graph_folder.h"
#include "step/parts_needed.h"
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

std::vector<std::optional<JobAnswer>> answer_rows(const TimeRegressor& model, std::span<AskedRow> rows,
                                                  AskedTerms terms, bool images_given,
                                                  const std::function<void(const Workload&)>& prepare) {
  std::set<std::string> devices;
  for (const AskedRow& row : rows) {
    if (row.workload) devices.insert(row.workload->device);
  }
  if (!terms.job.price_per_hour) check_priced(terms.prices, devices);
  std::vector<std::optional<JobAnswer>> answers(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!rows[i].workload) continue;
    terms.job.unstated = rows[i].unstated;
    try {
      prepare(*rows[i].workload);
      answers[i] = answer_job(model, *rows[i].workload, terms, images_given);
    } catch (const InputError& error) {
      rows[i].error = rows[i].place + error.what();
    }
  }
  check_some(rows);
  return answers;
}

std::string unanswered_text(std::span<const AskedRow> rows) {
  const auto has_error = [](const AskedRow& row) { return !row.error.empty(); };
  const auto first = std::find_if(rows.begin(), rows.end(), has_error);
  if (first == rows.end()) return {};
  return fmt::format("{} of {} rows have no answer; the first: {}", std::count_if(first, rows.end(), has_error),
                     rows.size(), first->error);
}

std::vector<std::string> unknown_fields(const Workload& workload, bool images_given) {
  if (!is_captured_step(workload.network)) return {};
  std::vector<std::string> unknown = {"input", "classes", "optimizer"};
  if (!images_given) unknown.emplace_back("train_images");
  return unknown;
}

Workload AskedTerms::applied_to(Workload workload) const {
  if (!train_tokens) return workload;
  const std::int64_t positions = positions_of_sample(workload);
  if (positions == 0) {
    throw InputError("train_tokens is for networks of sequences; train_images says how many samples an epoch has");
  }
  workload.train_images = parts_needed(*train_tokens, positions);
  return workload;
}

JobAnswer answer_job(const TimeRegressor& model, const Workload& asked, const AskedTerms& given, bool images_given) {
  images_given = images_given || given.train_tokens;
  const Workload workload = given.applied_to(asked);
  const Prices& prices = given.prices;
  JobTerms terms = given.job;
  terms.find_largest_batch = given.advises;
  const auto price = prices.find(workload.device);
  if (!terms.price_per_hour && price != prices.end()) terms.price_per_hour = price->second.per_hour;
  JobAnswer answer = {workload,
                      images_given || !is_captured_step(workload.network),
                      forecast(model, workload, terms),
                      key_without(workload, unknown_fields(workload, images_given)),
                      {},
                      {}};
  const auto& unstated = terms.unstated;
  const bool has_length = workload.input.size() == 1 && !is_captured_step(workload.network);
  if (has_length && std::ranges::find(unstated, "input") != unstated.end()) answer.assumed = {"input"};
  answer.batches = batches_per_step(workload);
  if (!given.job.price_per_hour && price != prices.end()) answer.currency = price->second.currency;
  if (given.advises) answer.advice = fit_advice(model, workload, terms, answer.job, prices);
  if (answer.knows_epoch) return answer;
  Forecast& job = answer.job;
  const double share = job.step_sec.p50 / job.prediction.time_sec.p50;
  job.prediction.time_sec = job.step_sec;
  job.images_per_sec = ThroughputDeriver(samples_per_step(workload)).derive(job.step_sec);
  if (job.tokens_per_sec) {
    const auto positions = static_cast<double>(positions_of_sample(workload));
    const Quantiles& samples = job.images_per_sec;
    job.tokens_per_sec = Quantiles{positions * samples.p05, positions * samples.p50, positions * samples.p95};
  }
  for (TimeTerm& term : job.breakdown) term.sec *= share;
  return answer;
}

}  // namespace perfpred
