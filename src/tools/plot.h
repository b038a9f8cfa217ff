// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/run.h>

#include <span>
#include <string>
#include <vector>

namespace perfpred {

struct Chart;

/// Draws what the pipeline wrote. Every plot is a PNG and an SVG file in one folder, drawn by gnuplot. All functions
/// throw Error if gnuplot is missing or the disk refuses, InputError if the folder cannot be made.
class Plotter {
 public:
  /// @param folder  made with the first plot if it is not there
  explicit Plotter(std::string folder);

  /// `accuracy_time` (where accuracies are known), `throughput_batch`, and, if a row has more than one run,
  /// `repeats`: their standard deviation against their mean.
  /// @throws InputError if no row has a time
  void aggregate(std::span<const AggregateRow> rows);

  /// `repeats`: every run against the mean of its workload, where a workload has several timed runs; in the place of
  /// the aggregate's, if that was drawn.
  /// @throws InputError if none has
  void repeats(std::span<const Run> runs);

  /// `predicted_time` and `predicted_throughput`: a predictions.csv with measured columns, with 90 % intervals.
  /// @throws InputError, `file:line: ...`, for a file that cannot be read or has nothing measured
  void predictions(const std::string& path);

  /// `<name>_loss` and `<name>_accuracy`: the epochs of a run's log, for what was recorded.
  /// @throws InputError, `file:line: ...`, for a file that is no log or has neither
  void log(const std::string& path);

  /// `sweep_time` and `sweep_throughput`: predictions.csv over the field that differs, with 90 % intervals.
  /// @throws InputError, `file:line: ...`, for a file that cannot be read, or where not one field differs but none or
  /// several
  void sweep(const std::string& path);

  /// `pareto`: the front in a plan.json, and the runs planned.
  /// @throws InputError, `file: ...`, for a file that cannot be read or holds no front
  void pareto(const std::string& path);

  /// Paths of all files drawn so far.
  [[nodiscard]] const std::vector<std::string>& files() const { return files_; }

 private:
  void draw_as(const Chart& chart, const std::string& name);

  std::string folder_;
  std::vector<std::string> files_;
};

}  // namespace perfpred
