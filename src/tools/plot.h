// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <functional>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "runs/run_log.h"
#include "tools/chart.h"
#include "tools/predictions_file.h"

namespace perfpred {

/// What `perfpred-plan --pareto --json` says of single runs.
struct PlanFront {
  struct Run {
    double cost_sec, value;
  };
  std::vector<Run> front, planned;
  std::string value_of;  ///< what the value is, `acc` or `thr`; empty if the plan does not say
};

/// @throws InputError, `file: ...`, for a file that cannot be read or is not such a plan
[[nodiscard]] PlanFront read_plan_front(const std::string& path);

/// A table is what it should be, but no plot can be drawn of it.
class NoPlot : public InputError {
 public:
  using InputError::InputError;
};

/// Draws the tables of the other programs. Every plot is a PNG and an SVG file in one folder, or what the style asks
/// for, drawn by gnuplot. All functions throw Error if gnuplot is missing or the disk refuses, InputError if the folder
/// cannot be made.
class Plotter {
 public:
  /// @param folder  made with the first plot if it is not there
  explicit Plotter(std::string folder, ChartStyle style = {});

  /// `accuracy_time` (where accuracies are known), `throughput_batch`, and, if a row has more than one run,
  /// `repeats`: their standard deviation against their mean.
  /// @throws NoPlot if no row has a time
  void aggregate(std::span<const AggregateRow> rows);

  /// `repeats`: every run against the mean of its workload's runs that an Aggregator keeps, for workloads with several
  /// timed runs. Rejected runs do not set the scale. It replaces the plot of the same name that aggregate() draws.
  /// @throws NoPlot if no workload has several
  void repeats(std::span<const Run> runs);

  /// `predicted_time` and `predicted_throughput`: predicted against measured, with 90 % intervals; of at most 40 rows
  /// also `predicted_bars`, side by side, with what `baseline` predicts of the same workloads.
  /// @throws NoPlot if no row has both measured values
  void predictions(std::span<const PredictionRow> rows, std::span<const PredictionRow> baseline = {});

  /// `<stem>_loss` and `<stem>_accuracy`: the epochs of a run's log, as far as they were recorded. `name` is the log's
  /// path, or another name for it; the plots take its stem.
  /// @throws NoPlot if the log has neither
  void log(const RunLog& log, const std::string& name);

  /// `sweep_time` and `sweep_throughput`: predictions over the field in which the rows differ, with 90 % intervals.
  /// @throws NoPlot unless the rows differ in exactly one field
  void sweep(std::span<const PredictionRow> rows);

  /// `pareto`: the Pareto front and the planned runs. @throws NoPlot if there is no front
  void pareto(const PlanFront& plan);

  /// Draws these, each under its name.
  void charts(std::span<const std::pair<std::string, Chart>> named);

  /// Calls `draw`, which plots what is in `file`; nothing if no file is named. A NoPlot becomes a line of left_out().
  void plot(const std::string& file, const std::function<void()>& draw);

  /// Paths of all files drawn so far. @throws InputError, a line of left_out(), if there are none
  [[nodiscard]] const std::vector<std::string>& files() const;

  /// `file: why there is no plot of it`
  [[nodiscard]] const std::vector<std::string>& left_out() const { return left_out_; }

 private:
  void draw_as(const Chart& chart, const std::string& name);

  std::string folder_;
  ChartStyle style_;
  std::vector<std::string> files_, left_out_;
};

}  // namespace perfpred
