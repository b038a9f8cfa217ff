// SPDX-License-Identifier: Apache-2.0
#include <perfpred/c_api.h>
#include <perfpred/network.h>
#include <perfpred/op_rule_registry.h>
#include <perfpred/op_time_model.h>
#include <perfpred/step_file.h>
#include <perfpred/version.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <functional>
#include <limits>
#include <set>
#include <string_view>
#include <utility>

#include "aggregate/usable_rows.h"
#include "c/guard.h"
#include "c/objects.h"
#include "model/unstated.h"
#include "statistics/parallel.h"
#include "text/json.h"
#include "text/parse.h"
#include "tools/aggregate_answer.h"
#include "tools/device_json.h"
#include "tools/job_answer_json.h"
#include "tools/json_request.h"
#include "tools/kept_cpu.h"
#include "workload/workload_columns.h"

using namespace perfpred;

namespace {

constexpr int indent = 2;  // of documents, as the programs print them

/// Options as a JSON object; null: none are given. @throws InputError for another text
nlohmann::json options_of(const char* text) {
  if (text == nullptr) return nlohmann::json::object();
  return parse_object(text, "the options are a JSON object");
}

/// @throws InputError for an option that is not one of these
void check_names(const nlohmann::json& options, std::initializer_list<std::string_view> known) {
  for (const auto& [name, value] : options.items()) {
    if (std::find(known.begin(), known.end(), name) == known.end())
      throw InputError(fmt::format("\"{}\" is not an option; options are {}", shown(name), fmt::join(known, ", ")));
  }
}

/// A text, empty where it is not given. @throws InputError for another value
std::string text_option(const nlohmann::json& options, const char* name) {
  const auto found = options.find(name);
  if (found == options.end() || found->is_null()) return {};
  if (!found->is_string() || found->get<std::string>().empty())
    throw_bad_value({{}, 0, name}, dumped(*found), "a text");
  return found->get<std::string>();
}

/// A text or a list of texts. @throws InputError for another value
std::vector<std::string> texts_option(const nlohmann::json& options, const char* name) {
  const auto found = options.find(name);
  if (found == options.end() || found->is_null()) return {};
  if (!found->is_array()) return {text_option(options, name)};
  std::vector<std::string> texts;
  for (const auto& text : *found) {
    if (!text.is_string()) throw_bad_value({{}, 0, name}, dumped(*found), "a list of texts");
    texts.push_back(text.get<std::string>());
  }
  return texts;
}

DeviceCatalogue devices_of(const perfpred_catalogue* catalogue) {
  return catalogue == nullptr ? known_devices(nullptr) : *catalogues().get(catalogue);
}

/// @param left_out  rows that the model was not given
perfpred_model* new_model(TimeRegressor model, std::vector<RejectedRun> left_out = {}) {
  return models().add(std::make_shared<SharedModel>(std::move(model), std::move(left_out)));
}

perfpred_workload* new_workload(AskedWorkload workload) {
  return workloads().add(std::make_shared<const AskedWorkload>(std::move(workload)));
}

FitOptions fit_options(const nlohmann::json& options, DeviceCatalogue devices) {
  check_names(options, {"kind", "seed", "prior"});
  FitOptions fit;
  if (const std::string kind = text_option(options, "kind"); !kind.empty()) fit.kind = kind;
  if (options.contains("seed")) {
    const std::int64_t seed = parse_integer(option_text("seed", options["seed"]), {{}, 0, "seed"});
    if (seed < 0) throw InputError("seed is negative");
    fit.seed = static_cast<std::uint64_t>(seed);
  }
  if (const std::string prior = text_option(options, "prior"); !prior.empty())
    fit.prior = std::make_shared<const OpTimeModel>(OpTimeModel::load(prior));
  fit.devices = std::move(devices);
  return fit;
}

/// @param dropped  rows that the model was not given; those that it dropped itself follow
nlohmann::json info_json(const TimeRegressor& model, std::vector<RejectedRun> dropped) {
  const std::vector<AggregateRow> rows = model.fitted_rows();
  const std::vector<RejectedRun> by_fit = model.dropped();
  dropped.insert(dropped.end(), by_fit.begin(), by_fit.end());
  std::set<std::string> devices, networks;
  for (const AggregateRow& row : rows) {
    devices.insert(row.workload.device);
    networks.insert(std::string(row.workload.network.family()));
  }
  return {{"kind", model.kind()},
          {"rows", rows.size()},
          {"devices", devices},
          {"networks", networks},
          {"dropped", to_json(dropped)}};
}

/// The document of `perfpred-observe --json`. @param observe  teaches a model the runs of the file
std::string observed(const char* file, const std::function<std::vector<RejectedRun>(std::span<const Run>)>& observe) {
  const std::vector<Run> runs = read_runs(given(file, "runs"));
  if (runs.empty()) throw InputError(fmt::format("{}: holds no run", file));
  const std::vector<RejectedRun> rejected = observe(runs);
  return dumped(nlohmann::json{{"observed", runs.size() - rejected.size()}, {"set_aside", to_json(rejected)}}, indent);
}

/// Where quantiles go; null: nowhere.
struct QuantileArrays {
  double* p05;
  double* p50;
  double* p95;

  void set(std::size_t i, const Quantiles& q) const {
    if (p05 != nullptr) p05[i] = q.p05;
    if (p50 != nullptr) p50[i] = q.p50;
    if (p95 != nullptr) p95[i] = q.p95;
  }
};

/// Predicts workloads on all CPUs, so many at a time.
/// @param job   gives workload i
/// @param fill  changes it
/// @throws InputError with the place of a workload that cannot be predicted
void predict_all(const SharedModel& model, std::size_t count,
                 const std::function<std::shared_ptr<const AskedWorkload>(std::size_t)>& job,
                 const std::function<void(std::size_t, Workload&)>& fill, const QuantileArrays& out) {
  constexpr std::size_t chunk = 256;
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / sizeof(double))
    throw InputError(fmt::format("count {} is more than an array has", count));
  model.ask([&](const TimeRegressor& regressor) {
    ManyUnstated unstated(regressor);
    parallel_for((count + chunk - 1) / chunk, 0, [&](std::size_t task, std::size_t) {
      const std::size_t begin = task * chunk, n = std::min(chunk, count - begin);
      std::vector<std::shared_ptr<const AskedWorkload>> jobs(n);
      std::vector<Workload> asked(n);
      std::vector<Prediction> answers(n);
      const auto each = [&](const auto& act) {
        for (std::size_t i = 0; i < n; ++i) {
          try {
            act(i);
          } catch (const InputError& error) {
            throw InputError(fmt::format("[{}]: {}", begin + i, error.what()));
          }
        }
      };
      each([&](std::size_t i) {
        jobs[i] = job(begin + i);
        asked[i] = jobs[i]->workload;
        fill(begin + i, asked[i]);
      });
      try {
        regressor.predict(asked, answers);
      } catch (const InputError&) {  // which one?
        each([&](std::size_t i) { answers[i] = regressor.predict(asked[i]); });
      }
      each([&](std::size_t i) { out.set(begin + i, unstated.widen(asked[i], answers[i], jobs[i]->unstated)); });
    });
  });
}

/// A numeric field and its values.
struct FieldValues {
  const WorkloadColumn& column;
  const double* values;
};

FieldValues field_values(const char* field, const double* values) {
  const WorkloadColumn& column = workload_column(given(field, "a field"));
  if (column.is_text) throw InputError(fmt::format("{} is not a numeric field", column.name));
  return {column, given(values, "an array of values")};
}

void predict_fields(const perfpred_model* model, const perfpred_workload* workload, std::span<const FieldValues> fields,
                    std::size_t count, const QuantileArrays& out) {
  auto base = std::make_shared<AskedWorkload>(*workloads().get(workload));
  for (const FieldValues& field : fields) std::erase(base->unstated, field.column.name);
  predict_all(
      *models().get(model), count, [&](std::size_t) { return base; },
      [&](std::size_t i, Workload& variant) {
        for (const FieldValues& field : fields)
          field.column.set(variant, number_text(field.values[i]), {{}, 0, field.column.name});
      },
      out);
}

/// What a log of `from` does not say. @throws InputError for a name that is neither a fact nor a field
void add_fact(RunFacts& facts, const std::string& name, const nlohmann::json& value) {
  const std::string text = option_text(name, value);
  if (name == "params") {
    facts.params = parse_positive_integer(text, {{}, 0, name});
  } else if (name == "env") {
    facts.env = text;
  } else if (name == "counted") {
    facts.counted = parse_counted(text, name);
  } else {
    const SweptField field = with_configs({name, {text}});
    (void)workload_column(field.name);
    facts.fields.emplace_back(field.name, field.values.front());
  }
}

AggregateInputs aggregate_inputs(const nlohmann::json& options) {
  constexpr std::array<std::string_view, 8> own = {"runs", "merge",    "logs",    "label",
                                                   "out",  "rejected", "partial", "from"};
  AggregateInputs inputs{texts_option(options, "runs"), texts_option(options, "merge"), text_option(options, "logs")};
  if (const std::string label = text_option(options, "label"); !label.empty()) inputs.label = label;
  inputs.from = texts_option(options, "from");
  inputs.runs_out = text_option(options, "runs_out");
  for (const auto& [name, value] : options.items()) {
    if (value.is_null() || std::find(own.begin(), own.end(), name) != own.end()) continue;
    if (name != "runs_out") add_fact(inputs.facts, name, value);
    if (inputs.from.empty()) throw InputError(fmt::format("{} is for logs (from)", name));
  }
  return inputs;
}

RunPlan plan_of(const nlohmann::json& options, PlanTerms& terms, const perfpred_model* model) {
  const std::string table = text_option(options, "runs_agg"), file = text_option(options, "device_file");
  if (table.empty()) throw InputError("runs_agg is missing");
  const auto read_prices = [&] {
    const auto prices = options.find("prices");
    if (prices != options.end() && !prices->is_null()) terms.prices = prices_of(*prices, terms.request.catalogue);
  };
  if (model == nullptr) {
    terms.request.catalogue = known_devices(file.empty() ? nullptr : file.c_str());
    read_prices();
    return plan_runs(read_aggregate(table), terms.request);
  }
  if (!file.empty()) throw InputError("device_file is given, but the model has a catalogue");
  const auto by = models().get(model);
  const auto requests = by->requests();
  PlanCandidates candidates;
  const std::vector<Workload> timed = by->ask([&](const TimeRegressor& regressor) {
    candidates = read_candidates(table, *requests);
    return timed_workloads(candidates.rows, terms.request, regressor);
  });
  for (const Workload& workload : timed) by->rate_cpu_for(workload);
  return by->ask([&](const TimeRegressor& regressor) {
    terms.request.catalogue = regressor.devices();
    read_prices();
    return plan_candidates(std::move(candidates), terms.request, regressor);
  });
}

}  // namespace

const char* perfpred_version() { return PERFPRED_VERSION; }

int perfpred_catalogue_create(const char* device_file, perfpred_catalogue** out) {
  return guarded([&] {
    *given(out, "out") = catalogues().add(std::make_shared<const DeviceCatalogue>(known_devices(device_file)));
  });
}

int perfpred_catalogue_devices(const perfpred_catalogue* catalogue, const char* name, char* buffer, size_t capacity,
                               size_t* needed) {
  return guarded([&] {
    DeviceCatalogue devices = *catalogues().get(catalogue);
    std::vector<Device> shown(devices.devices().begin(), devices.devices().end());
    if (name != nullptr) {
      if (const std::string line = rate_cpu_for(devices, name); !line.empty()) note({line});
      shown = {devices.find(name)};
    }
    give_text(dumped(to_json(std::span<const Device>(shown))), buffer, capacity, needed);
  });
}

void perfpred_catalogue_free(perfpred_catalogue* catalogue) {
  (void)guarded([&] { catalogues().remove(catalogue); });
}

int perfpred_add_graphs(const char* folder) {
  return guarded([&] { add_graphs(given(folder, "folder")); });
}

int perfpred_add_op_rules(const char* file) {
  return guarded([&] { register_ops(given(file, "file")); });
}

int perfpred_model_load(const char* path, const perfpred_catalogue* catalogue, perfpred_model** out) {
  return guarded([&] {
    given(out, "out");
    const DeviceCatalogue devices = devices_of(catalogue);
    *out = new_model(path == nullptr ? TimeRegressor::standard(devices) : TimeRegressor::load(path, devices));
  });
}

int perfpred_model_load_text(const char* text, size_t size, const perfpred_catalogue* catalogue, perfpred_model** out) {
  return guarded([&] {
    given(out, "out");
    *out = new_model(TimeRegressor::from_text({given(text, "text"), size}, devices_of(catalogue)));
  });
}

int perfpred_model_text(const perfpred_model* model, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const auto asked = models().get(model);
    give_text(asked->ask([](const TimeRegressor& regressor) { return regressor.text(); }), buffer, capacity, needed);
  });
}

int perfpred_model_fit(const char* runs_agg, const char* options, const perfpred_catalogue* catalogue,
                       perfpred_model** out) {
  return guarded([&] {
    given(out, "out");
    const FitOptions fit = fit_options(options_of(options), devices_of(catalogue));
    std::vector<RejectedRun> left_out;
    const std::vector<AggregateRow> rows = read_usable_rows(given(runs_agg, "runs_agg"), left_out);
    for (const RejectedRun& row : left_out) note({"a row is left out: " + row.reason});
    *out = new_model(TimeRegressor::fit(rows, fit), std::move(left_out));
  });
}

int perfpred_model_save(const perfpred_model* model, const char* path) {
  return guarded([&] {
    const auto saved = models().get(model);
    saved->ask([&](const TimeRegressor& regressor) { regressor.save(given(path, "path")); });
  });
}

int perfpred_model_info(const perfpred_model* model, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const auto asked = models().get(model);
    const auto info = asked->ask([&](const TimeRegressor& by) { return info_json(by, asked->left_out()); });
    give_text(dumped(info, indent), buffer, capacity, needed);
  });
}

int perfpred_model_observe(perfpred_model* model, const char* runs, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const auto taught = models().get(model);
    give_text(observed(runs, [&](std::span<const Run> rows) { return taught->observe(rows); }), buffer, capacity,
              needed);
  });
}

int perfpred_observe_file(const char* path, const char* runs, const char* out, const perfpred_catalogue* catalogue,
                          char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const std::string from = given(path, "path"), to = out == nullptr ? from : out;
    const DeviceCatalogue devices = devices_of(catalogue);
    const auto observe = [&](std::span<const Run> rows) {
      return TimeRegressor::observe_in_file(from, rows, to, devices);
    };
    give_text(observed(runs, observe), buffer, capacity, needed);
  });
}

int perfpred_model_measure_cpu(const perfpred_model* model) {
  return guarded([&] { models().get(model)->rate_cpu(); });
}

void perfpred_model_free(perfpred_model* model) {
  (void)guarded([&] { models().remove(model); });
}

int perfpred_workload_create(const perfpred_model* model, const char* fields, perfpred_workload** out) {
  return guarded([&] {
    given(out, "out");
    const auto asked = models().get(model);
    const auto requests = asked->requests();
    AskedJob job = asked->ask([&](const TimeRegressor&) { return read_workload(*requests, given(fields, "fields")); });
    job.workload.validate();
    note(job.notes);
    asked->rate_cpu_for(job.workload);
    *out = new_workload({std::move(job.workload), std::move(job.terms.job.unstated)});
  });
}

int perfpred_workload_from_key(const char* key, perfpred_workload** out) {
  return guarded([&] {
    given(out, "out");
    *out = new_workload({Workload::from_key(given(key, "key"))});
  });
}

int perfpred_workload_key(const perfpred_workload* workload, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] { give_text(workloads().get(workload)->workload.key(), buffer, capacity, needed); });
}

int perfpred_workload_set(perfpred_workload* workload, const char* field, const char* value) {
  return guarded([&] {
    auto changed = std::make_shared<AskedWorkload>(*workloads().get(workload));
    changed->workload = with_field(changed->workload, given(field, "field"), given(value, "value"));
    changed->workload.validate();
    std::erase(changed->unstated, field);
    workloads().replace(workload, std::move(changed));
  });
}

int perfpred_workload_params(const perfpred_workload* workload, int64_t* params) {
  return guarded([&] { *given(params, "params") = workloads().get(workload)->workload.params(); });
}

void perfpred_workload_free(perfpred_workload* workload) {
  (void)guarded([&] { workloads().remove(workload); });
}

int perfpred_predict(const perfpred_model* model, const perfpred_workload* workload, double seconds[3],
                     int* in_domain) {
  return guarded([&] {
    const auto asked = models().get(model);
    const auto job = workloads().get(workload);
    given(seconds, "seconds");
    const Prediction answer = asked->ask([&](const TimeRegressor& regressor) {
      JobVariants variants(regressor);
      Prediction stated = variants.predict(job->workload);
      stated.time_sec = Unstated(variants, job->workload, stated, job->unstated).widen(stated.time_sec);
      return stated;
    });
    seconds[0] = answer.time_sec.p05;
    seconds[1] = answer.time_sec.p50;
    seconds[2] = answer.time_sec.p95;
    if (in_domain != nullptr) *in_domain = answer.in_domain() ? 1 : 0;
  });
}

int perfpred_predict_many(const perfpred_model* model, const perfpred_workload* const* asked, size_t count, double* p05,
                          double* p50, double* p95) {
  return guarded([&] {
    const auto by = models().get(model);
    if (count > 0) given(asked, "workloads");
    predict_all(
        *by, count, [&](std::size_t i) { return workloads().get(asked[i]); }, [](std::size_t, Workload&) {},
        {p05, p50, p95});
  });
}

int perfpred_predict_columns(const perfpred_model* model, const perfpred_workload* workload, const char* const* fields,
                             const double* const* values, size_t field_count, size_t count, double* p05, double* p50,
                             double* p95) {
  return guarded([&] {
    if (field_count > 0) {
      given(fields, "fields");
      given(values, "values");
    }
    std::vector<FieldValues> columns;
    for (std::size_t k = 0; k < field_count; ++k) {
      columns.push_back(field_values(fields[k], values[k]));
      const auto same = [&](const FieldValues& other) { return &other.column == &columns.back().column; };
      if (std::count_if(columns.begin(), columns.end(), same) > 1)
        throw InputError(fmt::format("{} is given twice", columns.back().column.name));
    }
    predict_fields(model, workload, columns, count, {p05, p50, p95});
  });
}

int perfpred_predict_field(const perfpred_model* model, const perfpred_workload* workload, const char* field,
                           const double* values, size_t count, double* p05, double* p50, double* p95) {
  return perfpred_predict_columns(model, workload, &field, &values, 1, count, p05, p50, p95);
}

int perfpred_forecast(const perfpred_model* model, const char* request, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const auto asked = models().get(model);
    const auto requests = asked->requests();
    const nlohmann::json fields = parse_request(given(request, "request"));
    const AskedJob job = asked->ask([&](const TimeRegressor&) { return read_request(*requests, fields); });
    note(job.notes);
    asked->rate_cpu_for(job.terms.applied_to(job.workload));
    const JobAnswer answer = asked->ask([&](const TimeRegressor& regressor) {
      return answer_job(regressor, job.workload, job.terms, job.images_given);
    });
    nlohmann::json document = to_json(answer);
    echo_id(document, fields);
    give_text(dumped(document, indent), buffer, capacity, needed);
  });
}

int perfpred_aggregate(const char* options, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const nlohmann::json given_options = options_of(given(options, "options"));
    const AggregateInputs inputs = aggregate_inputs(given_options);
    std::vector<std::string> notes;
    const Aggregator aggregator = aggregate(inputs, notes);
    note(notes);
    const std::vector<AggregateRow> rows = aggregator.rows();
    if (const std::string to = text_option(given_options, "partial"); !to.empty()) aggregator.write_partial(to);
    if (const std::string to = text_option(given_options, "rejected"); !to.empty()) aggregator.write_rejected(to);
    if (const std::string to = text_option(given_options, "out"); !to.empty()) write_aggregate(to, rows);
    std::string document;
    write_json(aggregator, rows, [&](std::string_view text) { document += text; });
    give_text(std::move(document), buffer, capacity, needed);
  });
}

int perfpred_plan_create(const char* options, const perfpred_model* model, perfpred_plan** out) {
  return guarded([&] {
    given(out, "out");
    const nlohmann::json asked = options_of(given(options, "options"));
    constexpr std::array<std::string_view, 4> own = {"runs_agg", "out", "device_file", "prices"};
    auto made = std::make_shared<MadePlan>();
    made->terms = read_plan_terms(asked, own);
    made->plan = plan_of(asked, made->terms, model);
    check_planned(made->plan, made->terms);
    if (const std::string to = text_option(asked, "out"); !to.empty()) write_plan(to, made->plan);
    *out = plans().add(std::move(made));
  });
}

int perfpred_plan_text(const perfpred_plan* plan, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const auto made = plans().get(plan);
    give_text(dumped(to_json(made->plan, made->terms), indent), buffer, capacity, needed);
  });
}

int perfpred_plan_size(const perfpred_plan* plan, size_t* runs) {
  return guarded([&] { *given(runs, "runs") = plans().get(plan)->plan.runs.size(); });
}

int perfpred_plan_columns(const perfpred_plan* plan, int64_t* cost_sec, double* value, int64_t* start_sec) {
  return guarded([&] {
    const auto made = plans().get(plan);
    for (std::size_t i = 0; i < made->plan.runs.size(); ++i) {
      const PlannedRun& run = made->plan.runs[i];
      if (cost_sec != nullptr) cost_sec[i] = run.cost_sec;
      if (value != nullptr) value[i] = run.value;
      if (start_sec != nullptr) start_sec[i] = run.start_sec;
    }
  });
}

int perfpred_plan_workload(const perfpred_plan* plan, size_t index, perfpred_workload** out) {
  return guarded([&] {
    const auto made = plans().get(plan);
    given(out, "out");
    if (index >= made->plan.runs.size())
      throw InputError(fmt::format("run {} of a plan with {} runs", index, made->plan.runs.size()));
    *out = new_workload({made->plan.runs[index].workload});
  });
}

void perfpred_plan_free(perfpred_plan* plan) {
  (void)guarded([&] { plans().remove(plan); });
}
