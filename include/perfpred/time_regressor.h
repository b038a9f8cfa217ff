// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>
#include <perfpred/device.h>
#include <perfpred/prediction.h>
#include <perfpred/run.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <stop_token>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

class OpTimeModel;
class JobVariants;

/// How a regressor is fitted.
struct FitOptions {
  std::string kind = "hybrid";                     ///< hybrid, linear, ann, forest or boosting
  std::uint64_t seed = 0;                          ///< of the random choices of the fit
  std::stop_token stop = {};                       ///< ends the fit with an Error
  std::function<void(double)> progress = nullptr;  ///< called during long fits with the share that is done, 0 to 1
  std::shared_ptr<const OpTimeModel> prior = {};   ///< predicts what no rows cover; null: OpTimeModel::standard()
  DeviceCatalogue devices = {};                    ///< rates for the prior, whose own devices are added
};

/// Joint normal distribution of the natural logarithm of seconds per epoch of n workloads. Prediction errors of
/// similar workloads are correlated.
struct JointPrediction {
  std::vector<double> mean;
  std::vector<double> covariance;  ///< n x n, row by row; measurement noise excluded
};

/// Predicts seconds per epoch of any network on any device, from measured rows where there are some.
///
/// Rows are grouped by where and how they ran (device, threads, precision, optimizer, layout, CUDA graph), and every
/// group has its own model. If the kind is hybrid and the device's rates are known, that model covers `cifar_cnn` only,
/// else all networks of the group. Other workloads on devices with known rates are predicted by an op model, the prior,
/// corrected by all rows: by what they say about the device, the network and similar networks. Workloads on devices
/// without known rates are predicted by the closest group: device is compared first, then precision, optimizer and
/// layout. Ties go to the group with more rows.
///
/// All const members may be called from any number of threads, also while another thread calls observe(): they see the
/// model as it was before or after.
class PERFPRED_API TimeRegressor {
 public:
  /// Rows without a time are ignored. Rows of one key are pooled: their times are averaged, weighted by their runs. For
  /// the hybrid a row of n runs has 1/n of the variance of a single run, and more if its epoch_rel_sem is much larger
  /// than that of the other rows. The order of rows does not matter.
  /// @param val  rows that choose between models and stop training early; kinds that do neither fit on them too, see
  ///             uses_validation()
  /// @throws InputError if the kind is not known, if no row has a time, if a number of a row is out of range, if a
  /// group has too few rows or only rows for validation, or if the kind cannot describe a workload
  /// @throws Error if this build lacks what fitting the kind needs, or if the fit is stopped
  [[nodiscard]] static TimeRegressor fit(std::span<const AggregateRow> rows, const FitOptions& options = {},
                                         std::span<const AggregateRow> val = {});

  /// A hybrid that has seen no run: it predicts by OpTimeModel::standard() alone.
  [[nodiscard]] static TimeRegressor standard(const DeviceCatalogue& devices = {});

  /// Reads what save() or OpTimeModel::save() wrote.
  /// @param devices  see FitOptions
  /// @throws InputError if the file cannot be read
  /// @throws ModelError naming the wrong field if it is not a model file of this build's format
  [[nodiscard]] static TimeRegressor load(const std::string& path, const DeviceCatalogue& devices = {});

  /// The same from the text of a file, which text() gives. @throws ModelError
  [[nodiscard]] static TimeRegressor from_text(std::string_view text, const DeviceCatalogue& devices = {});

  TimeRegressor(TimeRegressor&&) noexcept;
  TimeRegressor& operator=(TimeRegressor&&) noexcept;
  ~TimeRegressor();

  /// Of a workload that does not know its epoch (Workload::knows_epoch()) the seconds are NaN; forecast() has those of
  /// its steps. joint() takes the samples that its key has.
  /// @throws InputError if the workload is invalid, if its network has no graph, or if no run and no specification
  /// tells anything about its device, this machine's CPU before set_cpu() included. Nothing is measured: equal models
  /// give equal answers
  [[nodiscard]] Prediction predict(const Workload& workload) const;

  /// Predicts many workloads, faster than one by one.
  /// @throws InputError as predict(workload); Error if the sizes differ
  void predict(std::span<const Workload> workloads, std::span<Prediction> predictions) const;
  [[nodiscard]] std::vector<Prediction> predict(std::span<const Workload> workloads) const;

  /// The same job on another device, named as rows and models name it (DeviceCatalogue::full_name() knows it of `cpu`).
  /// There, the number of threads is that of the rows measured on it, empty if there are none.
  [[nodiscard]] Workload on_device(const Workload& workload, std::string_view device) const;

  /// For groups of kinds other than hybrid, different workloads have no covariance. @throws InputError as
  /// predict(workload)
  [[nodiscard]] JointPrediction joint(std::span<const Workload> workloads) const;

  /// The median prediction by physical cause; the parts add up to p50. Empty for kinds other than hybrid. Of the op
  /// model: the wait for the host, the ten operators that take longest, and the others.
  /// @throws InputError as predict(workload)
  [[nodiscard]] std::vector<TimeTerm> breakdown(const Workload& workload) const;

  /// Corrects later predictions by finished runs (hybrid), all but those that it rejects: outliers, failed runs, runs
  /// that were observed before (same key and time stamp), and runs whose network or device the model cannot describe. A
  /// run of a known key is averaged with its row. A group keeps at most 5,000 rows: beyond, it forgets the rows that
  /// its other rows predict best. Up to 400 rows in a group, the time grows with the cube of their number.
  /// @returns the rejected runs
  /// @throws InputError if the kind cannot learn from runs
  std::vector<RejectedRun> observe(std::span<const Run> runs);

  /// Corrects a model file: load(), observe() and save(). Processes that correct one file at the same time wait for
  /// each other, so that none loses what another has observed.
  /// @param out  of the corrected model, may be the same file
  /// @returns the rejected runs
  /// @throws as load(), observe() and save()
  static std::vector<RejectedRun> observe_in_file(const std::string& path, std::span<const Run> runs,
                                                  const std::string& out, const DeviceCatalogue& devices = {});

  void save(const std::string& path) const;  ///< @throws Error if the file cannot be written
  [[nodiscard]] std::string text() const;    ///< what save() writes

  [[nodiscard]] const std::string& kind() const;
  /// Whether the kind keeps validation rows out of the fit; otherwise errors on them are training errors.
  [[nodiscard]] bool uses_validation() const;
  [[nodiscard]] bool was_fitted_on(const Workload& workload) const;  ///< by key, observed runs included
  /// Workloads, times and runs. @param with_observed  also of workloads of which all runs were observed
  [[nodiscard]] std::vector<AggregateRow> fitted_rows(bool with_observed = true) const;
  [[nodiscard]] std::vector<RejectedRun> dropped() const;  ///< training rows that the fit rejected
  /// A workload fitted on, or Workload(); programs take defaults from it. What was observed since changes no default.
  [[nodiscard]] const Workload& example() const;
  [[nodiscard]] const DeviceCatalogue& devices() const;  ///< see FitOptions

  /// Whether predict() throws because the workload's device is this machine's CPU, no run tells its time, and its rates
  /// are not known.
  [[nodiscard]] bool lacks_rates(const Workload& workload) const;
  /// devices().set_cpu(), which model files do not hold. No other thread may use the model meanwhile.
  /// @throws InputError as DeviceCatalogue::set_cpu()
  void set_cpu(Device measured);

 private:
  friend JobVariants;
  struct Impl;
  explicit TimeRegressor(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace perfpred
