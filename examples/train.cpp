// perfpred-train: fits a regressor on measured rows, or proposes what to measure next.
#include <perfpred/aggregate_row.h>
#include <perfpred/evaluation.h>
#include <perfpred/time_regressor.h>

#include <chrono>

#include "metrics_output.h"
#ifdef PERFPRED_WITH_TORCH
#include <perfpred/torch/ann.h>
#endif

#include "cli.h"

using namespace perfpred;

int main(int argc, char** argv) {
  cli::Program program("train", "Fits a regressor of epoch times on measured rows.",
                       "perfpred-train --runs-agg runs_agg.csv --kind linear --out model.json");
  std::string runs_agg, split_file, out;
  FitOptions fit;
  double test_fraction = 0.15, val_fraction = 0.15;
  bool json = false;
  program.add_option("--runs-agg", runs_agg, "measured rows, from perfpred-aggregate")->required();
  program.add_option("--kind", fit.kind, "linear or ann")->required();
  CLI::Option* split_option = program.add_option("--split", split_file, "table that says which row is train, val or test");
  program.add_option("--test-fraction", test_fraction, "rows kept for the test")->capture_default_str()->excludes(split_option);
  program.add_option("--val-fraction", val_fraction, "rows kept for validation")->capture_default_str()->excludes(split_option);
  program.add_option("--seed", fit.seed, "of the split and the fit")->capture_default_str();
  program.add_option("--out", out, "model file");
  program.add_flag("--json", json, "one JSON document on stdout");
  program.not_built_yet({"--ops-dir", "--suggest", "--grid", "--features-out"});
  return program.run(argc, argv, [&] {
#ifdef PERFPRED_WITH_TORCH
    enable_ann();
#endif
    const std::vector<AggregateRow> rows = read_aggregate(runs_agg);
    const Split split = split_file.empty() ? split_rows(rows, test_fraction, val_fraction, fit.seed) : read_split(split_file, rows);
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
      const nlohmann::json document = {{"kind", model.kind()},        {"train", cli::to_json(train)},
                                       {"val", cli::to_json(val)},    {"test", cli::to_json(test)},
                                       {"baselines", cli::to_json(baselines)}, {"dropped", dropped},
                                       {"fit_sec", fit_sec}};
      fmt::print("{}\n", document.dump(2));
      return;
    }
    cli::print_metrics_header();
    cli::print_metrics("train", train);
    cli::print_metrics("val", val);
    cli::print_metrics("test", test);
    for (const NamedMetrics& baseline : baselines) cli::print_metrics("test, " + baseline.name, baseline.metrics);
    fmt::print("fitted in {:.3f} s\n", fit_sec);
  });
}
