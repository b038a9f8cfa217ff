// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/roofline.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "tools/roofline/iteration_log.h"
#include "tools/roofline/ncu_report.h"

namespace perfpred {

/// A measurement under the roof of its device.
struct StudyPoint {
  std::string device;  ///< the environment where the roof is unknown
  std::string label;
  double ai = 0;                          ///< FLOPs a byte, > 0
  double flops_per_sec = 0;               ///< achieved, > 0
  Precision precision = Precision::fp32;  ///< of the roof that counts
  std::shared_ptr<const Roofline> roof;   ///< null where the device's peaks are unknown; what follows is then empty
  std::optional<Bound> bound;             ///< `memory` left of the ridge, `compute` right of it
  std::optional<double> margin;  ///< 1 - smaller / larger of intensity and ridge: 0 at the ridge, towards 1 far away
  std::optional<double> efficiency;  ///< achieved / attainable at this intensity, a fraction

  // Of training steps only:
  std::optional<TimedSteps> steps;
  std::string environment;  ///< "lab", "T4", or "lab (T4)" where the environment "lab" has several devices
  std::string network;      ///< "resnet18", "cifar_cnn d2 f16"
  std::string setting;      ///< "bf16, nhwc": values of fields in which steps of this network differ; often empty
};

/// Which devices the measurements ran on.
struct StudyDevices {
  DeviceCatalogue catalogue;  ///< where devices are found by name
  /// Environment, or device of a measurement by any of its names -> device. "" stands for all that are not named.
  std::map<std::string, std::string> names;
  std::optional<Roofline> by_hand;  ///< if set, the roof of every measurement
  std::function<Device()> rates;    ///< gives this machine's CPU with its rates if the catalogue lacks them
};

/// Measured training steps of several networks in several environments under the roofs of their devices. FLOPs and
/// bytes come from the networks' op graphs, times from the measurements. Steps of one network and batch size that
/// differ in precision, layout or any other field of their workload are separate points.
class RooflineStudy {
 public:
  /// @param precision  of measurements that do not state theirs
  RooflineStudy(StudyDevices devices, Precision precision);

  /// Steps of iteration logs. @throws InputError for an unknown device; a device called "cpu" has unknown peaks instead
  void add(const IterationSummary& summary);

  /// Rows of a runs_agg.csv: a step takes avg_time_mean / steps_per_epoch. @throws InputError as above, or if no row
  /// has a time
  void add(std::span<const AggregateRow> rows);

  /// The kernels of an Nsight Compute report, all together and by range. @throws InputError if no device is given
  void add(const NcuReport& report, const std::string& label);

  /// One point by hand, rate in FLOP/s. @throws InputError if no device is given, or unless both numbers are positive
  void add(const std::string& label, double ai, double flops_per_sec);

  void warn(std::string warning) { warnings_.push_back(std::move(warning)); }

  /// @throws InputError if a name of StudyDevices::names matches no measurement, or if `precision_given` although all
  /// measurements state their own
  void check_all_used(bool precision_given) const;

  [[nodiscard]] const std::vector<StudyPoint>& points() const { return points_; }
  [[nodiscard]] const std::vector<std::string>& warnings() const { return warnings_; }

 private:
  /// The entry of devices_.names for a measurement; end() if there is none.
  [[nodiscard]] std::map<std::string, std::string>::const_iterator named_device(const std::string& environment,
                                                                                const std::string& device) const;
  [[nodiscard]] std::shared_ptr<const Roofline> roof_of(const std::string& environment, const std::string& device);
  /// Whether the catalogue has the device or it is this machine's CPU.
  [[nodiscard]] bool is_known(const std::string& device) const;
  [[nodiscard]] Precision or_given(Precision stated);
  void add_steps(TimedSteps steps);
  void finish_steps(std::size_t first);
  void check_against_roof(const StudyPoint& point, const std::string& name);
  void name_steps();

  StudyDevices devices_;
  Precision precision_;
  bool precision_used_ = false;
  std::set<std::string> used_names_;                              // keys of devices_.names
  std::set<std::string> without_roof_;                            // environments and devices that a warning names
  std::map<std::string, std::shared_ptr<const Roofline>> roofs_;  // by the name looked up
  std::vector<StudyPoint> points_;
  std::vector<std::string> warnings_;
};

/// The roofs of these points, one of each device, in order of appearance.
[[nodiscard]] std::vector<const Roofline*> roofs_of(std::span<const StudyPoint> points);

/// The precisions of the points on this device, in order of appearance.
[[nodiscard]] std::vector<Precision> precisions_on(std::span<const StudyPoint> points, const std::string& device);

/// The environments of training steps, in order of appearance.
[[nodiscard]] std::vector<std::string> environments_of(std::span<const StudyPoint> points);

/// What the steps train.
[[nodiscard]] std::vector<Workload> workloads_of(std::span<const StudyPoint> points);

/// "32.1 %", or "unknown".
[[nodiscard]] std::string percent_text(const std::optional<double>& fraction);

}  // namespace perfpred
