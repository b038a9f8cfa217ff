// SPDX-License-Identifier: Apache-2.0
// perfpred-train: fits a regressor on measured rows, or proposes what to measure next.
#include <perfpred/aggregator.h>
#include <perfpred/op_time_model.h>
#include <perfpred/suggestion.h>
#include <perfpred/time_regressor.h>

#include <chrono>
#include <utility>

#include "cli.h"
#include "evaluate/fit_report.h"
#include "graphs_option.h"
#include "layer_study_options.h"
#include "metrics_output.h"
#include "optime/layers/layer_rows.h"
#include "prior_option.h"
#include "progress.h"
#include "rejected_output.h"
#include "tools/aggregate_answer.h"
#include "tools/features_file.h"
#include "tools/workload_sweep.h"

namespace perfpred::cli {
namespace {

constexpr double quiet_sec = 2;  // most fits end sooner

void show_suggestions(const std::vector<AggregateRow>& rows, const std::string& grid, std::size_t count,
                      const FitOptions& fit, bool json) {
  Workload defaults;  // fields that the grid lacks are taken from the rows, but for those that have no default
  if (!rows.empty()) defaults = rows.front().workload;
  defaults.network = defaults.network.family();
  defaults.batch_size = 0;
  const std::vector<Suggestion> suggestions =
      suggest(rows, read_configurations(grid, std::span(&defaults, 1), {}), count, fit);
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Suggestion& suggestion : suggestions) {
      list.push_back({{"key", suggestion.workload.key()}, {"cost_sec", or_null(suggestion.cost_sec)}});
    }
    fmt::print("{}\n", dumped(nlohmann::json{{"suggested", list}}, 2));
    return;
  }
  if (suggestions.empty()) fmt::print("every row of the grid was measured\n");
  for (const Suggestion& suggestion : suggestions) {
    fmt::print("{:>8} s  {}\n", cell(suggestion.cost_sec, 1, 1), suggestion.workload.key());
  }
}

struct TrainOptions {
  std::string runs_agg, split_file, out, grid, features_out, ops_dir, layers;
  std::vector<std::string> steps;
  std::size_t suggested = 0;
  FitOptions fit;
  double test_fraction = 0.15, val_fraction = 0.15;
  PriorOption prior;
  bool json = false;
  std::vector<CLI::Option*> of_regressors, of_ops, of_layers;

  explicit TrainOptions(Program& program) {
    program.add_option("--runs-agg", runs_agg, "measured rows, from perfpred-aggregate");
    CLI::Option* kind =
        program
            .add_option("--kind", fit.kind,
                        "hybrid, linear, ann, forest or boosting; ops: of operators; layers: of single layers")
            ->capture_default_str();
    CLI::Option* split = program.add_option("--split", split_file, "table that says which row is train, val or test");
    CLI::Option* test = program.add_option("--test-fraction", test_fraction, "rows kept for the test")
                            ->capture_default_str()
                            ->excludes(split);
    CLI::Option* val = program.add_option("--val-fraction", val_fraction, "rows kept for validation")
                           ->capture_default_str()
                           ->excludes(split);
    CLI::Option* seed = program.add_option("--seed", fit.seed, "of the split and the fit")->capture_default_str();
    CLI::Option* out_option = program.add_option("--out", out, "model file");
    CLI::Option* features = program.add_option("--features-out", features_out, "table of the features of each row");
    of_ops = {program.add_option("--ops-dir", ops_dir, "kind ops: folder of measured operators"),
              program
                  .add_option("--steps-train", steps,
                              "kind ops: tables of measured training steps or runs_agg.csv, in addition; joined by "
                              "commas")
                  ->delimiter(','),
              program.add_option("--layers", layers,
                                 "kinds ops and layers: table of measured layers, from perfpred-bench-layers")};
    const std::vector<CLI::Option*> prior_options = prior.add_to(program);
    of_regressors = {split, test, val, seed, features, prior_options[0], prior.device_file.add_links_to(program)};
    of_layers = {prior_options[1]};
    CLI::Option* grid_option = program.add_option("--grid", grid, "table of configurations that could be measured");
    CLI::Option* suggest =
        program.add_option("--suggest", suggested, "propose this many of them to measure next instead of fitting")
            ->check(positive())
            ->needs(grid_option);
    grid_option->needs(suggest);
    for (CLI::Option* option : {kind, split, test, val, out_option, features}) suggest->excludes(option);
    add_graphs_options(program);
    program.add_flag("--json", json, "one JSON document on stdout");
  }
};

nlohmann::json to_json(const StepErrors& errors) {
  nlohmann::json json = cli::to_json(errors.metrics);
  json["coverage90"] = or_null(errors.coverage90);
  return json;
}

void print(const OpFitReport& report) {
  const std::initializer_list<std::pair<const char*, const StepErrors*>> lines = {
      {"fitted on", &report.fitted}, {"steps of these", &report.steps}, {"layers left out", &report.left_out_layers}};
  bool first = true;
  for (const auto& [name, errors] : lines) {
    if (errors->metrics.time.n == 0) continue;
    if (std::exchange(first, false)) print_metrics_header();
    print_metrics(name, errors->metrics);
    fmt::print("  90 % interval covers {} %\n", cell(errors->coverage90, 100, 1));
  }
  if (report.by_layers > 0) {
    fmt::print(
        "layers answer for {} of the steps' devices and precisions: perfpred-evaluate --model scores those answers\n",
        report.by_layers);
  }
}

/// Fits an op model, and tells its errors on steps and layers; those on operators are perfpred-evaluate's to tell.
void train_ops(const TrainOptions& given) {
  if (!given.runs_agg.empty()) throw InputError("--runs-agg is not for --kind ops");
  for (const CLI::Option* option : given.of_regressors) {
    if (!option->empty()) throw InputError(option->get_name() + " is not for --kind ops");
  }
  if (given.layers.empty() && given.steps.empty()) refuse(given.of_layers, "--layers and --steps-train");
  if (given.ops_dir.empty() && given.layers.empty()) throw InputError("--ops-dir is missing, and so is --layers");
  const auto start = std::chrono::steady_clock::now();
  DeviceCatalogue devices = given.prior.device_file.catalogue();
  for (const LayerRow& row : given.layers.empty() ? std::vector<LayerRow>() : read_layer_rows(given.layers)) {
    if (devices.resolve(row.device).lacks_rates()) devices.set_cpu(rated_cpu_said());
  }
  const OpTimeModel model = OpTimeModel::fit(given.ops_dir, given.steps, given.layers, devices);
  const double fit_sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!given.out.empty()) model.save(given.out);
  nlohmann::json dropped = nlohmann::json::array();
  for (const std::string& note : model.notes()) {
    fmt::print(stderr, "perfpred-train: {}\n", note);
    dropped.push_back({{"key", nullptr}, {"reason", note}});
  }
  const OpFitReport report = report_op_fit(model, given.steps, given.layers, devices);
  if (const std::string warning = coverage_warning(report); !warning.empty()) {
    fmt::print(stderr, "perfpred-train: warning: {}\n", warning);
  }
  if (!given.json) {
    print(report);
    fmt::print("fitted in {:.3f} s\n", fit_sec);
    return;
  }
  const nlohmann::json document = {{"kind", "ops"},
                                   {"train", to_json(report.fitted)},
                                   {"steps", to_json(report.steps)},
                                   {"steps_by_layers", report.by_layers},
                                   {"val", cli::to_json(TimeMetrics{})},
                                   {"test", to_json(report.left_out_layers)},
                                   {"baselines", nlohmann::json::object()},
                                   {"dropped", dropped},
                                   {"fit_sec", fit_sec}};
  fmt::print("{}\n", dumped(document, 2));
}

/// Chooses a kind of regression for each type of measured layer.
void train_layers(const TrainOptions& given) {
  if (!given.runs_agg.empty() || !given.ops_dir.empty() || !given.steps.empty()) {
    throw InputError("--kind layers goes with --layers only");
  }
  if (given.layers.empty()) throw InputError("--layers is missing");
  const DeviceCatalogue devices = given.prior.device_file.catalogue();
  if (!given.features_out.empty()) write_layer_features(given.features_out, read_layer_rows(given.layers), devices);
  const auto start = std::chrono::steady_clock::now();
  LayerStudyOptions options;
  options.seed = given.fit.seed;
  options.test_fraction = given.test_fraction;
  options.ablation = options.devices = false;
  const LayerStudy study = study_of({given.layers}, devices, options);
  const double fit_sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!given.out.empty()) study.models.save(given.out);
  for (const std::string& note : study.notes) fmt::print(stderr, "perfpred-train: {}\n", note);
  if (!given.json) {
    fmt::print("{}fitted in {:.3f} s\n", layer_study_text(study), fit_sec);
    return;
  }
  nlohmann::json document = to_json(study);
  document["kind"] = "layers";
  document["fit_sec"] = fit_sec;
  fmt::print("{}\n", dumped(document, 2));
}

/// Says what the errors below rest on.
void print_notes(const TimeRegressor& model, const Split& split, const FitReport& report) {
  if (report.unstable + report.disagree != 0) {
    fmt::print(stderr, "perfpred-train: flagged rows: {} unstable, {} disagree, of {}; their times are less certain\n",
               report.unstable, report.disagree, split.train.size() + split.val.size());
  }
  if (const std::vector<RejectedRun> dropped = model.dropped(); !dropped.empty())
    fmt::print(stderr, "perfpred-train: {}\n", summary(dropped));
  if (!model.uses_validation() && !split.val.empty()) {
    fmt::print(stderr, "perfpred-train: {} was fitted on the {} validation rows too, so there is no validation error\n",
               model.kind(), split.val.size());
  }
}

void print_json(const TimeRegressor& model, const FitReport& report, std::vector<RejectedRun> dropped, double fit_sec) {
  const std::vector<RejectedRun> by_fit = model.dropped();
  dropped.insert(dropped.end(), by_fit.begin(), by_fit.end());
  const nlohmann::json document = {{"kind", model.kind()},
                                   {"train", cli::to_json(report.train)},
                                   {"val", cli::to_json(report.val)},
                                   {"test", cli::to_json(report.test)},
                                   {"baselines", cli::to_json(report.baselines)},
                                   {"dropped", to_json(dropped)},
                                   {"unstable", report.unstable},
                                   {"disagree", report.disagree},
                                   {"fit_sec", fit_sec}};
  fmt::print("{}\n", dumped(document, 2));
}

void print(const FitReport& report, double fit_sec) {
  print_metrics_header();
  print_metrics("train", report.train);
  if (report.val.time.n != 0) print_metrics("val", report.val);
  if (report.test.time.n != 0) {
    print_metrics("test", report.test);
    for (const NamedMetrics& baseline : report.baselines) print_metrics("test, " + baseline.name, baseline.metrics);
  }
  fmt::print("fitted in {:.3f} s\n", fit_sec);
}

void train_regressor(const TrainOptions& given) {
  for (const CLI::Option* option : given.of_ops) {
    if (!option->empty()) throw InputError(option->get_name() + " is for --kind ops");
  }
  std::vector<RejectedRun> left_out;
  const std::vector<AggregateRow> rows =
      given.runs_agg.empty() ? std::vector<AggregateRow>{} : usable_rows(given.runs_agg, left_out);
  FitOptions fit = given.fit;
  given.prior.set(fit);
  if (!given.grid.empty()) {
    show_suggestions(rows, given.grid, given.suggested, fit, given.json);
    return;
  }
  if (given.runs_agg.empty()) throw InputError("--runs-agg is missing");
  if (!given.features_out.empty()) write_features(given.features_out, rows, given.prior.device_file.catalogue());
  const Split split = given.split_file.empty() ? split_rows(rows, given.test_fraction, given.val_fraction, fit.seed)
                                               : read_split(given.split_file, rows);
  fit.progress = progress_on_terminal("fitting", quiet_sec);
  const auto start = std::chrono::steady_clock::now();
  const TimeRegressor model = TimeRegressor::fit(split.train, fit, split.val);
  const double fit_sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!given.out.empty()) model.save(given.out);
  const FitReport report = report_fit(model, split);
  print_notes(model, split, report);
  if (given.json) {
    print_json(model, report, std::move(left_out), fit_sec);
  } else {
    print(report, fit_sec);
  }
}

}  // namespace

int train_command(int argc, char** argv) {
  Program program("train", "perfpred-train --runs-agg runs_agg.csv --out model.json");
  TrainOptions given(program);
  return program.run(argc, argv, [&] {
    enable_kinds(given.fit.kind, argv);
    if (given.fit.kind == "ops") {
      train_ops(given);
    } else if (given.fit.kind == "layers") {
      train_layers(given);
    } else {
      train_regressor(given);
    }
  });
}

}  // namespace perfpred::cli
