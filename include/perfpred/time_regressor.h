// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/prediction.h>
#include <perfpred/run.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// How a regressor is fitted.
struct FitOptions {
  std::string kind = "hybrid";  ///< one of regressor_kinds()
  std::uint64_t seed = 0;       ///< of whatever is random in the kind
};

/// A row that a model put aside, and why.
struct SetAside {
  std::string key;
  std::string reason;
};

/// What observe() did with the runs that it was given.
struct Observed {
  std::size_t observed = 0;
  std::vector<SetAside> set_aside;
};

/// Part of an epoch's time by cause.
struct TimeTerm {
  std::string op;
  double sec = 0;
};

/// Joint normal distribution of the natural logarithm of seconds per epoch of n workloads. Prediction errors of
/// similar workloads are correlated.
struct JointPrediction {
  std::vector<double> mean;
  std::vector<double> covariance;  ///< n x n, row by row; measurement noise excluded
};

/// Predicts seconds per epoch from measured rows. Rows are grouped by where and how they ran (device, threads,
/// precision, optimizer, layout, CUDA graph); every group has a model of its own. A workload of none is answered for by
/// the group that agrees with it in the most of these, the device first, then the precision, and so on; of several by
/// that with the most rows. All const members may be called from any number of threads, also while another one
/// observes.
class PERFPRED_API TimeRegressor {
 public:
  /// Rows without a time are left out. `val` chooses between models and stops training early; kinds that do neither fit
  /// on it too. Two rows of one key are averaged, weighted by their runs.
  /// The order of rows does not matter.
  /// @throws InputError if the kind is not known or the rows of a group are too few, all for validation or cannot
  /// describe it
  /// @throws Error if this build lacks what fitting the kind takes
  [[nodiscard]] static TimeRegressor fit(std::span<const AggregateRow> rows, const FitOptions& options = {},
                                         std::span<const AggregateRow> val = {});

  /// @throws InputError if the file cannot be read; ModelError, naming the field, if it is no model of format 1
  [[nodiscard]] static TimeRegressor load(const std::string& path);

  TimeRegressor(TimeRegressor&&) noexcept;
  TimeRegressor& operator=(TimeRegressor&&) noexcept;
  ~TimeRegressor();

  /// Allocates no memory for `cifar_cnn`.
  /// @throws InputError if nothing can be said of the workload: it is invalid, or its network has no description that
  /// the
  ///         kind understands
  [[nodiscard]] Prediction predict(const Workload& workload) const;

  /// Many at once, faster than one by one. @throws as the other; Error if the sizes differ
  void predict(std::span<const Workload> workloads, std::span<Prediction> predictions) const;
  [[nodiscard]] std::vector<Prediction> predict(std::span<const Workload> workloads) const;

  /// Kinds other than hybrid see no covariance between different workloads. @throws as predict
  [[nodiscard]] JointPrediction joint(std::span<const Workload> workloads) const;

  /// The median prediction by physical cause; empty for kinds that know none. The parts add up to p50.
  [[nodiscard]] std::vector<TimeTerm> breakdown(const Workload& workload) const;

  /// Corrects later predictions by finished runs (hybrid). Runs that the model's own rule finds outlying, or that did
  /// not end well or that it cannot describe, are set aside. @throws InputError if the kind cannot learn from runs
  Observed observe(std::span<const Run> runs);

  void save(const std::string& path) const;  ///< @throws Error if it cannot be written

  [[nodiscard]] const std::string& kind() const;
  [[nodiscard]] bool was_fitted_on(const Workload& workload) const;  ///< by key, observed runs included
  [[nodiscard]] std::vector<AggregateRow> fitted_rows() const;       ///< workloads and times, observed runs included
  [[nodiscard]] std::vector<SetAside> dropped() const;               ///< training rows that did not enter the fit
  [[nodiscard]] const Workload& example() const;  ///< a workload fitted on; programs take their defaults from it

 private:
  struct Impl;
  explicit TimeRegressor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Every kind that this build can evaluate, in alphabetical order.
[[nodiscard]] PERFPRED_API std::vector<std::string> regressor_kinds();

}  // namespace perfpred
