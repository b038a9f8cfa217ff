// SPDX-License-Identifier: Apache-2.0
#include "tools/plan_answer.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <iterator>

#include "aggregate/figures.h"
#include "text/csv.h"
#include "text/json.h"
#include "text/parse.h"
#include "tools/json_request.h"

namespace perfpred {
namespace {

using nlohmann::json;

json to_json(const PlannedRun& run, const RunPlan& plan, const PlanTerms& terms) {
  json fields = json::object();
  for (const std::string& field : plan.fields) fields[field] = field_text(run.workload, field);
  return {{"key", run.workload.key()},
          {"depth", or_null(run.workload.depth())},
          {"base_filters", or_null(run.workload.base_filters())},
          {"batch_size", run.workload.batch_size},
          {"cost_sec", run.cost_sec},
          {"value", run.value},
          {"device", run.device},
          {"start_sec", run.start_sec},
          {"in_domain", run.reason == DomainViolation::none},
          {"reason", to_string(run.reason)},
          {"provenance", run.provenance ? json(to_string(*run.provenance)) : json()},
          {"fields", std::move(fields)},
          {"price", or_null(terms.price(run))}};
}

/// Of a run that is not in the plan, and starts nowhere.
json unscheduled_json(const PlannedRun& run, const RunPlan& plan, const PlanTerms& terms) {
  json row = to_json(run, plan, terms);
  row.erase("start_sec");
  return row;
}

struct Option {
  std::string_view name;
  void (*set)(PlanTerms& terms, std::string_view text, const ValuePlace& place);
};

constexpr std::array<Option, 10> plan_options = {{
    {"budget_sec", [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.given_sec = parse_seconds(s, p); }},
    {"epochs",
     [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.request.epochs = parse_positive_integer(s, p); }},
    {"min_acc", [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.request.min_acc = parse_finite(s, p); }},
    {"value", [](PlanTerms& t, std::string_view s, const ValuePlace&) { t.value_of = s; }},
    {"objective", [](PlanTerms& t, std::string_view s, const ValuePlace&) { t.objective = s; }},
    {"confidence",
     [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.request.confidence = parse_finite(s, p); }},
    {"startup_sec",
     [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.request.startup_sec = parse_seconds(s, p); }},
    {"price_per_hour",
     [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.price_per_hour = parse_non_negative(s, p); }},
    {"time_limit_sec",
     [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.request.limits.time_sec = parse_seconds(s, p); }},
    {"pareto", [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.pareto = parse_flag(s, p); }},
}};

constexpr std::int64_t max_gpus = 10'000;

void set_gpus(PlanTerms& terms, std::string_view text, const ValuePlace& place) {
  const std::int64_t gpus = parse_positive_integer(text, place);
  if (gpus > max_gpus) throw_bad_value(place, text, fmt::format("at most {}", max_gpus));
  terms.gpus = static_cast<std::size_t>(gpus);
}

void set_devices(PlanTerms& terms, const json& names) {
  const bool texts = names.is_array() && std::all_of(names.begin(), names.end(), [](const json& one) {
                       return one.is_string() && !one.get<std::string>().empty();
                     });
  if (!texts || names.empty()) throw_bad_value({{}, 0, "devices"}, dumped(names), "a list of names");
  for (const json& name : names) terms.devices.push_back(name.get<std::string>());
}

}  // namespace

void PlanTerms::complete_request() {
  if (value_of != "acc" && value_of != "thr") throw_bad_value({{}, 0, "value"}, value_of, "acc or thr");
  request.value = value_of == "acc" ? PlanValue::accuracy : PlanValue::throughput;
  const auto* known = std::find_if(plan_objectives.begin(), plan_objectives.end(),
                                   [&](const auto& one) { return one.first == objective; });
  if (known == plan_objectives.end())
    throw_bad_value({{}, 0, "objective"}, objective, "sum, best, cover-depth or cover-architecture");
  request.objective = known->second;
  request.devices.assign(devices.empty() ? gpus : devices.size(), {"", budget_sec()});
  for (std::size_t d = 0; d < devices.size(); ++d) request.devices[d].name = devices[d];
}

std::optional<double> PlanTerms::price(const PlannedRun& run) const {
  if (!price_per_hour && prices.empty()) return std::nullopt;
  const auto found = prices.find(run.workload.device);
  if (!price_per_hour && found == prices.end())
    throw InputError(fmt::format("prices has no device \"{}\"", run.workload.device));
  const double per_hour = price_per_hour ? *price_per_hour : found->second.per_hour;
  const double price = per_hour * static_cast<double>(run.cost_sec) / 3600;
  if (!std::isfinite(price)) throw InputError(fmt::format("price_per_hour {} is too much", per_hour));
  return price;
}

std::optional<double> PlanTerms::price(const RunPlan& plan) const {
  if (!price_per_hour && prices.empty()) return std::nullopt;
  double sum = 0;
  for (const PlannedRun& run : plan.runs) sum += *price(run);
  if (!std::isfinite(sum)) throw InputError("the price of the plan is too much");
  return sum;
}

std::string PlanTerms::currency() const { return prices.empty() ? std::string() : prices.begin()->second.currency; }

PlanTerms read_plan_terms(const json& options, std::span<const std::string_view> other) {
  if (!options.is_object()) throw InputError("the options of a plan are a JSON object");
  PlanTerms terms;
  for (const auto& item : options.items()) {
    const std::string& name = item.key();
    const json& value = item.value();
    if (value.is_null() || std::find(other.begin(), other.end(), name) != other.end()) continue;
    const ValuePlace place{{}, 0, name};
    const auto* known =
        std::find_if(plan_options.begin(), plan_options.end(), [&](const Option& one) { return one.name == name; });
    if (name == "devices") {
      set_devices(terms, value);
    } else if (name == "gpus") {
      set_gpus(terms, option_text(name, value), place);
    } else if (known == plan_options.end()) {
      throw InputError(fmt::format("\"{}\" is not an option of a plan", shown(name)));
    } else {
      known->set(terms, option_text(name, value), place);
    }
  }
  for (const char* needed : {"budget_sec", "epochs"}) {
    if (!options.contains(needed) || options[needed].is_null()) throw InputError(fmt::format("{} is missing", needed));
  }
  if (options.contains("prices") && terms.price_per_hour) throw InputError("price_per_hour and prices are both given");
  if (options.contains("gpus") && !terms.devices.empty()) throw InputError("gpus and devices are both given");
  terms.complete_request();
  return terms;
}

PlanCandidates read_candidates(const std::string& path, const ModelRequests& requests) {
  CsvReader csv(path);
  const auto& header = csv.header();
  if (std::find(header.begin(), header.end(), "avg_time_mean") != header.end()) return {read_aggregate(path), {}};
  std::vector<AskedRow> asked = requests.of_table(path);
  check_some(asked);
  const CsvColumn accuracy = csv.optional("acc_mean");
  PlanCandidates candidates;
  for (AskedRow& one : asked) {
    (void)csv.next();
    if (!one.workload) {
      const std::string what = one.error.substr(one.place.size());
      candidates.left_out.push_back({one.place.substr(0, one.place.rfind(':')), what});
      continue;
    }
    AggregateRow& row = candidates.rows.emplace_back();
    row.workload = std::move(*one.workload);
    if (csv.text(accuracy).empty()) continue;
    row.acc_mean = csv.finite(accuracy);
    row.acc_std = 0;
    check_figures(row, csv.place({}));
  }
  return candidates;
}

std::vector<Workload> timed_workloads(std::span<const AggregateRow> rows, const PlanRequest& request,
                                      const TimeRegressor& model) {
  std::vector<Workload> timed;
  for (const AggregateRow& row : rows) {
    timed.push_back(row.workload);
    for (const PlanDevice& device : request.devices) {
      if (!device.name.empty()) timed.push_back(model.on_device(row.workload, device.name));
    }
  }
  return timed;
}

RunPlan plan_candidates(PlanCandidates candidates, const PlanRequest& request, const TimeRegressor& model) {
  RunPlan plan = plan_runs(candidates.rows, request, model);
  plan.left_out.insert(plan.left_out.begin(), std::make_move_iterator(candidates.left_out.begin()),
                       std::make_move_iterator(candidates.left_out.end()));
  return plan;
}

void check_planned(const RunPlan& plan, const PlanTerms& terms) {
  if (plan.status == PlanStatus::optimal || plan.status == PlanStatus::feasible) return;
  const PlanRequest& request = terms.request;
  const std::string budget = std::to_string(terms.budget_sec()) + " s" +
                             (request.devices.size() > 1 ? " of each device" : "") +
                             (request.confidence > 0.5 ? fmt::format(" at confidence {}", request.confidence) : "");
  if (plan.status == PlanStatus::unknown) {
    throw Error("the search stopped before it found a plan with a run of each kind within " + budget);
  }
  std::int64_t all = 0;
  for (const PlanDevice& device : request.devices) all += device.budget_sec;
  if (plan.cover_sec > all) {
    throw Error(fmt::format("a run of each kind takes at least {} s; the budget is {} s", plan.cover_sec, all));
  }
  throw Error("there is no plan with a run of each kind within " + budget);
}

json to_json(const RunPlan& plan, const PlanTerms& terms) {
  json document = {{"optimal", plan.status == PlanStatus::optimal},
                   {"n", plan.runs.size()},
                   {"candidates", plan.candidates},
                   {"cost_sec", plan.cost_sec},
                   {"budget_sec", terms.budget_sec()},
                   {"value", plan.value},
                   {"value_of", terms.value_of},
                   {"upper_bound", plan.upper_bound},
                   {"confidence", terms.request.confidence},
                   {"items", json::array()},
                   {"marginal", json::array()},
                   {"missed", json::array()},
                   {"pareto", json::array()},
                   {"left_out", json::array()},
                   {"price", or_null(terms.price(plan))}};
  if (!terms.currency().empty()) document["currency"] = terms.currency();
  for (const PlannedRun& run : plan.runs) document["items"].push_back(to_json(run, plan, terms));
  for (const LargerBudget& more : plan.marginal) {
    document["marginal"].push_back({{"budget_sec", terms.budget_sec() + more.extra_sec},
                                    {"value", more.value},
                                    {"value_per_minute", more.value_per_minute}});
  }
  for (const PlannedRun& missed : plan.missed) {
    document["missed"].push_back(unscheduled_json(missed, plan, terms));
    document["missed"].back()["loss"] = missed.loss;
  }
  for (const PlannedRun& run : plan.pareto) {
    if (terms.pareto) document["pareto"].push_back(unscheduled_json(run, plan, terms));
  }
  for (const RowLeftOut& row : plan.left_out) {
    document["left_out"].push_back({{"key", row.key}, {"reason", row.reason}});
  }
  return document;
}

}  // namespace perfpred
