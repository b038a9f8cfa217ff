// SPDX-License-Identifier: Apache-2.0
#include "answer/answer_json.h"

#include <cmath>
#include <vector>

#include "text/json.h"
#include "workload/workload_columns.h"

namespace perfpred {

nlohmann::json to_json(const Quantiles& q) { return {{"p05", q.p05}, {"p50", q.p50}, {"p95", q.p95}}; }

namespace {

nlohmann::json memory_json(const Forecast& job) {
  if (!job.memory) return nullptr;
  const auto bound = [](const MemoryBound& bytes) {
    return nlohmann::json{{"p50", bytes.p50}, {"upper", bytes.upper}};
  };
  return {{"tensors", bound(job.memory->tensors)},
          {"reserved", bound(job.memory->reserved)},
          {"device", bound(job.memory->device)},
          {"usable", or_null(job.usable_bytes)}};
}

nlohmann::json advice_json(const std::vector<Advice>& advice) {
  nlohmann::json list = nlohmann::json::array();
  for (const Advice& one : advice) {
    list.push_back({{"change", one.change},
                    {"memory_bytes", one.memory_bytes},
                    {"time_factor", one.time_factor},
                    {"verdict", to_string(one.verdict)}});
  }
  return list;
}

nlohmann::json quantiles_json(const Answer& answer) {
  nlohmann::json list = nlohmann::json::array();
  for (const QuantileOfJob& one : answer.forecast.quantiles) {
    const nlohmann::json total = answer.workload.knows_epoch() ? nlohmann::json(one.total_sec) : nlohmann::json();
    list.push_back({{"q", one.q}, {"step_sec", one.step_sec}, {"total_sec", total}});
  }
  return list;
}

/// Keys that an answer has where their terms were given.
void add_asked(nlohmann::json& json, const Answer& answer) {
  if (!answer.forecast.quantiles.empty()) json["quantiles"] = quantiles_json(answer);
  if (answer.forecast.epochs_in_budget) json["epochs_in_budget"] = to_json(*answer.forecast.epochs_in_budget);
  if (!answer.currency.empty()) json["currency"] = answer.currency;
}

}  // namespace

nlohmann::json to_json(const Answer& answer) {
  const Forecast& job = answer.forecast;
  nlohmann::json breakdown = nlohmann::json::array();
  for (const TimeTerm& term : job.breakdown) {
    breakdown.push_back({{"op", term.op}, {"sec", term.sec}, {"share", term.sec / answer.sec().p50}});
  }
  nlohmann::json narrow_by = nlohmann::json::array(), narrow_to = nlohmann::json::array();
  for (const Narrowing& narrowing : job.narrow_by) {
    narrow_by.push_back(narrowing.field);
    narrow_to.push_back(std::exp(2 * narrowing.half_width));
  }
  nlohmann::json assumed = nlohmann::json::object();
  for (const std::string& field : answer.assumed) assumed[field] = field_text(answer.workload, field);
  nlohmann::json json = {{"key", answer.key},
                         {"assumed", assumed},
                         {"left_out", answer.left_out},
                         {"batches_per_step", answer.batches},
                         {"time_sec", to_json(job.prediction.time_sec)},
                         {"images_per_sec", to_json(job.images_per_sec)},
                         {"total_sec", to_json(job.total_sec)},
                         {"price", job.price ? to_json(*job.price) : nlohmann::json()},
                         {"memory_bytes", job.memory ? nlohmann::json(job.memory->peak_bytes) : nlohmann::json()},
                         {"memory", memory_json(job)},
                         {"largest_batch", or_null(job.largest_batch)},
                         {"fit_advice", advice_json(answer.advice)},
                         {"verdict", job.verdict ? nlohmann::json(to_string(*job.verdict)) : nlohmann::json()},
                         {"fits", job.verdict ? nlohmann::json(*job.verdict == MemoryVerdict::fits) : nlohmann::json()},
                         {"tokens_per_sec", job.tokens_per_sec ? to_json(*job.tokens_per_sec) : nlohmann::json()},
                         {"mfu", or_null(job.mfu)},
                         {"bound", job.bound ? nlohmann::json(to_string(*job.bound)) : nlohmann::json()},
                         {"breakdown", breakdown.empty() ? nlohmann::json() : breakdown},
                         {"step_sec", to_json(job.step_sec)},
                         {"provenance", to_string(job.prediction.provenance)},
                         {"unknown_bytes", job.unknown_bytes},
                         {"in_domain", job.prediction.in_domain()},
                         {"reason", to_string(job.prediction.reason)},
                         {"narrow_by", narrow_by},
                         {"narrow_to", narrow_to},
                         {"scaling", nullptr}};  // of several devices: not answered yet
  add_asked(json, answer);
  if (answer.workload.knows_epoch()) return json;
  for (const char* key : {"time_sec", "total_sec", "price"}) json[key] = nullptr;
  return json;
}

std::string json_text(const Answer& answer) { return dumped(to_json(answer), 2); }

}  // namespace perfpred
