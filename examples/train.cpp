// SPDX-License-Identifier: Apache-2.0
// perfpred-train: fits a regressor on measured rows, or proposes what to measure next.
#include <perfpred/aggregator.h>
#include <perfpred/evaluation.h>
#include <perfpred/suggestion.h>
#include <perfpred/time_regressor.h>

#include <chrono>

#include "metrics_output.h"
#ifdef PERFPRED_WITH_TORCH
#include <perfpred/torch/ann.h>
#endif

#include "cli.h"
#include "tools/features_file.h"

using namespace perfpred;

namespace {

void show_suggestions(const std::vector<AggregateRow>& rows, const std::string& grid, std::size_t count,
                      const FitOptions& fit, bool json) {
  Workload defaults;  // what the grid does not say is as in the rows
  if (!rows.empty()) defaults = rows.front().workload;
  const std::vector<Suggestion> suggestions = suggest(rows, read_workloads(grid, defaults), count, fit);
  if (json) {
    nlohmann::json list = nlohmann::json::array();
    for (const Suggestion& suggestion : suggestions) {
      list.push_back({{"key", suggestion.workload.key()}, {"cost_sec", cli::number_or_null(suggestion.cost_sec)}});
    }
    fmt::print("{}\n", nlohmann::json{{"suggested", list}}.dump(2));
    return;
  }
  for (const Suggestion& suggestion : suggestions) {
    fmt::print("{:>8} s  {}\n", cli::cell(suggestion.cost_sec, 1, 1), suggestion.workload.key());
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
  program.add_option("--kind", fit.kind, "hybrid, linear, ann, forest or boosting")->capture_default_str();
  CLI::Option* split_option =
      program.add_option("--split", split_file, "table that says which row is train, val or test");
  program.add_option("--test-fraction", test_fraction, "rows kept for the test")
      ->capture_default_str()
      ->excludes(split_option);
  program.add_option("--val-fraction", val_fraction, "rows kept for validation")
      ->capture_default_str()
      ->excludes(split_option);
  program.add_option("--seed", fit.seed, "of the split and the fit")->capture_default_str();
  program.add_option("--out", out, "model file");
  CLI::Option* grid_option = program.add_option("--grid", grid, "table of configurations that could be measured");
  CLI::Option* suggest_option =
      program.add_option("--suggest", suggested, "propose so many of them instead of fitting")->needs(grid_option);
  grid_option->needs(suggest_option);
  program.add_flag("--json", json, "one JSON document on stdout");
  program.add_option("--features-out", features_out, "what the kinds see of each row, as a table");
  program.not_built_yet({"--ops-dir"});
  return program.run(argc, argv, [&] {
#ifdef PERFPRED_WITH_TORCH
    enable_ann();
#endif
    const std::vector<AggregateRow> rows = runs_agg.empty() ? std::vector<AggregateRow>{} : read_aggregate(runs_agg);
    if (!grid.empty()) {
      show_suggestions(rows, grid, suggested, fit, json);
      return;
    }
    if (runs_agg.empty()) throw InputError("--runs-agg is missing");
    if (!features_out.empty()) write_features(features_out, rows);
    const Split split =
        split_file.empty() ? split_rows(rows, test_fraction, val_fraction, fit.seed) : read_split(split_file, rows);
    const auto start = std::chrono::steady_clock::now();
    const TimeRegressor model = TimeRegressor::fit(split.train, fit, split.val);
    const double fit_sec = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
    if (!out.empty()) model.save(out);

    const auto score = [&](const std::vector<AggregateRow>& part) {
      std::vector<Prediction> predictions;
      for (const AggregateRow& row : part) predictions.push_back(model.predict(row.workload));
      return evaluate(part, predictions).metrics;
    };
    const TimeMetrics train = score(split.train), val = score(split.val), test = score(split.test);
    std::vector<AggregateRow> known = split.train;
    known.insert(known.end(), split.val.begin(), split.val.end());
    const std::vector<NamedMetrics> baselines = evaluate_baselines(known, split.test);
    for (const SetAside& row : model.dropped()) fmt::print(stderr, "dropped {}: {}\n", row.key, row.reason);
    if (json) {
      nlohmann::json dropped = nlohmann::json::array();
      for (const SetAside& row : model.dropped()) dropped.push_back({{"key", row.key}, {"reason", row.reason}});
      const nlohmann::json document = {
          {"kind", model.kind()},       {"train", cli::to_json(train)},         {"val", cli::to_json(val)},
          {"test", cli::to_json(test)}, {"baselines", cli::to_json(baselines)}, {"dropped", dropped},
          {"fit_sec", fit_sec}};
      fmt::print("{}\n", document.dump(2));
      return;
    }
    cli::print_metrics_header();
    cli::print_metrics("train", train);
    if (!split.val.empty()) cli::print_metrics("val", val);
    if (!split.test.empty()) {
      cli::print_metrics("test", test);
      for (const NamedMetrics& baseline : baselines) cli::print_metrics("test, " + baseline.name, baseline.metrics);
    }
    fmt::print("fitted in {:.3f} s\n", fit_sec);
  });
}
