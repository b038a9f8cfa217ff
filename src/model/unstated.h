// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/forecast.h>
#include <perfpred/job_prediction.h>
#include <perfpred/prediction.h>
#include <perfpred/time_regressor.h>

#include <cstddef>
#include <functional>
#include <map>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "model/job_estimate.h"
#include "model/ops/op_prior.h"
#include "step/job.h"
#include "workload/workload_hash.h"

namespace perfpred {

struct PlacedJob;

/// Seconds of an epoch; NaN where the workload does not know it.
[[nodiscard]] Quantiles of_known_epoch(const Workload& workload, const Quantiles& sec);

/// Asks a model for one job and variants of it on its device; what their steps share is predicted once.
class JobVariants {
 public:
  explicit JobVariants(const TimeRegressor& model) : model_(model) {}

  /// Without parts. Where runs of its own group answer, nothing is looked up or allocated.
  [[nodiscard]] JobEstimate estimate(const Workload& variant);
  [[nodiscard]] JobEstimate estimate(const Job& variant);  ///< without parts
  [[nodiscard]] JobEstimate explain(const Job& variant);   ///< with its parts, TimeRegressor::breakdown()

  /// What the op model says of each kernel of a step of one device, whoever else answers for the step.
  /// @throws InputError as OpPrior::epoch()
  [[nodiscard]] std::vector<TimedKernel> kernels(const Job& variant);
  [[nodiscard]] PlacedJob placed(const Job& variant);  ///< of a job on several devices

  /// What TimeRegressor::predict() rests on, of many workloads. Of one that has no prediction, or whose `answered`
  /// throws, `refused` gets the place, while its exception is handled.
  static void predict_all(const TimeRegressor& model, std::span<const Workload> workloads,
                          const std::function<void(std::size_t place, JobEstimate)>& answered,
                          const std::function<void(std::size_t place)>& refused);

 private:
  const TimeRegressor& model_;
  PredictedSteps steps_;
};

/// predict_each() with intervals that `widen` makes wider, of workloads that know their epochs.
[[nodiscard]] std::vector<JobPrediction> predict_each(const TimeRegressor& model, std::span<const Workload> workloads,
                                                      const std::function<void(std::size_t place, Estimate&)>& widen);

/// What the fields of a job that nobody stated may be worth (JobTerms::unstated), and which of them are worth most.
class Unstated {
 public:
  /// @param stated  of the job
  Unstated(JobVariants& variants, const Job& job, const Estimate& stated, std::span<const std::string> fields);

  /// Of the logarithm of time, 90 %.
  [[nodiscard]] double half_width() const;
  /// Makes the interval of the job, or of a variant of it, wide enough.
  void widen(Estimate& time) const { time.widths.unstated = half_width(); }
  /// @param total  of the job's interval, these included
  [[nodiscard]] std::vector<Narrowing> narrow_by(double total) const;

 private:
  std::vector<std::pair<std::string_view, double>> widths_;  // half widths, the widest first
};

/// Unstated of many predictions of one model, from any number of threads. Workloads that differ in their batch sizes
/// alone share some: half widths are those of powers of two, in between they are interpolated over the size's
/// logarithm.
class ManyUnstated {
 public:
  explicit ManyUnstated(const TimeRegressor& model) : model_(model) {}

  void widen(Estimate& time, const Workload& workload, std::span<const std::string> fields);

 private:
  [[nodiscard]] double half_width(Workload workload, std::int64_t batch_size, const std::vector<std::string>& fields);

  const TimeRegressor& model_;
  std::mutex mutex_;
  std::map<std::vector<std::string>, ByWorkload<double>> half_widths_;  // by fields
};

}  // namespace perfpred
