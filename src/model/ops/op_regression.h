// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <Eigen/Core>

#include <nlohmann/json.hpp>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "model/ops/op_prior.h"
#include "model/regressor_kind.h"
#include "statistics/gaussian_process.h"

namespace perfpred {

/// Inputs of the Gaussian process on log(measured / op model) for one workload.
struct OpInput {
  std::uint64_t device = 0, setting = 0, network = 0;  ///< hashes; a setting is a device as it is used
  std::uint64_t precision = 0;
  double deviation = 0;  ///< of the op model's log time, by its interval
  double within = 0;     ///< the part of it that is the network's
  double shared = 0;     ///< the part that is the device's: hypot(within, shared) is the deviation
  double rest = 0;       ///< the part of `shared` that the machine's effects do not explain
  OpFeatures features = OpFeatures::Zero();
  ByEffect slopes = ByEffect::Zero();  ///< of log time, by a standard deviation of each effect of the machine

  OpInput(const Workload& workload, double deviation, const OpFeatures& features, const ByEffect& slopes);
};

/// A measured row.
struct OpError {
  Workload workload;
  OpInput input;
  double log_ratio = 0;       ///< measured over what the op model expects
  double label_variance = 0;  ///< of log_ratio, as the scatter of its epochs tells; 0 if that is not known
  std::int64_t runs = 1;
};

/// How the errors of an op model spread, relative to its own intervals. docs/notes/optime.md says how the constants
/// were found.
struct ErrorSpread {
  double scale = 1;     ///< of the part that is not the device's
  double noise = 0.03;  ///< relative standard deviation of a run

  /// Covariance of the errors of two workloads: a part common to all networks on a device (the machine's effects, and
  /// the rest), plus scale^2 times a part common to networks of similar features and a part of the network itself.
  /// Errors in another precision count half.
  [[nodiscard]] double covariance(const OpInput& a, const OpInput& b) const;
  /// @param alike  likeness of the two networks' features, if the caller has it: exp(-distance^2 / 2 length^2)
  [[nodiscard]] double covariance(const OpInput& a, const OpInput& b, double alike) const;
  [[nodiscard]] double variance_of_label(const OpError& row) const;

  /// covariance = (slopes slopes' + rest rest') device + within within' (alike features + same network), where alike
  /// falls with the distance of the features.
  struct Terms {
    double device, features, network;
  };
  [[nodiscard]] Terms terms(const OpInput& a, const OpInput& b) const;  ///< of inputs with any features and networks
};

/// Measured rows, and how their errors vary together (GaussianProcess).
class OpErrors {
 public:
  using Input = OpInput;

  OpErrors() = default;
  OpErrors(std::vector<OpError> rows, const ErrorSpread& spread);

  [[nodiscard]] const std::vector<OpError>& rows() const { return rows_; }
  [[nodiscard]] const ErrorSpread& spread() const { return spread_; }

  [[nodiscard]] Eigen::Index size() const { return static_cast<Eigen::Index>(rows_.size()); }
  [[nodiscard]] const OpInput& of(Eigen::Index row) const { return rows_[static_cast<std::size_t>(row)].input; }
  [[nodiscard]] double covariance(const OpInput& a, const OpInput& b) const { return spread_.covariance(a, b); }
  void column(const OpInput& input, double* out, Eigen::Index first = 0) const;
  /// In float: that only ranks. @param skip  bool(row)
  template <class Skip>
  [[nodiscard]] NearestRows nearest(const OpInput& input, const Skip& skip) const;
  [[nodiscard]] NearCovariance among(const NearestRows& rows, const OpInput& input) const;

 private:
  std::vector<OpError> rows_;
  ErrorSpread spread_;
  // Side by side:
  Eigen::ArrayXXf features_;          // rows x features
  Eigen::ArrayXf shared_, within_;    // over the deviation: the nearest are those of the largest correlation
  std::vector<std::size_t> setting_;  // of a row, its index in settings_
  std::vector<OpInput> settings_;     // an input with each
};

/// An op model corrected by runs of any networks on any devices: log T = log T_op + e, where e is a Gaussian process.
/// Without runs its answers are the op model's.
class OpRegression {
 public:
  explicit OpRegression(std::shared_ptr<const OpPrior> prior) : prior_(std::move(prior)) {}

  [[nodiscard]] const OpPrior& prior() const { return *prior_; }
  [[nodiscard]] std::span<const RejectedRun> dropped() const { return dropped_; }

  /// Learns measured rows: of each network in each setting at most eight, spread over its batch sizes, and 5,000 in
  /// all. Rows whose leave-one-out error is beyond four standard deviations are dropped, at most a tenth.
  /// @param devices  what the rows' names of devices mean; knows_rates() of each
  /// @throws InputError as OpPrior::epoch()
  void learn(std::span<const AggregateRow> measured, const DeviceCatalogue& devices);

  /// Whether a run is further than four standard deviations from what is expected of it.
  [[nodiscard]] bool is_outlier(const Job& job, double epoch_sec) const;

  /// An epoch: with rows, its interval has a run's noise; else it is the op model's.
  /// @param known  as for OpPrior::epoch()
  [[nodiscard]] Estimate estimate(const Job& job, PredictedSteps& known) const;

  /// Measurement noise excluded. @throws InputError as OpPrior::epoch()
  [[nodiscard]] JointNormal joint(std::span<const Workload> workloads, const DeviceCatalogue& devices) const;

  /// The workloads of the rows.
  [[nodiscard]] std::vector<Workload> workloads() const;
  /// @param file  has these workloads
  [[nodiscard]] nlohmann::json to_json(const FileRows& file) const;
  /// @throws ModelError naming the field that is missing or wrong
  [[nodiscard]] static OpRegression read(const nlohmann::json& json, const FileRows& file);

 private:
  void choose_spread(std::vector<OpError> rows);  ///< and solves
  void solve(std::vector<OpError> rows, const ErrorSpread& spread);
  void drop_outliers();
  [[nodiscard]] const std::vector<OpError>& rows() const { return process_.inputs().rows(); }
  [[nodiscard]] const ErrorSpread& spread() const { return process_.inputs().spread(); }

  std::shared_ptr<const OpPrior> prior_;
  std::vector<RejectedRun> dropped_;
  GaussianProcess<OpErrors> process_;  ///< of the errors
};

}  // namespace perfpred
