// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/roofline.h>

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "tools/iteration_log.h"
#include "tools/ncu_report.h"

namespace perfpred {

/// Measured training steps of several networks in several environments under the roofs of their devices: intensity and
/// FLOPs from the networks' op graphs, rates from the measurements; tables, plots and a written report.
class RooflineStudy {
 public:
  /// @param catalogue   where devices are found by name
  /// @param devices     environment -> name of its device, where the measurements name none or a wrong one; the
  ///                    environment "" stands for every one that is not named
  /// @param precision   of measurements that do not say theirs
  RooflineStudy(DeviceCatalogue catalogue, std::map<std::string, std::string> devices, Precision precision);

  /// Steps of iteration logs; the optimizer is Nesterov's, as in perfpred-train-net.
  /// @throws InputError for a device that is not known, but not for an environment called "cpu": its peaks stay unknown
  void add(const IterationSummary& summary);

  /// Rows of a runs_agg.csv, steps_per_epoch steps in avg_time_mean. @throws InputError as above, or if none has a time
  void add(std::span<const AggregateRow> rows);

  /// The kernels of an Nsight Compute report, together and by range. @throws InputError without a device
  void add(const NcuReport& report, const std::string& label);

  /// One point by hand. @throws InputError without a device, or unless both numbers are positive
  void add(const std::string& label, double ai, double flops_per_sec);

  void set_roof(const Roofline& roof);  ///< peaks by hand, for every environment

  /// @throws InputError if a device was given for an environment that nothing added is of
  void check_devices() const;

  [[nodiscard]] const std::vector<RooflinePoint>& points() const { return points_; }  ///< `device` is the environment's
  [[nodiscard]] std::vector<const Roofline*> roofs() const;  ///< of the devices with points, in order of appearance
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

  [[nodiscard]] std::string text() const;  ///< the points as a table for people

  /// Writes tables (summary.csv, throughput.csv, times.csv, speedups.csv where steps were added), plots (one roofline
  /// per device, one of all, throughput, batch scaling, model comparison, efficiency) and report.md. @returns all paths
  /// @throws InputError if the folder cannot be made, Error if gnuplot is missing or the disk refuses
  [[nodiscard]] std::vector<std::string> write(const std::string& folder) const;

 private:
  struct Step {
    std::string environment, network;
    std::int64_t batch_size = 0, iterations = 0;
    std::string label;
    double mean_ms = 0, images_per_sec = 0;
    std::optional<double> std_ms, min_ms, max_ms;
    std::size_t point = 0;  // index into points_
  };

  [[nodiscard]] const Roofline* roof_of(const std::string& environment, const std::string& device);
  void add_step(Step step, const Roofline* roof, const OpGraph& graph, Precision precision);
  [[nodiscard]] std::vector<std::string> write_tables(const std::string& folder) const;
  [[nodiscard]] std::vector<std::string> write_plots(const std::string& folder) const;
  [[nodiscard]] std::string report(const std::vector<std::string>& plots) const;

  DeviceCatalogue catalogue_;
  std::map<std::string, std::string> devices_;
  Precision precision_;
  std::map<std::string, std::shared_ptr<const Roofline>> roof_by_environment_;
  std::vector<std::string> environments_;  // in order of appearance
  std::shared_ptr<const Roofline> by_hand_;
  std::map<std::string, Precision> precision_by_device_;  // of its points, for the drawn roof
  std::vector<RooflinePoint> points_;
  std::vector<Step> steps_;
  std::vector<std::string> warnings_;
};

}  // namespace perfpred
