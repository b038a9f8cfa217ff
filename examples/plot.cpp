// SPDX-License-Identifier: Apache-2.0
// perfpred-plot: pictures of what the other programs wrote.

#include "tools/plot.h"
#include "chart_options.h"
#include "cli.h"
#include "runs/run_log.h"
#include "tools/layer_report.h"
#include "tools/plan_chart.h"
#include "tools/study_report.h"

namespace perfpred::cli {

int plot_command(int argc, char** argv) {
  Program program("plot", "perfpred-plot --runs-agg runs_agg.csv --predictions predictions.csv --out-dir plots");
  std::string runs_agg, runs, predictions, baseline, sweep, pareto, plan, layers, out_dir = "plots";
  std::vector<std::string> logs, networks;
  bool json = false, report = false;
  program.add_option("--runs-agg", runs_agg, "runs_agg.csv: accuracy-time, throughput-batch, repeats");
  program.add_option("--runs", runs, "runs.csv: every run of a repeated configuration");
  auto* predicted =
      program.add_option("--predictions", predictions, "predictions.csv of perfpred-evaluate: predicted-measured");
  program.add_option("--baseline", baseline, "predictions.csv of another model for the same rows: bars beside them")
      ->needs(predicted);
  program.add_option("--network", networks, "of --predictions: these alone, joined by commas")
      ->delimiter(',')
      ->needs(predicted);
  program.add_option("--log", logs, "Log of a run (may be repeated): loss and accuracy curves");
  program.add_option("--sweep", sweep, "predictions.csv of perfpred-predict --sweep: what if");
  program.add_option("--pareto", pareto, "JSON of perfpred-plan --pareto");
  program.add_option("--plan", plan, "JSON of perfpred-plan: its runs over time");
  program.add_option("--layers", layers, "JSON of perfpred-evaluate --layers: errors by type, inputs and device");
  program.add_option("--out-dir", out_dir, "Where the pictures go")->capture_default_str();
  program.add_flag("--report", report, "Also write report.md: tables and text beside the pictures");
  const ChartOptions charts(program);
  program.add_flag("--json", json, "Print one JSON document");
  return program.run(argc, argv, [&] {
    if (runs_agg.empty() && runs.empty() && predictions.empty() && logs.empty() && sweep.empty() && pareto.empty() &&
        plan.empty() && layers.empty()) {
      throw InputError(
          "nothing to plot: give --runs-agg, --runs, --predictions, --log, --sweep, --pareto, --plan or --layers");
    }
    Plotter plotter(out_dir, charts.style());
    Study study;
    plotter.plot(runs_agg, [&] { plotter.aggregate(study.rows = read_aggregate(runs_agg)); });
    plotter.plot(runs, [&] { plotter.repeats(study.runs = read_runs(runs)); });
    plotter.plot(predictions, [&] {
      study.predictions = of_networks(read_predictions(predictions), networks);
      plotter.predictions(study.predictions,
                          baseline.empty() ? std::vector<PredictionRow>() : read_predictions(baseline));
    });
    for (const std::string& log : logs) plotter.plot(log, [&] { plotter.log(read_run_log(log), log); });
    plotter.plot(sweep, [&] { plotter.sweep(study.sweep = read_predictions(sweep)); });
    plotter.plot(pareto, [&] { plotter.pareto(study.plan = read_plan_front(pareto)); });
    plotter.plot(plan, [&] {
      const std::pair<std::string, Chart> gantt("plan", plan_chart(plan));
      plotter.charts({&gantt, 1});
    });
    plotter.plot(layers, [&] { plotter.charts(layer_charts(layers)); });
    std::vector<std::string> files = plotter.files();
    if (report) {
      files.push_back(out_dir + "/report.md");
      write_file(files.back(), study_report(study, plotter.files()));
    }
    for (const std::string& reason : plotter.left_out()) fmt::print(stderr, "perfpred-plot: warning: {}\n", reason);
    if (json) {
      fmt::print("{}\n", dumped(nlohmann::json{{"files", files}}));
    } else {
      for (const std::string& file : files) fmt::print("{}\n", file);
    }
  });
}

}  // namespace perfpred::cli
