// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>

#include <Eigen/Core>

#include <nlohmann/json.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

#include "model/file_rows.h"
#include "statistics/estimate.h"

namespace perfpred {

/// How a caller follows and stops a fit.
struct FitControl {
  std::stop_token stop;
  std::function<void(double)> progress;

  void check() const;  ///< @throws Error if the fit is to stop
  void report(double share) const {
    if (progress) progress(share);
  }  ///< of the work, 0 to 1
};

/// Rows of one group, all with a time, no key twice.
struct TrainingTable {
  std::vector<AggregateRow> rows;
  std::vector<AggregateRow> val;        ///< empty for kinds that do not use validation
  DeviceKind device = DeviceKind::gpu;  ///< that the rows ran on
  std::uint64_t seed = 0;
  FitControl control = {};
};

/// JointPrediction as the computation needs it.
struct JointNormal {
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
};

class RegressorModel;

/// What learning some rows gave.
struct LearnResult {
  std::unique_ptr<RegressorModel> model;             ///< null if no row was learnt
  std::vector<std::optional<std::string>> rejected;  ///< for each row the reason why it was not learnt, or nothing
  std::vector<std::string> forgotten;                ///< keys of rows that the model gave up for the new ones
};

/// A fitted model of one group of rows. Const members must be thread-safe.
class RegressorModel {
 public:
  virtual ~RegressorModel() = default;

  /// An epoch, without parts.
  [[nodiscard]] virtual Estimate estimate(const Workload& workload) const = 0;
  virtual void estimate(std::span<const Workload> workloads, std::span<Estimate> out) const;
  [[nodiscard]] virtual JointNormal joint(std::span<const Workload> workloads) const;
  [[nodiscard]] virtual std::vector<TimeTerm> breakdown(const Workload& workload) const;

  /// A copy that has learnt measured rows; each is judged by this model. Only for kinds that learn.
  /// @param stated  for each row the half width of the 90 % interval of log time that the regressor stated, where this
  ///                is wider than the model's own; an outlier lies far outside of both
  [[nodiscard]] virtual LearnResult learn(std::span<const AggregateRow> measured, std::span<const double> stated) const;

  [[nodiscard]] virtual std::vector<RejectedRun> dropped() const;  ///< rows that the fit rejected
  /// @param rows  of the file, among them all of this model
  [[nodiscard]] virtual nlohmann::json to_json(const FileRows& rows) const = 0;
};

/// A kind of regressor: how it is fitted and how it is read back. A new one takes a source file that defines it and a
/// line in the table in regressor_kind.cpp.
struct RegressorKind {
  std::string_view name;
  bool uses_validation = false;  ///< otherwise validation rows are fitted on like the others
  bool learns = false;           ///< from observed runs
  /// Fewest rows that it is fitted on in a group that the op model can predict, too. With so many rows of `cifar_cnn`
  /// it is fitted on these and predicts `cifar_cnn`; else, with so many rows in all, it is fitted on all of them and
  /// predicts only for devices without known rates. 0: fitted on all rows, it predicts all their networks.
  std::size_t family_rows = 0;
  std::unique_ptr<RegressorModel> (*fit)(const TrainingTable& table) = nullptr;
  /// @param device  that the rows ran on
  std::unique_ptr<RegressorModel> (*load)(const nlohmann::json& model, const FileRows& rows,
                                          DeviceKind device) = nullptr;
};

extern const RegressorKind ann_kind, boosting_kind, forest_kind, hybrid_kind, linear_kind;

/// @throws InputError, listing the kinds, for an unknown name
[[nodiscard]] const RegressorKind& find_kind(std::string_view name);

/// Half width of an interval of log time from held-out residuals (split conformal: the ceil(level (n + 1))-th smallest
/// absolute residual, the largest if there are too few).
[[nodiscard]] double conformal_half_width(std::vector<double> residuals, double level = 0.9);

}  // namespace perfpred
