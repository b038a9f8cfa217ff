// SPDX-License-Identifier: Apache-2.0
// perfpred-train: fits a regressor on measured rows, or proposes what to measure next.
#include <perfpred/aggregator.h>
#include <perfpred/op_time_model.h>
#include <perfpred/suggestion.h>
#include <perfpred/time_regressor.h>

#include <algorithm>
#include <chrono>
#include <functional>

#ifdef PERFPRED_WITH_TORCH
#include <perfpred/torch/ann.h>
#endif
#ifdef PERFPRED_WITH_XGBOOST
#include <perfpred/xgboost/trees.h>
#endif

#include <unistd.h>

#include "cli.h"
#include "evaluate/evaluation.h"
#include "graphs_option.h"
#include "metrics_output.h"
#include "prior_option.h"
#include "rejected_output.h"
#include "text/json.h"
#include "tools/features_file.h"
#include "tools/workload_sweep.h"

using namespace perfpred;

namespace {

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
    fmt::print("{}\n", nlohmann::json{{"suggested", list}}.dump(2));
    return;
  }
  if (suggestions.empty()) fmt::print("every row of the grid was measured\n");
  for (const Suggestion& suggestion : suggestions) {
    fmt::print("{:>8} s  {}\n", cli::cell(suggestion.cost_sec, 1, 1), suggestion.workload.key());
  }
}

/// Shows the share that is done and the time left, once a fit takes longer than two seconds.
std::function<void(double)> progress_on_terminal() {
  if (isatty(STDERR_FILENO) == 0) return nullptr;
  return [start = std::chrono::steady_clock::now()](double share) {
    const double sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (sec < 2 || !(share > 0)) return;
    fmt::print(stderr, "\rfitting: {:3.0f} %, {:.0f} s left {}", 100 * share, sec / share * (1 - share),
               share < 1 ? "" : "\n");
  };
}

/// Fits an op model; its errors are perfpred-evaluate's to tell.
void train_ops(const std::string& ops_dir, const std::vector<std::string>& steps, const std::string& layers,
               const cli::DeviceFile& device_file, const std::string& out, bool json) {
  if (ops_dir.empty() && layers.empty()) throw InputError("--ops-dir is missing, and so is --layers");
  const auto start = std::chrono::steady_clock::now();
  const OpTimeModel model = OpTimeModel::fit(ops_dir, steps, layers, device_file.catalogue());
  const double fit_sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (!out.empty()) model.save(out);
  nlohmann::json dropped = nlohmann::json::array();
  for (const std::string& note : model.notes()) {
    fmt::print(stderr, "perfpred-train: {}\n", note);
    dropped.push_back({{"key", nullptr}, {"reason", note}});
  }
  if (json) {
    const nlohmann::json none = cli::to_json(TimeMetrics{});
    const nlohmann::json document = {{"kind", "ops"},
                                     {"train", none},
                                     {"val", none},
                                     {"test", none},
                                     {"baselines", nlohmann::json::object()},
                                     {"dropped", dropped},
                                     {"fit_sec", fit_sec}};
    fmt::print("{}\n", document.dump(2));
    return;
  }
  fmt::print("fitted in {:.3f} s\n", fit_sec);
}

/// Says what the errors below rest on.
void print_notes(const TimeRegressor& model, const Split& split, std::size_t rows, std::size_t unstable,
                 std::size_t disagree) {
  if (unstable + disagree != 0) {
    fmt::print(stderr, "perfpred-train: flagged rows: {} unstable, {} disagree, of {}; their times are less certain\n",
               unstable, disagree, rows);
  }
  if (const std::vector<RejectedRun> dropped = model.dropped(); !dropped.empty())
    fmt::print(stderr, "perfpred-train: {}\n", cli::summary(dropped));
  if (!model.uses_validation() && !split.val.empty()) {
    fmt::print(stderr, "perfpred-train: {} was fitted on the {} validation rows too, so there is no validation error\n",
               model.kind(), split.val.size());
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("train", "Fits a regressor of epoch times on measured rows.",
                       "perfpred-train --runs-agg runs_agg.csv --out model.json");
  std::string runs_agg, split_file, out, grid, features_out;
  std::size_t suggested = 0;
  FitOptions fit;
  double test_fraction = 0.15, val_fraction = 0.15;
  bool json = false;
  program.add_option("--runs-agg", runs_agg, "measured rows, from perfpred-aggregate");
  CLI::Option* kind_option =
      program.add_option("--kind", fit.kind, "hybrid, linear, ann, forest or boosting; ops: of operators")
          ->capture_default_str();
  CLI::Option* split_option =
      program.add_option("--split", split_file, "table that says which row is train, val or test");
  CLI::Option* test_option = program.add_option("--test-fraction", test_fraction, "rows kept for the test")
                                 ->capture_default_str()
                                 ->excludes(split_option);
  CLI::Option* val_option = program.add_option("--val-fraction", val_fraction, "rows kept for validation")
                                ->capture_default_str()
                                ->excludes(split_option);
  CLI::Option* seed_option = program.add_option("--seed", fit.seed, "of the split and the fit")->capture_default_str();
  CLI::Option* out_option = program.add_option("--out", out, "model file");
  CLI::Option* features_option =
      program.add_option("--features-out", features_out, "table of the features of each row");
  std::string ops_dir, layers;
  std::vector<std::string> steps;
  const std::vector<CLI::Option*> of_ops = {
      program.add_option("--ops-dir", ops_dir, "kind ops: folder of measured operators"),
      program
          .add_option("--steps-train", steps,
                      "kind ops: tables of measured training steps or runs_agg.csv, in addition; joined by commas")
          ->delimiter(','),
      program.add_option("--layers", layers, "kind ops: table of measured layers, from perfpred-bench-layers")};
  cli::PriorOption prior;
  const std::vector<CLI::Option*> prior_options = prior.add_to(program);
  CLI::Option* grid_option = program.add_option("--grid", grid, "table of configurations that could be measured");
  CLI::Option* suggest_option =
      program.add_option("--suggest", suggested, "propose this many of them to measure next instead of fitting")
          ->check(cli::positive())
          ->needs(grid_option);
  grid_option->needs(suggest_option);
  for (CLI::Option* option : {kind_option, split_option, test_option, val_option, out_option, features_option})
    suggest_option->excludes(option);
  cli::add_graphs_options(program);
  program.add_flag("--json", json, "one JSON document on stdout");
  return program.run(argc, argv, [&] {
#ifdef PERFPRED_WITH_TORCH
    enable_ann();
#endif
#ifdef PERFPRED_WITH_XGBOOST
    enable_xgboost();
#endif
    if (fit.kind == "ops") {
      if (!runs_agg.empty()) throw InputError("--runs-agg is not for --kind ops");
      for (const CLI::Option* option :
           {split_option, test_option, val_option, seed_option, features_option, prior_options[0]}) {
        if (!option->empty()) throw InputError(option->get_name() + " is not for --kind ops");
      }
      if (layers.empty()) cli::refuse({prior_options[1]}, "--layers");
      train_ops(ops_dir, steps, layers, prior.device_file, out, json);
      return;
    }
    for (const CLI::Option* option : of_ops) {
      if (!option->empty()) throw InputError(option->get_name() + " is for --kind ops");
    }
    const std::vector<AggregateRow> rows = runs_agg.empty() ? std::vector<AggregateRow>{} : read_aggregate(runs_agg);
    prior.set(fit);
    if (!grid.empty()) {
      show_suggestions(rows, grid, suggested, fit, json);
      return;
    }
    if (runs_agg.empty()) throw InputError("--runs-agg is missing");
    if (!features_out.empty()) write_features(features_out, rows);
    const Split split =
        split_file.empty() ? split_rows(rows, test_fraction, val_fraction, fit.seed) : read_split(split_file, rows);
    fit.progress = progress_on_terminal();
    const auto start = std::chrono::steady_clock::now();
    const TimeRegressor model = TimeRegressor::fit(split.train, fit, split.val);
    const double fit_sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!out.empty()) model.save(out);

    const auto score = [&](const std::vector<AggregateRow>& part) {
      return evaluate(part, predict_rows(model, part)).metrics;
    };
    const TimeMetrics train = score(split.train), test = score(split.test);
    const TimeMetrics val = model.uses_validation() ? score(split.val) : TimeMetrics{};
    std::vector<AggregateRow> known = split.train;
    known.insert(known.end(), split.val.begin(), split.val.end());
    const std::vector<NamedMetrics> baselines = evaluate_baselines(known, split.test);
    const auto flagged = [&](bool AggregateFlags::*flag) {
      return static_cast<std::size_t>(
          std::count_if(known.begin(), known.end(), [&](const AggregateRow& row) { return row.flags.*flag; }));
    };
    const std::size_t unstable = flagged(&AggregateFlags::unstable), disagree = flagged(&AggregateFlags::disagree);
    print_notes(model, split, known.size(), unstable, disagree);
    if (json) {
      const nlohmann::json document = {{"kind", model.kind()},
                                       {"train", cli::to_json(train)},
                                       {"val", cli::to_json(val)},
                                       {"test", cli::to_json(test)},
                                       {"baselines", cli::to_json(baselines)},
                                       {"dropped", cli::to_json(model.dropped())},
                                       {"unstable", unstable},
                                       {"disagree", disagree},
                                       {"fit_sec", fit_sec}};
      fmt::print("{}\n", document.dump(2));
      return;
    }
    cli::print_metrics_header();
    cli::print_metrics("train", train);
    if (val.time.n != 0) cli::print_metrics("val", val);
    if (!split.test.empty()) {
      cli::print_metrics("test", test);
      for (const NamedMetrics& baseline : baselines) cli::print_metrics("test, " + baseline.name, baseline.metrics);
    }
    fmt::print("fitted in {:.3f} s\n", fit_sec);
  });
}
