// SPDX-License-Identifier: Apache-2.0
#include "answer/answer_json.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <array>
#include <cmath>
#include <cstdint>
#include <string_view>
#include <utility>
#include <vector>

#include "text/enum_names.h"
#include "text/json.h"
#include "text/parse.h"
#include "workload/workload_columns.h"

namespace perfpred {

nlohmann::json to_json(const Quantiles& q) { return {{"p05", q.p05}, {"p50", q.p50}, {"p95", q.p95}}; }

nlohmann::json to_json(const MemoryBound& bytes) { return {{"p50", bytes.p50}, {"upper", bytes.upper}}; }

nlohmann::json limits_json(const ScalingLimits& limits) {
  return {{"loader", limits.loader},
          {"host", limits.host},
          {"links", limits.links},
          {"batch", limits.batch},
          {"bubble", limits.bubble}};
}

namespace {

/// What is held at the peak, by kind.
constexpr std::array<std::pair<const char*, std::int64_t MemoryEstimate::*>, 7> memory_parts = {
    {{"parameters", &MemoryEstimate::parameters},
     {"gradients", &MemoryEstimate::gradients},
     {"optimizer", &MemoryEstimate::optimizer},
     {"activations", &MemoryEstimate::activations},
     {"loader", &MemoryEstimate::loader},
     {"workspace", &MemoryEstimate::workspace},
     {"context", &MemoryEstimate::context}}};

nlohmann::json memory_json(const Forecast& job) {
  if (!job.memory) return nullptr;
  nlohmann::json memory = {{"tensors", to_json(job.memory->tensors)},
                           {"reserved", to_json(job.memory->reserved)},
                           {"device", to_json(job.memory->device)},
                           {"usable", or_null(job.usable_bytes)}};
  if (job.memory->given_back > 0) memory["given_back"] = job.memory->given_back;
  for (const auto& [name, bytes] : memory_parts) memory["parts"][name] = (*job.memory).*bytes;
  return memory;
}

nlohmann::json scaling_json(const Forecast& job) {
  if (!job.scaling) return nullptr;
  const Scaling& scaling = *job.scaling;
  return {{"devices", scaling.devices},
          {"efficiency", scaling.efficiency},
          {"exposed_comm_sec", scaling.exposed_comm_sec},
          {"critical_bucket_bytes", scaling.critical_bucket_bytes},
          {"intra_gb_s", scaling.intra_gb_s},
          {"inter_gb_s", scaling.inter_gb_s},
          {"limits", limits_json(scaling.limits)}};
}

std::optional<Scaling> scaling_of(const nlohmann::json& document) {
  const nlohmann::json& json = document.at("scaling");
  if (json.is_null()) return std::nullopt;
  const auto number = [](const nlohmann::json& object, const char* key) { return object.at(key).get<double>(); };
  const nlohmann::json& limits = json.at("limits");
  Scaling scaling;
  scaling.devices = json.at("devices").get<std::int64_t>();
  scaling.efficiency = number(json, "efficiency");
  scaling.exposed_comm_sec = number(json, "exposed_comm_sec");
  scaling.critical_bucket_bytes = number(json, "critical_bucket_bytes");
  scaling.intra_gb_s = number(json, "intra_gb_s");
  scaling.inter_gb_s = number(json, "inter_gb_s");
  scaling.limits = {number(limits, "loader"), number(limits, "host"), number(limits, "links"), number(limits, "batch"),
                    number(limits, "bubble")};
  return scaling;
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

nlohmann::json texts_json(const TextBatches& texts) {
  return {{"texts", or_null(texts.texts)},
          {"mean", texts.mean},
          {"p95", texts.p95},
          {"max", texts.max},
          {"width", texts.width},
          {"longest", texts.longest},
          {"padding_share", texts.padding_share},
          {"packed_time_factor", or_null(texts.packed_time_factor)}};
}

/// Keys that an answer has where their terms were given.
void add_asked(nlohmann::json& json, const Answer& answer) {
  if (answer.texts) json["lengths"] = texts_json(*answer.texts);
  if (!answer.forecast.quantiles.empty()) json["quantiles"] = quantiles_json(answer);
  if (answer.forecast.evaluation_sec) json["evaluation_sec"] = to_json(*answer.forecast.evaluation_sec);
  if (answer.forecast.epochs_in_budget) json["epochs_in_budget"] = to_json(*answer.forecast.epochs_in_budget);
  if (!answer.currency.empty()) json["currency"] = answer.currency;
}

Quantiles quantiles_of(const nlohmann::json& json) {
  return {json.at("p05").get<double>(), json.at("p50").get<double>(), json.at("p95").get<double>()};
}

/// Nothing where the key is missing or null.
std::optional<Quantiles> quantiles_of(const nlohmann::json& document, const char* key) {
  const auto found = document.find(key);
  return found == document.end() || found->is_null() ? std::nullopt : std::optional(quantiles_of(*found));
}

template <class Value>
std::optional<Value> optional_of(const nlohmann::json& value) {
  return value.is_null() ? std::nullopt : std::optional(value.get<Value>());
}

/// A word of an enumeration, by its last value. @throws InputError for another word
template <auto last>
decltype(last) word_of(const nlohmann::json& value) {
  const auto word = value.get<std::string>();
  if (const auto found = enumerator_named<last>(word)) return *found;
  throw InputError(fmt::format("\"{}\" is no word of an answer", shown(word)));
}

/// Of a key in which the fields that nobody knows are empty.
Workload workload_of(const std::string& key) {
  std::vector<std::string_view> texts(workload_columns().size());
  std::string_view rest = key;
  while (!rest.empty()) {
    const std::string_view field = rest.substr(0, rest.find(';'));
    rest.remove_prefix(std::min(field.size() + 1, rest.size()));
    const std::size_t name = std::min(field.find('='), field.size());
    const WorkloadColumn& column = workload_column(field.substr(0, name));
    texts[static_cast<std::size_t>(&column - workload_columns().data())] =
        field.substr(std::min(name + 1, field.size()));
  }
  Workload workload;
  set_fields(workload, texts, {{}, 0, "key"});
  return workload;
}

std::optional<MemoryEstimate> memory_of(const nlohmann::json& document) {
  const nlohmann::json& memory = document.at("memory");
  if (memory.is_null()) return std::nullopt;
  const auto bound = [&](const char* name) {
    return MemoryBound{memory.at(name).at("p50").get<std::int64_t>(), memory.at(name).at("upper").get<std::int64_t>()};
  };
  MemoryEstimate estimate;
  estimate.peak_bytes = document.at("memory_bytes").get<std::int64_t>();
  estimate.tensors = bound("tensors");
  estimate.reserved = bound("reserved");
  estimate.device = bound("device");
  estimate.given_back = memory.value("given_back", std::int64_t{0});
  if (const auto parts = memory.find("parts"); parts != memory.end()) {
    for (const auto& [name, bytes] : memory_parts) estimate.*bytes = parts->at(name).get<std::int64_t>();
  }
  return estimate;
}

/// What a forecast says of time.
void read_time(Forecast& job, const nlohmann::json& document) {
  job.step_sec = quantiles_of(document.at("step_sec"));
  job.images_per_sec = quantiles_of(document.at("images_per_sec"));
  job.tokens_per_sec = quantiles_of(document, "tokens_per_sec");
  if (const auto sec = quantiles_of(document, "time_sec")) job.prediction.time_sec = *sec;
  if (const auto sec = quantiles_of(document, "total_sec")) job.total_sec = *sec;
  job.evaluation_sec = quantiles_of(document, "evaluation_sec");
  if (const std::string reason = document.at("reason").get<std::string>(); !reason.empty())
    job.prediction.reason = word_of<DomainViolation::other_cluster>(reason);
  job.prediction.provenance = word_of<Provenance::bytes>(document.at("provenance"));
  if (const auto found = document.find("quantiles"); found != document.end()) {
    for (const auto& one : *found) {
      job.quantiles.push_back({one.at("q").get<double>(), one.at("step_sec").get<double>(),
                               optional_of<double>(one.at("total_sec")).value_or(0)});
    }
  }
  if (const nlohmann::json& terms = document.at("breakdown"); !terms.is_null()) {
    for (const auto& term : terms)
      job.breakdown.push_back({term.at("op").get<std::string>(), term.at("sec").get<double>()});
  }
  for (std::size_t i = 0; i < document.at("narrow_by").size(); ++i) {
    job.narrow_by.push_back(
        {document["narrow_by"][i].get<std::string>(), std::log(document.at("narrow_to").at(i).get<double>()) / 2});
  }
}

/// What it says of the device.
void read_limits(Forecast& job, const nlohmann::json& document) {
  job.price = quantiles_of(document, "price");
  job.epochs_in_budget = quantiles_of(document, "epochs_in_budget");
  job.memory = memory_of(document);
  if (job.memory) job.usable_bytes = optional_of<std::int64_t>(document["memory"].at("usable"));
  if (const nlohmann::json& verdict = document.at("verdict"); !verdict.is_null())
    job.verdict = word_of<MemoryVerdict::does_not_fit>(verdict);
  if (const nlohmann::json& bound = document.at("bound"); !bound.is_null()) job.bound = word_of<Bound::data>(bound);
  job.largest_batch = optional_of<std::int64_t>(document.at("largest_batch"));
  job.mfu = optional_of<double>(document.at("mfu"));
  job.scaling = scaling_of(document);
  if (const auto rank = document.find("rank"); rank != document.end()) {
    const auto place = [&](const char* key) { return rank->at(key).get<std::int64_t>(); };
    job.rank = {place("stage"), place("tp"), place("ep")};
  }
  job.unknown_bytes = document.at("unknown_bytes").get<double>();
}

TextBatches texts_of(const nlohmann::json& json) {
  const auto whole = [&](const char* key) { return json.at(key).get<std::int64_t>(); };
  const auto number = [&](const char* key) { return json.at(key).get<double>(); };
  return {optional_of<std::int64_t>(json.at("texts")),
          number("mean"),
          whole("p95"),
          whole("max"),
          number("width"),
          whole("longest"),
          number("padding_share"),
          optional_of<double>(json.at("packed_time_factor"))};
}

Answer read_answer(const nlohmann::json& document) {
  Answer answer{};
  answer.key = document.at("key").get<std::string>();
  answer.currency = document.value("currency", std::string());
  answer.workload = workload_of(answer.key);
  if (document.at("time_sec").is_null())
    answer.workload.train_images = EpochSamples::unstated(answer.workload.train_images);
  read_time(answer.forecast, document);
  read_limits(answer.forecast, document);
  for (const auto& one : document.at("fit_advice")) {
    answer.advice.push_back({one.at("change").get<std::string>(), one.at("memory_bytes").get<std::int64_t>(),
                             one.at("time_factor").get<double>(),
                             word_of<MemoryVerdict::does_not_fit>(one.at("verdict"))});
  }
  for (const auto& item : document.at("assumed").items()) answer.assumed.push_back(item.key());
  answer.left_out = document.at("left_out").get<std::vector<std::string>>();
  answer.batches = document.at("batches_per_step").get<std::int64_t>();
  if (const auto texts = document.find("lengths"); texts != document.end()) answer.texts = texts_of(*texts);
  return answer;
}

}  // namespace

Answer answer_of(const nlohmann::json& document) {
  try {
    return read_answer(document);
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("this is no answer: {}", json_complaint(error)));
  }
}

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
  for (const std::string& field : answer.assumed) assumed[field] = answer.assumed_value(field);
  nlohmann::json json = {{"key", answer.key},
                         {"assumed", assumed},
                         {"left_out", answer.left_out},
                         {"batches_per_step", answer.batches},
                         {"params", or_null(answer.params)},
                         {"flops", or_null(answer.flops)},
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
                         {"scaling", scaling_json(job)}};
  if (job.rank) json["rank"] = {{"stage", job.rank->stage}, {"tp", job.rank->tp}, {"ep", job.rank->ep}};
  add_asked(json, answer);
  if (answer.workload.knows_epoch()) return json;
  for (const char* key : {"time_sec", "total_sec", "price"}) json[key] = nullptr;
  return json;
}

std::string json_text(const Answer& answer) { return dumped(to_json(answer), 2); }

}  // namespace perfpred
