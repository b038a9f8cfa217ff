// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/prediction.h>
#include <perfpred/time_regressor.h>

#include <array>
#include <cmath>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/job_estimate.h"
#include "model/ops/op_regression.h"
#include "model/placed_prediction.h"
#include "model/regressor_kind.h"

namespace perfpred {

/// Whether two workloads belong to one group: what other_device, other_precision, other_optimizer and other_layout
/// (WorkloadColumn::how) stand for is the same.
[[nodiscard]] bool same_group(const Workload& a, const Workload& b);

/// The workload's group as messages name it.
[[nodiscard]] std::string group_text(const Workload& workload);

/// An interval of values that were measured; empty at first.
struct Range {
  double low = HUGE_VAL;
  double high = -HUGE_VAL;

  void add(double value);
  [[nodiscard]] bool contains(double value) const { return value >= low && value <= high; }
  /// All measured values are the same, and not this one.
  [[nodiscard]] bool is_one_other_than(double value) const { return low == high && value != low; }
};

/// What the rows of one network in a group cover.
struct NetworkRows {
  Range depth, base_filters, batch_size, sample;
  bool modelled = false;  ///< by the group's model; otherwise the op model answers, corrected by the rows
};

/// Rows of one group, what they cover, and the model fitted on them.
struct Group {
  Workload example;
  std::map<std::string, NetworkRows, std::less<>> networks;
  std::shared_ptr<const RegressorModel> model;  ///< null where the op model answers for all networks

  void cover(const Workload& workload, bool modelled);
  [[nodiscard]] bool models(const Workload& workload) const;
  /// Why the workload is out of the domain of the group's rows.
  [[nodiscard]] DomainViolation reason(const Workload& workload) const;
  /// Half width that the interval of log time has at least. 0 if the rows tell something of the workload. They tell
  /// nothing of another device, precision, network ..., and of another depth, width, batch or size where all rows of
  /// the network have the same.
  /// @param reason  of that workload
  [[nodiscard]] double least_half_width(const Workload& workload, DomainViolation reason) const;
};

/// A workload that the model was fitted on or has observed.
struct FittedRow {
  Workload workload;
  double sec = 0;                     ///< mean over its runs
  std::int64_t n = 0;                 ///< runs
  std::vector<std::string> observed;  ///< time stamps of the runs that were observed, "" of one without

  /// Whether it has other runs than those that were observed.
  [[nodiscard]] bool was_fitted_on() const { return n > static_cast<std::int64_t>(observed.size()); }
};

/// Who answers for a workload.
struct Route {
  const Group* group;      ///< null: the op model
  DomainViolation reason;  ///< of the closest group; without groups `none`, or why the op model cannot answer
};

/// What runs on several devices say, found out when the first job on several devices is asked for: what their ranks
/// take alone has to be predicted.
class RunsOfSeveralDevices {
 public:
  [[nodiscard]] const PlacedRuns& all(const std::function<PlacedRuns()>& find) {
    std::call_once(once_, [&] { all_.emplace(find()); });
    return *all_;
  }

 private:
  std::once_flag once_;
  std::optional<PlacedRuns> all_;
};

/// Everything that a regressor knows; never changed once predictions may read it.
struct ModelState {
  const RegressorKind* kind = &hybrid_kind;
  std::uint64_t model_id = 0;
  std::uint64_t training_set_id = 0;
  std::map<std::string, FittedRow, std::less<>> fitted;  ///< by key; those of several devices belong to no group
  std::vector<Group> groups;                             ///< those with more rows first
  std::shared_ptr<const OpRegression> ops;               ///< never null
  /// Of this state: one that learns runs has another.
  std::shared_ptr<RunsOfSeveralDevices> of_several = std::make_shared<RunsOfSeveralDevices>();

  /// Where the workload's own group answers, whatever is known of the device; else nothing. Allocates nothing.
  [[nodiscard]] std::optional<Route> own_route(const Workload& workload) const;

  /// The workload's own group if its model knows the network, else the op model if it knows the device, else the
  /// closest group that has a model: the first that agrees in the most important property.
  /// @param device  what workload.device means
  /// @throws InputError for threads or a CUDA graph that a device without rows cannot have
  [[nodiscard]] Route route(const Workload& workload, const ResolvedDevice& device) const;
  /// @param estimate  of who the route says answers
  [[nodiscard]] JobEstimate finish(const Route& route, const Workload& workload, Estimate estimate) const;

 private:
  /// The group that agrees with the workload in the most important property; null if there is none.
  [[nodiscard]] const Group* closest(const Workload& workload, bool with_model) const;
};

/// Of the device that a group's rows ran on.
[[nodiscard]] DeviceKind kind_on(const Workload& example, const DeviceCatalogue& devices);

/// A regressor that has seen no run.
/// @param text  of the model's file; its hash is the model's id
[[nodiscard]] ModelState without_runs(std::shared_ptr<const OpTimeModel> model, std::string_view text);

// Model files. @throws ModelError naming the field that is missing or wrong
[[nodiscard]] nlohmann::json to_json(const ModelState& state);
/// @param text  that the JSON was read from; see without_runs()
[[nodiscard]] ModelState read_state(const nlohmann::json& json, std::string_view text, const DeviceCatalogue& devices);

}  // namespace perfpred
