// SPDX-License-Identifier: Apache-2.0
#include "tools/plan_answer.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "aggregate/figures.h"
#include "aggregate/usable_rows.h"
#include "answer/assumed.h"
#include "answer/prices.h"
#include "text/csv.h"
#include "text/json.h"
#include "text/parse.h"
#include "tools/json_request.h"
#include "workload/workload_on.h"

namespace perfpred {
namespace {

using nlohmann::json;

json to_json(const PlannedRun& run, const RunPlan& plan, const PlanTerms& terms) {
  json fields = json::object();
  for (const std::string& field : plan.fields) fields[field] = field_text(run.workload, field);
  json row = {{"key", run.workload.key()},
              {"id", run.id.empty() ? json() : json(run.id)},
              {"depth", or_null(run.workload.depth())},
              {"base_filters", or_null(run.workload.base_filters())},
              {"batch_size", run.workload.batch_size},
              {"cost_sec", run.cost_sec},
              {"value", run.value},
              {"device", run.device},
              {"device_index", run.device_index},
              {"start_sec", run.start_sec},
              {"end_sec", run.start_sec + run.cost_sec},
              {"verdict", run.verdict ? json(to_string(*run.verdict)) : json()},
              {"in_domain", run.reason == DomainViolation::none},
              {"reason", to_string(run.reason)},
              {"provenance", run.provenance ? json(to_string(*run.provenance)) : json()},
              {"fields", std::move(fields)},
              {"assumed", terms.assumed(run)},
              {"price", or_null(terms.price(run))}};
  if (run.earliest_sec) row["earliest_sec"] = *run.earliest_sec;
  if (run.deadline_sec) row["deadline_sec"] = *run.deadline_sec;
  return row;
}

/// Of a run that is not in the plan, and starts nowhere.
json unscheduled_json(const PlannedRun& run, const RunPlan& plan, const PlanTerms& terms) {
  json row = to_json(run, plan, terms);
  row.erase("start_sec");
  row.erase("end_sec");
  return row;
}

struct Option {
  std::string_view name;
  void (*set)(PlanTerms& terms, std::string_view text, const ValuePlace& place);
};

constexpr std::array<Option, 10> plan_options = {{
    {"epochs", [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.epochs = parse_positive_integer(s, p); }},
    {"ignore_memory",
     [](PlanTerms& t, std::string_view s, const ValuePlace& p) { t.request.ignore_memory = parse_flag(s, p); }},
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

/// The least whole number that is no smaller.
std::int64_t whole_up(double sec) {
  constexpr double too_long = 9.2e18;
  return sec >= too_long ? std::numeric_limits<std::int64_t>::max() : static_cast<std::int64_t>(std::ceil(sec));
}

void set_seconds(DeviceSeconds& seconds, const std::string& name, const json& value) {
  const ValuePlace place{{}, 0, name};
  if (!value.is_object()) {
    seconds.others = parse_seconds(option_text(name, value), place);
    return;
  }
  for (const auto& [device, sec] : value.items()) {
    seconds.single.emplace_back(device, parse_seconds(option_text(name, sec), place));
  }
}

/// A time may be called by the device's name that was asked for, by its number where there are two, or by an alias.
bool names_device(const std::string& said, const PlanTerms& terms, std::size_t device, bool numbered) {
  if (terms.devices.empty()) return !numbered && said == "gpu" + std::to_string(device);
  const std::string& name = terms.devices[device];
  const auto number =
      1 + std::count(terms.devices.begin(), terms.devices.begin() + static_cast<std::ptrdiff_t>(device), name);
  if (numbered) return said == fmt::format("{} #{}", name, number);
  if (said == name) return true;
  const auto meant = terms.request.catalogue.candidates(said);
  return !meant.empty() && meant == terms.request.catalogue.candidates(name);
}

/// The seconds of each device of the plan.
/// @throws InputError if a name is not in the plan, or a device has two
std::vector<std::optional<double>> by_device(const DeviceSeconds& seconds, std::string_view what,
                                             const PlanTerms& terms) {
  const std::size_t n = terms.request.devices.size();
  std::vector<std::optional<double>> own(n);
  std::vector<bool> used(seconds.single.size());
  for (const bool numbered : {true, false}) {  // `A #1` comes before `A`
    std::vector<std::optional<double>> now(n);
    for (std::size_t i = 0; i < used.size(); ++i) {
      const auto& [name, sec] = seconds.single[i];
      for (std::size_t d = 0; d < n; ++d) {
        if (!names_device(name, terms, d, numbered)) continue;
        used[i] = true;
        if (now[d]) throw InputError(fmt::format("{} of \"{}\" is given twice", what, shown(name)));
        if (!own[d]) now[d] = sec;
      }
    }
    for (std::size_t d = 0; d < n; ++d) own[d] = own[d] ? own[d] : now[d];
  }
  for (std::size_t i = 0; i < used.size(); ++i) {
    if (!used[i]) {
      throw InputError(fmt::format("{} of \"{}\": the plan has no such device", what, shown(seconds.single[i].first)));
    }
  }
  for (auto& one : own) one = one ? one : seconds.others;
  return own;
}

void set_device_seconds(PlanTerms& terms) {
  const auto budget = by_device(terms.budget, "budget_sec", terms);
  const auto free_from = by_device(terms.free_from, "free_from_sec", terms);
  for (std::size_t d = 0; d < budget.size(); ++d) {
    if (!budget[d]) {
      throw InputError(fmt::format("budget_sec of {} is missing",
                                   terms.devices.empty() ? "gpu" + std::to_string(d) : terms.devices[d]));
    }
    terms.request.devices[d].budget_sec = static_cast<std::int64_t>(*budget[d]);
    terms.request.devices[d].free_from_sec = whole_up(free_from[d].value_or(0));
  }
}

/// The budgets of the devices, each with so much more: a number, or one for each device.
json budget_json(const RunPlan& plan, const PlanTerms& terms, std::int64_t more) {
  if (const auto same = terms.budget_sec()) return *same + more;
  json budgets = json::object();
  for (std::size_t d = 0; d < plan.devices.size(); ++d)
    budgets[plan.devices[d]] = terms.request.devices[d].budget_sec + more;
  return budgets;
}

/// Of each device, in their order.
json free_from_json(const PlanTerms& terms) {
  json all = json::array();
  for (const PlanDevice& device : terms.request.devices) all.push_back(device.free_from_sec);
  return all;
}

}  // namespace

void DeviceSeconds::add(std::string_view text, const ValuePlace& place) {
  const std::size_t sign = text.rfind('=');
  const std::string device(text.substr(0, sign == std::string_view::npos ? 0 : sign));
  const double sec = parse_seconds(sign == std::string_view::npos ? text : text.substr(sign + 1), place);
  const bool again = std::any_of(single.begin(), single.end(), [&](const auto& one) { return one.first == device; });
  if (again || (device.empty() && others)) {
    throw InputError(fmt::format("{} is given twice{}{}", place.name, device.empty() ? "" : " for ", device));
  }
  if (sign == std::string_view::npos) {
    others = sec;
  } else {
    single.emplace_back(device, sec);
  }
}

void PlanTerms::complete_for(const PlanCandidates& candidates) {
  unstated = candidates.unstated;
  if (value_of.empty()) value_of = candidates.has_values ? "value" : "acc";
  if (value_of == "value" && !candidates.has_values) throw InputError("value: the table has no column value");
  request.value = value_of == "acc" ? PlanValue::accuracy : value_of == "thr" ? PlanValue::throughput : PlanValue::own;
  if (epochs) request.epochs = *epochs;
  for (const auto& [device, price] : prices) request.price_per_hour[device] = price.per_hour;
  const bool all_say = std::all_of(candidates.jobs.begin(), candidates.jobs.end(),
                                   [](const QueuedJob& job) { return job.epochs.has_value(); });
  if (!epochs && !all_say) throw InputError("epochs is missing, and not every row of the table has a column epochs");
}

std::optional<std::int64_t> PlanTerms::budget_sec() const {
  for (const PlanDevice& device : request.devices) {
    if (device.budget_sec != request.devices.front().budget_sec) return std::nullopt;
  }
  return request.devices.front().budget_sec;
}

void PlanTerms::complete_request() {
  if (!value_of.empty() && value_of != "acc" && value_of != "thr" && value_of != "value")
    throw_bad_value({{}, 0, "value"}, value_of, "acc, thr or value");
  if (budget.empty()) throw InputError("budget_sec is missing");
  const auto* known = std::find_if(plan_objectives.begin(), plan_objectives.end(),
                                   [&](const auto& one) { return one.first == objective; });
  if (known == plan_objectives.end())
    throw_bad_value({{}, 0, "objective"}, objective, "sum, best, cover-depth or cover-architecture");
  request.objective = known->second;
  request.devices.assign(devices.empty() ? gpus : devices.size(), PlanDevice());
  for (std::size_t d = 0; d < devices.size(); ++d) request.devices[d].name = devices[d];
  set_device_seconds(*this);
}

std::vector<std::int64_t> PlanTerms::free_sec() const {
  std::vector<std::int64_t> free;
  for (const PlanDevice& device : request.devices)
    free.push_back(std::max<std::int64_t>(0, device.budget_sec - device.free_from_sec));
  return free;
}

std::map<std::string, std::string> PlanTerms::assumed(const PlannedRun& run) const {
  std::map<std::string, std::string> fields;
  const auto found = unstated.find(key_anywhere(run.workload));
  if (found == unstated.end() || !run.provenance) return fields;
  for (const std::string& field : assumed_fields(run.workload, found->second, *run.provenance))
    fields[field] = assumed_value(run.workload, field);
  return fields;
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

std::optional<double> PlanTerms::price_lower_bound(const RunPlan& plan) const {
  if (!plan.cost_lower_bound || (!price_per_hour && request.price_per_hour.empty())) return std::nullopt;
  if (!price_per_hour) return plan.cost_lower_bound;
  constexpr double hour = 3600;
  return *price_per_hour * *plan.cost_lower_bound / hour;
}

bool PlanTerms::is_cheapest(const RunPlan& plan) const {
  return price_lower_bound(plan).has_value() && plan.cost_lower_bound == plan.cost;
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
    if (name == "budget_sec") {
      set_seconds(terms.budget, name, value);
    } else if (name == "free_from_sec") {
      set_seconds(terms.free_from, name, value);
    } else if (name == "devices") {
      set_devices(terms, value);
    } else if (name == "gpus") {
      set_gpus(terms, option_text(name, value), place);
    } else if (known == plan_options.end()) {
      throw InputError(fmt::format("\"{}\" is not an option of a plan", shown(name)));
    } else {
      known->set(terms, option_text(name, value), place);
    }
  }
  if (options.contains("prices") && terms.price_per_hour) throw InputError("price_per_hour and prices are both given");
  if (options.contains("gpus") && !terms.devices.empty()) throw InputError("gpus and devices are both given");
  return terms;
}

namespace {

/// The columns by which a table is a queue of jobs, and what they say of a row.
class QueueColumns {
 public:
  explicit QueueColumns(const CsvReader& csv)
      : id_(csv.optional("id")),
        count_(csv.optional("count")),
        epochs_(csv.optional("epochs")),
        value_(csv.optional("value")),
        earliest_(csv.optional("earliest_sec")),
        deadline_(csv.optional("deadline_sec")) {}

  [[nodiscard]] bool any() const {
    return id_.index || count_.index || epochs_.index || value_.index || earliest_.index || deadline_.index;
  }
  [[nodiscard]] bool has_values() const { return value_.index.has_value(); }

  /// Adds the job of the row, as often as it is counted.
  void add(const CsvReader& csv, AggregateRow row, std::vector<QueuedJob>& jobs) const {
    constexpr std::int64_t most = 10'000;
    QueuedJob job{std::move(row), std::string(csv.text(id_)), {}, {}, {}, {}};
    if (!csv.text(epochs_).empty()) job.epochs = csv.positive_integer(epochs_);
    if (!csv.text(value_).empty()) job.value = parse_non_negative(csv.text(value_), csv.place("value"));
    if (const auto text = csv.text(earliest_); !text.empty()) {
      job.earliest_sec = whole_up(parse_seconds(text, csv.place("earliest_sec")));
    }
    if (const auto text = csv.text(deadline_); !text.empty()) {
      job.deadline_sec = static_cast<std::int64_t>(parse_seconds(text, csv.place("deadline_sec")));
    }
    const std::int64_t count = csv.text(count_).empty() ? 1 : csv.positive_integer(count_);
    if (count > most) throw_bad_value(csv.place("count"), csv.text(count_), fmt::format("at most {}", most));
    jobs.insert(jobs.end(), static_cast<std::size_t>(count), job);
  }

 private:
  CsvColumn id_, count_, epochs_, value_, earliest_, deadline_;
};

/// Columns of one length as the text of a table.
std::string table_text(const json& columns) {
  std::vector<std::vector<std::string>> lines(1);
  for (const auto& [name, values] : columns.items()) {
    if (!values.is_array()) throw InputError(fmt::format("rows: the column \"{}\" is not a list", shown(name)));
    if (lines.front().empty()) lines.resize(1 + values.size());
    if (1 + values.size() != lines.size()) {
      throw InputError(fmt::format("rows: the column \"{}\" has {} values, those before {}", shown(name), values.size(),
                                   lines.size() - 1));
    }
    lines.front().push_back(name);
    for (std::size_t i = 0; i < values.size(); ++i) {
      const json& value = values[i];
      lines[i + 1].push_back(value.is_null()      ? std::string()
                             : value.is_boolean() ? std::string(value.get<bool>() ? "1" : "0")
                                                  : option_text(name, value));
    }
  }
  std::string text;
  for (const std::vector<std::string>& line : lines) text += csv_line(line);
  return text;
}

}  // namespace

TableSource plan_table(const json& options) {
  const auto given = [&](const char* name) { return options.contains(name) && !options[name].is_null(); };
  if (given("runs_agg") && given("rows")) throw InputError("runs_agg and rows are both given");
  if (given("runs_agg")) {
    const json& path = options["runs_agg"];
    if (!path.is_string() || path.get<std::string>().empty())
      throw_bad_value({{}, 0, "runs_agg"}, dumped(path), "a text");
    return {path.get<std::string>()};
  }
  if (!given("rows")) throw InputError("runs_agg is missing, and there are no rows");
  const json& rows = options["rows"];
  if (rows.is_string()) return {"rows", rows.get<std::string>()};
  if (!rows.is_object()) throw InputError("rows is neither the text of a table nor an object of columns");
  return {"rows", table_text(rows)};
}

PlanCandidates read_candidates(const TableSource& table, const ModelRequests* requests) {
  CsvReader csv = table.open();
  const QueueColumns queue(csv);
  const bool measured = requests == nullptr || csv.optional("avg_time_mean").index;
  PlanCandidates candidates{{}, {}, measured && !queue.any(), queue.has_values()};
  if (measured) {
    for (AggregateRow& row : read_aggregate_rows(table.open(), queue.any())) {
      (void)csv.next();
      queue.add(csv, std::move(row), candidates.jobs);
    }
    return candidates;
  }
  std::vector<AskedRow> asked = requests->of_table(table.open());
  check_some(asked);
  const CsvColumn accuracy = csv.optional("acc_mean");
  for (AskedRow& one : asked) {
    (void)csv.next();
    if (!one.workload) {
      const std::string what = one.error.substr(one.place.size());
      candidates.left_out.push_back({one.place.substr(0, one.place.rfind(':')), what});
      continue;
    }
    std::vector<std::string>& unstated = candidates.unstated[key_anywhere(*one.workload)];
    unstated.insert(unstated.end(), one.unstated.begin(), one.unstated.end());
    AggregateRow row;
    row.workload = std::move(*one.workload);
    if (!csv.text(accuracy).empty()) {
      row.acc_mean = csv.finite(accuracy);
      row.acc_std = 0;
      check_figures(row, csv.place({}));
    }
    queue.add(csv, std::move(row), candidates.jobs);
  }
  return candidates;
}

std::vector<Workload> timed_workloads(std::span<const QueuedJob> jobs, const PlanRequest& request,
                                      const TimeRegressor& model) {
  std::vector<Workload> timed;
  for (const QueuedJob& job : jobs) {
    timed.push_back(job.row.workload);
    for (const PlanDevice& device : request.devices) {
      if (!device.name.empty()) timed.push_back(model.on_device(job.row.workload, device.name));
    }
  }
  return timed;
}

RunPlan plan_candidates(const PlanCandidates& candidates, const PlanRequest& request, const TimeRegressor* model) {
  RunPlan plan;
  if (candidates.pools) {
    std::vector<AggregateRow> rows;
    for (const QueuedJob& job : candidates.jobs) rows.push_back(job.row);
    plan = model != nullptr ? plan_runs(rows, request, *model) : plan_runs(rows, request);
  } else {
    plan = model != nullptr ? plan_jobs(candidates.jobs, request, *model) : plan_jobs(candidates.jobs, request);
  }
  plan.left_out.insert(plan.left_out.begin(), candidates.left_out.begin(), candidates.left_out.end());
  return plan;
}

namespace {

/// @throws InputError if a named device, or a run of the document, has no price
void check_prices(const RunPlan& plan, const PlanTerms& terms) {
  for (std::size_t d = 0; d < terms.devices.size() && !terms.price_per_hour; ++d) {
    check_priced(terms.prices, {plan.devices[d].substr(0, plan.devices[d].find(" #"))});
  }
  (void)terms.price(plan);
  for (const PlannedRun& run : plan.missed) (void)terms.price(run);
  for (const PlannedRun& run : plan.pareto) {
    if (terms.pareto) (void)terms.price(run);
  }
}

}  // namespace

void check_planned(const RunPlan& plan, const PlanTerms& terms) {
  if (plan.status == PlanStatus::optimal || plan.status == PlanStatus::feasible) return check_prices(plan, terms);
  const PlanRequest& request = terms.request;
  const auto same = terms.budget_sec();
  const std::string budget = (same ? std::to_string(*same) + " s" : "the budgets") +
                             (same && request.devices.size() > 1 ? " of each device" : "") +
                             (request.confidence > 0.5 ? fmt::format(" at confidence {}", request.confidence) : "");
  if (plan.status == PlanStatus::unknown) {
    throw Error("the search stopped before it found a plan with a run of each kind within " + budget);
  }
  const std::vector<std::int64_t> free = terms.free_sec();
  const std::int64_t all = std::accumulate(free.begin(), free.end(), std::int64_t{0});
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
                   {"budget_sec", budget_json(plan, terms, 0)},
                   {"devices", plan.devices},
                   {"value", plan.value},
                   {"value_of", terms.value_of},
                   {"upper_bound", plan.upper_bound},
                   {"makespan_sec", plan.makespan_sec},
                   {"makespan_lower_bound_sec", plan.makespan_lower_bound_sec},
                   {"makespan_optimal", plan.makespan_sec == plan.makespan_lower_bound_sec},
                   {"confidence", terms.request.confidence},
                   {"items", json::array()},
                   {"marginal", json::array()},
                   {"missed", json::array()},
                   {"pareto", json::array()},
                   {"left_out", json::array()},
                   {"price", or_null(terms.price(plan))},
                   {"price_lower_bound", or_null(terms.price_lower_bound(plan))},
                   {"price_optimal", terms.is_cheapest(plan)}};
  if (!terms.currency().empty()) document["currency"] = terms.currency();
  if (!terms.free_from.empty()) document["free_from_sec"] = free_from_json(terms);
  for (const PlannedRun& run : plan.runs) document["items"].push_back(to_json(run, plan, terms));
  for (const LargerBudget& more : plan.marginal) {
    document["marginal"].push_back({{"budget_sec", budget_json(plan, terms, more.extra_sec)},
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
    if (!row.device.empty()) document["left_out"].back()["device"] = row.device;
  }
  return document;
}

}  // namespace perfpred
