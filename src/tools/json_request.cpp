// SPDX-License-Identifier: Apache-2.0
#include "tools/json_request.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>
#include <span>
#include <utility>

#include "answer/prices.h"
#include "text/json.h"
#include "text/parse.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

constexpr const char* id_key = "id";

struct Term {
  std::string_view name;
  void (*set)(AnswerTerms& terms, std::string_view text, const ValuePlace& place);
  bool of_epochs = false;  ///< AnswerTerms::of_epochs
};

constexpr std::array<Term, 7> job_terms = {{
    {"epochs",
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.job.epochs = parse_positive(text, p); }, true},
    {"startup_sec",
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.job.startup_sec = parse_seconds(text, p); },
     true},
    {"price_per_hour",
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) {
       t.job.price_per_hour = parse_non_negative(text, p);
     },
     true},
    {"budget_sec",
     [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.job.budget_sec = parse_seconds(text, p); },
     true},
    {"train_tokens", [](AnswerTerms& t, std::string_view text,
                        const ValuePlace& p) { t.train_tokens = parse_positive_integer(text, p); }},
    {"reserved_by_others", [](AnswerTerms& t, std::string_view text,
                              const ValuePlace& p) { t.job.reserved_by_others = parse_integer(text, p); }},
    {"fit_advice", [](AnswerTerms& t, std::string_view text, const ValuePlace& p) { t.advises = parse_flag(text, p); }},
}};

/// Whether a step file decides the field.
bool is_of_file(const WorkloadColumn& column) {
  return column.of_step || column.of_cifar_cnn || column.name == "network" || column.name == "precision";
}

bool is_passed_over(const std::string& name, const nlohmann::json& value, bool has_terms) {
  return value.is_null() || (name == id_key && has_terms);
}

/// A number or a list of numbers.
std::vector<double> quantiles_of(const nlohmann::json& value) {
  const auto fail = [&] { throw_bad_value({{}, 0, "quantiles"}, dumped(value), "a list of numbers such as 0.99"); };
  std::vector<double> quantiles;
  for (const auto& one : value.is_array() ? value : nlohmann::json::array({value})) {
    if (!one.is_number()) fail();
    quantiles.push_back(one.get<double>());
  }
  return quantiles;
}

/// Takes a term that may have several values. @returns whether it is one
bool take_many(AnswerTerms& terms, std::string_view name, const nlohmann::json& value, const ModelRequests& requests) {
  if (name == "prices") {
    terms.prices = prices_of(value, requests.catalogue());
    terms.of_epochs = name;
  } else if (name == "quantiles") {
    terms.job.quantiles = quantiles_of(value);
  } else {
    return false;
  }
  return true;
}

/// @param known  the terms that the request may have
AskedJob read(const ModelRequests& requests, const nlohmann::json& request, const AnswerTerms& terms,
              std::span<const Term> known) {
  if (request.contains("config") && request.contains("network")) throw InputError("network and config are both given");
  AskedJob asked{{}, terms, {}};
  std::vector<SweptField> fields;
  std::optional<std::string> step;
  for (const auto& item : request.items()) {
    const std::string& name = item.key();
    const nlohmann::json& value = item.value();
    if (is_passed_over(name, value, !known.empty())) continue;
    if (!known.empty() && take_many(asked.terms, name, value, requests)) continue;
    const std::string given = option_text(name, value);
    const auto term = std::find_if(known.begin(), known.end(), [&](const Term& one) { return one.name == name; });
    if (name == "step") {
      step = given;
    } else if (term == known.end()) {
      fields.push_back(with_configs({name, {given}}));
    } else {
      term->set(asked.terms, given, {{}, 0, name});
      if (term->of_epochs) asked.terms.of_epochs = name;
    }
  }
  if (step) {
    const StepFile file = add_graph(*step);
    for (const std::string& note : file.notes()) asked.notes.push_back(fmt::format("{}: {}", *step, note));
    add_step_fields(fields, file);
  }
  asked.workload = requests.of_fields(fields);
  asked.terms.job.unstated = requests.unstated(fields);
  if (request.contains("prices") && !asked.terms.job.price_per_hour)
    check_priced(asked.terms.prices, {asked.workload.device});
  return asked;
}

}  // namespace

std::string option_text(std::string_view name, const nlohmann::json& value) {
  constexpr std::array<std::string_view, 4> flags = {"compiled", "cuda_graph", "fit_advice", "pareto"};
  if (value.is_string()) return value.get<std::string>();
  if (value.is_boolean() && std::find(flags.begin(), flags.end(), name) != flags.end())
    return value.get<bool>() ? "1" : "0";
  if (value.is_number()) return dumped(value);
  const bool sizes = name == "input" && value.is_array() && !value.empty() &&
                     std::all_of(value.begin(), value.end(), [](const auto& one) { return one.is_number(); });
  if (!sizes)
    throw_bad_value({{}, 0, name}, dumped(value), name == "input" ? "a text or a list of sizes" : "a text or a number");
  std::string text;
  for (const auto& size : value) text += (text.empty() ? "" : "x") + dumped(size);
  return text;
}

void add_step_fields(std::vector<SweptField>& fields, const StepFile& file, std::string_view swept) {
  for (const WorkloadColumn& column : workload_columns()) {
    if (!is_of_file(column)) continue;
    if (is_given(fields, std::string(column.name)) || swept == column.name)
      throw InputError(fmt::format("{} is given; a step file has its own", column.name));
  }
  fields.push_back({"network", {file.name()}});
  fields.push_back({"precision", {std::string(to_string(file.precision()))}});
  if (file.compiled() && !is_given(fields, "compiled") && !is_given(fields, "software") && swept != "compiled")
    fields.push_back({"compiled", {"1"}});
  if (!is_given(fields, "batch_size") && swept != "batch_size")
    fields.push_back({"batch_size", {std::to_string(file.batch_size())}});
}

nlohmann::json parse_request(std::string_view text) {
  return parse_object(text, "a request is a JSON object of workload fields");
}

Prices prices_of(const nlohmann::json& value, const DeviceCatalogue& devices) {
  if (value.is_string()) return read_prices(value.get<std::string>(), devices);
  if (!value.is_object())
    throw InputError(fmt::format("prices {} is neither the path of a table nor prices by device", dumped(value)));
  Prices prices;
  for (const auto& item : value.items()) {
    if (!item.value().is_number()) throw InputError(fmt::format("prices: that of \"{}\" is not a number", item.key()));
    add_price(prices, item.key(), {item.value().get<double>(), {}}, devices, "prices: ");
  }
  return prices;
}

AskedJob read_request(const ModelRequests& requests, const nlohmann::json& request, const AnswerTerms& terms) {
  return read(requests, request, terms, job_terms);
}

AskedJob read_workload(const ModelRequests& requests, std::string_view text) {
  return read(requests, parse_request(text), {}, {});
}

void echo_id(nlohmann::json& answer, const nlohmann::json& request) {
  if (const auto id = request.find(id_key); id != request.end()) answer[id_key] = *id;
}

}  // namespace perfpred
