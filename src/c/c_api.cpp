// SPDX-License-Identifier: Apache-2.0
#include <perfpred/c_api.h>
#include <perfpred/job_prediction.h>
#include <perfpred/network.h>
#include <perfpred/op_rule_registry.h>
#include <perfpred/op_time_model.h>
#include <perfpred/step_file.h>
#include <perfpred/timeline.h>
#include <perfpred/version.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <exception>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <string_view>
#include <utility>

#include "aggregate/usable_rows.h"
#include "answer/answer_json.h"
#include "c/guard.h"
#include "c/objects.h"
#include "model/refusal.h"
#include "model/unstated.h"
#include "runs/run_row.h"
#include "statistics/parallel.h"
#include "text/json.h"
#include "text/parse.h"
#include "tools/aggregate_answer.h"
#include "tools/answer_text.h"
#include "tools/device_json.h"
#include "tools/explanation.h"
#include "tools/inspection.h"
#include "tools/json_request.h"
#include "tools/kept_cpu.h"
#include "tools/network_list.h"
#include "workload/workload_columns.h"

using namespace perfpred;

namespace {

static_assert(PERFPRED_OK == static_cast<int>(JobStatus::ok));
static_assert(PERFPRED_FAILED == static_cast<int>(JobStatus::failed));
static_assert(PERFPRED_WRONG_INPUT == static_cast<int>(JobStatus::wrong_input));
static_assert(PERFPRED_UNSTATED == static_cast<int>(JobStatus::unstated));

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

/// @param path  null: the standard model
TimeRegressor read_model(const char* path, const DeviceCatalogue& devices) {
  return path == nullptr ? TimeRegressor::standard(devices) : TimeRegressor::load(path, devices);
}

/// @param left_out  rows that the model was not given
perfpred_model* new_model(TimeRegressor model, DeviceCatalogue devices, std::vector<RejectedRun> left_out = {}) {
  return models().add(std::make_shared<SharedModel>(std::move(model), std::move(devices), std::move(left_out)));
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

/// The document of `perfpred-observe --json`. @param observe  teaches a model the runs
std::string observed(const std::vector<Run>& runs, const std::string& file,
                     const std::function<std::vector<RejectedRun>(std::span<const Run>)>& observe) {
  if (runs.empty()) throw InputError(fmt::format("{}: holds no run", file));
  const std::vector<RejectedRun> rejected = observe(runs);
  return dumped(nlohmann::json{{"observed", runs.size() - rejected.size()}, {"set_aside", to_json(rejected)}}, indent);
}

/// Where the answers of many jobs go.
struct JobColumns {
  std::vector<std::pair<double, double*>> quantiles;  ///< a probability, and its column
  int* statuses = nullptr;                            ///< null: a job without an answer fails the call

  /// Those of these columns that are not null.
  static JobColumns of(double* p05, double* p50, double* p95) {
    JobColumns columns;
    for (const auto& [q, column] : {std::pair(0.05, p05), {0.5, p50}, {0.95, p95}}) {
      if (column != nullptr) columns.quantiles.emplace_back(q, column);
    }
    return columns;
  }

  /// @throws InputError for what is no probability, and for NULL
  static JobColumns of(const double* quantiles, size_t count, double* const* seconds, int* statuses) {
    JobColumns columns{{}, statuses};
    if (count > 0) {
      given(quantiles, "quantiles");
      given(seconds, "seconds");
    }
    for (std::size_t k = 0; k < count; ++k) {
      (void)quantile(Quantiles{1, 1, 1}, quantiles[k]);
      columns.quantiles.emplace_back(quantiles[k], given(seconds[k], "a column of seconds"));
    }
    return columns;
  }

  void set(std::size_t place, JobStatus status, const Quantiles& answer) const {
    for (const auto& [q, column] : quantiles) {
      column[place] = status == JobStatus::ok ? quantile(answer, q) : std::numeric_limits<double>::quiet_NaN();
    }
    if (statuses != nullptr) statuses[place] = static_cast<int>(status);
  }
};

/// One of many jobs.
struct ManyJob {
  Workload workload;
  std::shared_ptr<const AskedWorkload> unstated_of;
};

/// Many jobs of one model, answered on all CPUs; one without an answer leaves the others theirs.
class ManyJobs {
 public:
  using Job = std::function<ManyJob(std::size_t place)>;

  /// @param job  makes the job of a place; what it throws is the reason why that job is not predicted
  ManyJobs(const TimeRegressor& model, Job job, const JobColumns& out)
      : model_(model), unstated_(model), job_(std::move(job)), out_(out) {}

  void answer(std::size_t count) {
    constexpr std::size_t chunk = 256;
    parallel_for((count + chunk - 1) / chunk, 0, [&](std::size_t task, std::size_t) {
      answer_some(task * chunk, std::min((task + 1) * chunk, count));
    });
  }

  /// Of the jobs without an answer.
  [[nodiscard]] std::map<std::size_t, Refusal> refused() { return std::move(refused_); }

 private:
  void answer_some(std::size_t begin, std::size_t end) {
    std::vector<std::size_t> places;
    std::vector<std::shared_ptr<const AskedWorkload>> of;
    std::vector<Workload> asked;
    places.reserve(end - begin);
    of.reserve(end - begin);
    asked.reserve(end - begin);
    for (std::size_t i = begin; i < end; ++i) {
      try {
        ManyJob job = job_(i);
        places.push_back(i);
        of.push_back(std::move(job.unstated_of));
        asked.push_back(std::move(job.workload));
      } catch (const std::exception&) {
        refuse(i, refusal());
      }
    }
    std::vector<JobPrediction> answers = predict_each(
        model_, asked, [&](std::size_t k, Estimate& time) { unstated_.widen(time, asked[k], of[k]->unstated); });
    for (std::size_t k = 0; k < answers.size(); ++k) {
      if (answers[k].status == JobStatus::ok) {
        out_.set(places[k], JobStatus::ok, answers[k].prediction.time_sec);
      } else {
        refuse(places[k], {answers[k].status, std::move(answers[k].error)});
      }
    }
  }

  void refuse(std::size_t place, Refusal why) {
    out_.set(place, why.status, {});
    const std::lock_guard lock(mutex_);
    refused_.emplace(place, std::move(why));
  }

  const TimeRegressor& model_;
  ManyUnstated unstated_;
  Job job_;
  const JobColumns& out_;
  std::mutex mutex_;  // guards refused_
  std::map<std::size_t, Refusal> refused_;
};

/// @throws Error of the first job without an answer, and with its place, unless there are statuses
void predict_all(const SharedModel& model, std::size_t count, ManyJobs::Job job, const JobColumns& out) {
  if (count > std::numeric_limits<std::ptrdiff_t>::max() / sizeof(double))
    throw InputError(fmt::format("count {} is more than an array has", count));
  std::map<std::size_t, Refusal> refused = model.ask([&](const TimeRegressor& regressor) {
    ManyJobs jobs(regressor, std::move(job), out);
    jobs.answer(count);
    return jobs.refused();
  });
  std::map<std::size_t, std::string> errors;
  for (const auto& [place, why] : refused) errors.emplace(place, why.error);
  keep_job_errors(std::move(errors));
  if (refused.empty() || out.statuses != nullptr) return;
  const auto& [place, why] = *refused.begin();
  const std::string message = fmt::format("[{}]: {}", place, why.error);
  if (why.status == JobStatus::failed) throw Error(message);
  if (why.status == JobStatus::unstated) throw NotStated(message);
  throw InputError(message);
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

/// Variants of a workload. @throws InputError for fields and values as c_api.h says
void predict_variants(const perfpred_model* model, const perfpred_workload* workload, const char* const* fields,
                      const double* const* values, std::size_t field_count, std::size_t count, const JobColumns& out) {
  if (field_count > 0) {
    given(fields, "fields");
    given(values, "values");
  }
  std::vector<FieldValues> columns;
  const auto base = std::make_shared<AskedWorkload>(*workloads().get(workload));
  for (std::size_t k = 0; k < field_count; ++k) {
    columns.push_back(field_values(fields[k], values[k]));
    const auto same = [&](const FieldValues& other) { return &other.column == &columns.back().column; };
    if (std::count_if(columns.begin(), columns.end(), same) > 1)
      throw InputError(fmt::format("{} is given twice", columns.back().column.name));
    std::erase(base->unstated, columns.back().column.name);
  }
  const auto variant = [&](std::size_t i) {
    ManyJob job{base->workload, base};
    for (const FieldValues& field : columns)
      field.column.set(job.workload, number_text(field.values[i]), {{}, 0, field.column.name});
    return job;
  };
  predict_all(*models().get(model), count, variant, out);
}

void predict_many(const perfpred_model* model, const perfpred_workload* const* asked, std::size_t count,
                  const JobColumns& out) {
  const auto by = models().get(model);
  if (count > 0) given(asked, "workloads");
  const auto job = [asked](std::size_t i) {
    auto one = workloads().get(asked[i]);
    return ManyJob{one->workload, one};
  };
  predict_all(*by, count, job, out);
}

/// The prediction of one workload, whose interval holds what was not stated.
Prediction predict_one(const TimeRegressor& regressor, const AskedWorkload& job) {
  JobVariants variants(regressor);
  JobEstimate epoch = variants.estimate(job.workload);
  if (epoch.time.rests_on != Provenance::runs) {
    const Job asked(job.workload, regressor.devices());
    Unstated(variants, asked, epoch.time, job.unstated).widen(epoch.time);
  }
  Prediction prediction = epoch.prediction();
  prediction.time_sec = of_known_epoch(job.workload, prediction.time_sec);
  return prediction;
}

/// @throws InputError for a document that is neither a table nor an answer
std::string shown_answers(const nlohmann::json& document) {
  if (!document.contains("answers")) return answer_text(answer_of(document), Reader::caller);
  check_names(document, {"fields", "values", "answers"});
  try {
    const auto fields = document.at("fields").get<std::vector<std::string>>();
    const auto values = document.at("values").get<std::vector<std::vector<std::string>>>();
    const nlohmann::json& answers = document.at("answers");
    if (values.size() != answers.size() ||
        std::ranges::any_of(values, [&](const auto& one) { return one.size() != fields.size(); }))
      throw InputError("values are not a list for each answer, of a text for each field");
    std::vector<AnswerLine> lines;
    for (std::size_t i = 0; i < values.size(); ++i) {
      AnswerLine& line = lines.emplace_back();
      line.values = values[i];
      if (answers[i].contains("error")) {
        line.error = answers[i]["error"].get<std::string>();
      } else {
        line.answer = answer_of(answers[i]);
      }
    }
    return table_text(fields, lines, Reader::caller);
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("these are no answers: {}", json_complaint(error)));
  }
}

nlohmann::ordered_json label_json(const StepLabel& label) {
  return {{"median", label.median},
          {"low", label.low},
          {"high", label.high},
          {"mean", label.mean},
          {"mean_rel_sem", label.mean_rel_sem},
          {"cv", label.cv},
          {"p05", label.p05},
          {"p95", label.p95},
          {"samples", label.samples},
          {"warmup", label.warmup},
          {"discarded", label.discarded},
          {"disturbed_share", label.disturbed_share},
          {"stopped_by", label.stopped_by},
          {"disturbed", label.disturbed},
          {"drift", label.drift},
          {"change", label.change}};
}

AggregateInputs aggregate_inputs(const nlohmann::json& options) {
  constexpr std::array<std::string_view, 6> own = {"runs", "logs", "label", "out", "rejected", "from"};
  AggregateInputs inputs{texts_option(options, "runs"), text_option(options, "logs")};
  if (const std::string label = text_option(options, "label"); !label.empty()) inputs.label = label;
  inputs.from = texts_option(options, "from");
  inputs.runs_out = text_option(options, "runs_out");
  for (const auto& [name, value] : options.items()) {
    if (value.is_null() || std::find(own.begin(), own.end(), name) != own.end()) continue;
    if (name == "merge" || name == "partial") {
      throw InputError(fmt::format("{} is not an option: {}", name, instead_of_parts));
    }
    if (name != "runs_out") add_fact(inputs.facts, name, value);
    if (inputs.from.empty()) throw InputError(fmt::format("{} is for logs (from)", name));
  }
  return inputs;
}

/// Gives the request its devices and prices.
void complete(PlanTerms& terms, const nlohmann::json& options, const DeviceCatalogue& catalogue) {
  terms.request.catalogue = catalogue;
  const auto prices = options.find("prices");
  if (prices != options.end() && !prices->is_null()) terms.prices = prices_of(*prices, catalogue);
  terms.complete_request();
}

RunPlan plan_of(const nlohmann::json& options, PlanTerms& terms, const perfpred_model* model) {
  const TableSource table = plan_table(options);
  const std::string file = text_option(options, "device_file");
  if (model == nullptr) {
    complete(terms, options, known_devices(file.empty() ? nullptr : file.c_str()));
    const PlanCandidates candidates = read_candidates(table, nullptr);
    terms.complete_for(candidates);
    return plan_candidates(candidates, terms.request, nullptr);
  }
  if (!file.empty()) throw InputError("device_file is given, but the model has a catalogue");
  const auto by = models().get(model);
  const auto requests = by->requests();
  PlanCandidates candidates;
  const std::vector<Workload> timed = by->ask([&](const TimeRegressor& regressor) {
    complete(terms, options, regressor.devices());
    candidates = read_candidates(table, requests.get());
    terms.complete_for(candidates);
    return timed_workloads(candidates.jobs, terms.request, regressor);
  });
  for (const Workload& workload : timed) by->rate_cpu_for(workload);
  return by->ask([&](const TimeRegressor& regressor) {
    terms.request.catalogue = regressor.devices();
    return plan_candidates(candidates, terms.request, &regressor);
  });
}

/// What a request asks a model.
struct Question {
  std::shared_ptr<SharedModel> model;
  nlohmann::json fields;

  Question(const perfpred_model* handle, const char* request)
      : model(models().get(handle)), fields(parse_request(given(request, "request"))) {}

  /// @param reader  of ModelRequests and fields
  template <class Reader>
  auto read(const Reader& reader) const {
    const auto requests = model->requests();
    return model->ask([&](const TimeRegressor&) { return reader(*requests, fields); });
  }
};

AskedJob read_job(const ModelRequests& requests, const nlohmann::json& fields) {
  return read_request(requests, fields);
}

}  // namespace

const char* perfpred_version() { return PERFPRED_VERSION; }

int perfpred_catalogue_create(const char* device_file, perfpred_catalogue** out) {
  return guarded([&] {
    *given(out, "out") = catalogues().add(std::make_shared<const DeviceCatalogue>(known_devices(device_file)));
  });
}

int perfpred_catalogue_create_with_links(const char* device_file, const char* links, perfpred_catalogue** out) {
  return guarded([&] {
    given(out, "out");
    DeviceCatalogue devices = known_devices(device_file);
    devices.add_links(given(links, "links"));
    *out = catalogues().add(std::make_shared<const DeviceCatalogue>(std::move(devices)));
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
    DeviceCatalogue devices = devices_of(catalogue);
    TimeRegressor model = read_model(path, devices);
    *out = new_model(std::move(model), std::move(devices));
  });
}

int perfpred_model_load_text(const char* text, size_t size, const perfpred_catalogue* catalogue, perfpred_model** out) {
  return guarded([&] {
    given(out, "out");
    DeviceCatalogue devices = devices_of(catalogue);
    TimeRegressor model = TimeRegressor::from_text({given(text, "text"), size}, devices);
    *out = new_model(std::move(model), std::move(devices));
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
    *out = new_model(TimeRegressor::fit(rows, fit), fit.devices, std::move(left_out));
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
    const auto observe = [&](std::span<const Run> rows) { return taught->observe(rows); };
    give_text(observed(read_runs(given(runs, "runs")), runs, observe), buffer, capacity, needed);
  });
}

int perfpred_model_observe_text(perfpred_model* model, const char* text, size_t size, char* buffer, size_t capacity,
                                size_t* needed) {
  return guarded([&] {
    const auto taught = models().get(model);
    const std::string name = "runs";
    const auto observe = [&](std::span<const Run> rows) { return taught->observe(rows); };
    give_text(observed(read_runs_text(name, {given(text, "text"), size}), name, observe), buffer, capacity, needed);
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
    give_text(observed(read_runs(given(runs, "runs")), runs, observe), buffer, capacity, needed);
  });
}

int perfpred_model_gpus(const perfpred_model* model, const char* precision, char* buffer, size_t capacity,
                        size_t* needed) {
  return guarded([&] {
    const auto asked = models().get(model);
    const auto requests = asked->requests();
    const std::vector<std::string> names = asked->ask([&](const TimeRegressor& regressor) {
      return requests->all_gpus(precision == nullptr ? regressor.example().precision : parse_precision(precision));
    });
    give_text(dumped(nlohmann::json{{"devices", names}}, indent), buffer, capacity, needed);
  });
}

int perfpred_model_reload(perfpred_model* model, const char* path) {
  return guarded([&] {
    const auto before = models().get(model);
    models().replace(model, before->successor(read_model(path, before->given_devices())));
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
    const Prediction answer = asked->ask([&](const TimeRegressor& regressor) { return predict_one(regressor, *job); });
    seconds[0] = answer.time_sec.p05;
    seconds[1] = answer.time_sec.p50;
    seconds[2] = answer.time_sec.p95;
    if (in_domain != nullptr) *in_domain = answer.in_domain() ? 1 : 0;
    if (!job->workload.knows_epoch()) throw NotStated(lacking_epoch(job->workload));
  });
}

int perfpred_predict_quantile(const perfpred_model* model, const perfpred_workload* workload, double q,
                              double* seconds) {
  return guarded([&] {
    const auto asked = models().get(model);
    const auto job = workloads().get(workload);
    given(seconds, "seconds");
    const Prediction answer = asked->ask([&](const TimeRegressor& regressor) { return predict_one(regressor, *job); });
    *seconds = quantile(answer.time_sec, q);
    if (!job->workload.knows_epoch()) throw NotStated(lacking_epoch(job->workload));
  });
}

int perfpred_predict_many(const perfpred_model* model, const perfpred_workload* const* asked, size_t count, double* p05,
                          double* p50, double* p95) {
  return guarded([&] { predict_many(model, asked, count, JobColumns::of(p05, p50, p95)); });
}

int perfpred_predict_jobs(const perfpred_model* model, const perfpred_workload* const* asked, size_t count,
                          const double* quantiles, size_t quantile_count, double* const* seconds, int* statuses) {
  return guarded(
      [&] { predict_many(model, asked, count, JobColumns::of(quantiles, quantile_count, seconds, statuses)); });
}

int perfpred_predict_columns(const perfpred_model* model, const perfpred_workload* workload, const char* const* fields,
                             const double* const* values, size_t field_count, size_t count, double* p05, double* p50,
                             double* p95) {
  return guarded(
      [&] { predict_variants(model, workload, fields, values, field_count, count, JobColumns::of(p05, p50, p95)); });
}

int perfpred_predict_variants(const perfpred_model* model, const perfpred_workload* workload, const char* const* fields,
                              const double* const* values, size_t field_count, size_t count, const double* quantiles,
                              size_t quantile_count, double* const* seconds, int* statuses) {
  return guarded([&] {
    predict_variants(model, workload, fields, values, field_count, count,
                     JobColumns::of(quantiles, quantile_count, seconds, statuses));
  });
}

int perfpred_predict_field(const perfpred_model* model, const perfpred_workload* workload, const char* field,
                           const double* values, size_t count, double* p05, double* p50, double* p95) {
  return perfpred_predict_columns(model, workload, &field, &values, 1, count, p05, p50, p95);
}

int perfpred_forecast(const perfpred_model* model, const char* request, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const Question question(model, request);
    const AskedJob job = question.read(read_job);
    note(job.notes);
    question.model->rate_cpu_for(job.terms.applied_to(job.workload));
    const Answer answer = question.model->ask(
        [&](const TimeRegressor& regressor) { return perfpred::answer(regressor, job.workload, job.terms); });
    nlohmann::json document = to_json(answer);
    echo_id(document, question.fields);
    give_text(dumped(document, indent), buffer, capacity, needed);
  });
}

int perfpred_inspect(const perfpred_model* model, const char* request, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const Question question(model, request);
    const AskedJob job = question.read(read_inspection);
    note(job.notes);
    question.model->rate_cpu_for(job.workload);
    const nlohmann::json document = question.model->ask(
        [&](const TimeRegressor& regressor) { return inspection(job.workload, regressor.devices()); });
    give_text(dumped(document, indent), buffer, capacity, needed);
  });
}

int perfpred_networks(const char* word, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const std::vector<ListedNetwork> networks = list_networks(word == nullptr ? "" : word);
    give_text(dumped(to_json(networks), indent), buffer, capacity, needed);
  });
}

int perfpred_layouts(const perfpred_model* model, const char* request, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const Question question(model, request);
    const AskedLayouts job = question.read(read_layouts);
    give_text(question.model->ask([&](const TimeRegressor& regressor) {
      return json_text(rank_layouts(regressor, job.workload, job.search));
    }),
              buffer, capacity, needed);
  });
}

int perfpred_timeline(const perfpred_model* model, const char* request, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const Question question(model, request);
    const AskedJob job = question.read(read_job);
    note(job.notes);
    const Workload workload = job.terms.applied_to(job.workload);
    question.model->rate_cpu_for(workload);
    give_text(question.model->ask([&](const TimeRegressor& regressor) {
      return trace_json(timeline(regressor, workload, job.terms.job));
    }),
              buffer, capacity, needed);
  });
}

int perfpred_explain(const perfpred_model* model, const char* request, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const Question question(model, request);
    const auto jobs = question.read(read_measured);
    for (const MeasuredJob& job : jobs) note(job.asked.notes);
    const nlohmann::json document = explained_all(jobs, [&](const MeasuredJob& job) {
      question.model->rate_cpu_for(job.asked.workload);
      return question.model->ask([&](const TimeRegressor& regressor) { return explained(regressor, job); });
    });
    give_text(dumped(document, indent), buffer, capacity, needed);
  });
}

int perfpred_explanation_text(const char* explanations, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const auto document = parse_json<nlohmann::json>(given(explanations, "explanations"));
    give_text(explanation_text(document, Reader::caller), buffer, capacity, needed);
  });
}

int perfpred_answer_text(const char* answers, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const nlohmann::json document = parse_object(given(answers, "answers"), "answers are a JSON object");
    give_text(shown_answers(document), buffer, capacity, needed);
  });
}

int perfpred_fields(char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] { give_text(dumped(request_fields(), indent), buffer, capacity, needed); });
}

int perfpred_samples_create(double limit_sec, perfpred_samples** out) {
  return guarded([&] {
    given(out, "out");
    StepSamplesOptions options;
    options.limit_sec = limit_sec;
    auto made = std::make_shared<SharedSamples>();
    made->samples = StepSamples(options);
    *out = samples_of_steps().add(std::move(made));
  });
}

int perfpred_samples_add(perfpred_samples* samples, const double* sec, const int* disturbed, size_t count,
                         int* finished) {
  return guarded([&] {
    const auto shared = samples_of_steps().get(samples);
    if (count > 0) given(sec, "sec");
    const std::lock_guard lock(shared->mutex);
    for (std::size_t i = 0; i < count; ++i) shared->samples.add(sec[i], disturbed != nullptr && disturbed[i] != 0);
    if (finished != nullptr) *finished = shared->samples.finished() ? 1 : 0;
  });
}

int perfpred_samples_label(perfpred_samples* samples, int ended, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const auto shared = samples_of_steps().get(samples);
    const std::lock_guard lock(shared->mutex);
    if (ended != 0) shared->samples.end();
    give_text(dumped(label_json(shared->samples.label())), buffer, capacity, needed);
  });
}

void perfpred_samples_free(perfpred_samples* samples) {
  (void)guarded([&] { samples_of_steps().remove(samples); });
}

int perfpred_aggregate(const char* options, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const nlohmann::json given_options = options_of(given(options, "options"));
    const AggregateInputs inputs = aggregate_inputs(given_options);
    std::vector<std::string> notes;
    const Aggregator aggregator = aggregate(inputs, notes);
    note(notes);
    const std::vector<AggregateRow> rows = aggregator.rows();
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
    constexpr std::array<std::string_view, 5> own = {"runs_agg", "rows", "out", "device_file", "prices"};
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

int perfpred_plan_devices(const perfpred_plan* plan, size_t* device) {
  return guarded([&] {
    const auto made = plans().get(plan);
    given(device, "device");
    for (std::size_t i = 0; i < made->plan.runs.size(); ++i) device[i] = made->plan.runs[i].device_index;
  });
}

int perfpred_plan_device_name(const perfpred_plan* plan, size_t device, char* buffer, size_t capacity, size_t* needed) {
  return guarded([&] {
    const auto made = plans().get(plan);
    const std::vector<std::string>& names = made->plan.devices;
    if (device >= names.size())
      throw InputError(fmt::format("device {} of a plan with {} devices", device, names.size()));
    give_text(names[device], buffer, capacity, needed);
  });
}

int perfpred_plan_bound(const perfpred_plan* plan, double* value, double* upper_bound, int* optimal) {
  return guarded([&] {
    const RunPlan& made = plans().get(plan)->plan;
    if (value != nullptr) *value = made.value;
    if (upper_bound != nullptr) *upper_bound = made.upper_bound;
    if (optimal != nullptr) *optimal = made.status == PlanStatus::optimal ? 1 : 0;
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
