// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/step_samples.h>

#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

namespace perfpred {

/// Decides from the samples themselves whether more are needed.
class StopCriterion {
 public:
  virtual ~StopCriterion() = default;

  /// Adds a sample. A value that is not a time (not finite, not positive) is ignored.
  void add(double sec);

  /// Why sampling can end: a word of the criterion, constant from then on; empty while more samples are needed.
  [[nodiscard]] std::string_view reason();

  [[nodiscard]] std::span<const double> samples() const { return samples_; }

  explicit StopCriterion(const StepSamplesOptions& options) : options_(options) {}

 protected:
  /// Called with at least min_samples samples.
  [[nodiscard]] virtual std::string_view judge() = 0;
  [[nodiscard]] const StepSamplesOptions& options() const { return options_; }

 private:
  StepSamplesOptions options_;
  std::vector<double> samples_;
  std::string_view reason_;
};

/// @throws InputError as StepSamples
[[nodiscard]] std::unique_ptr<StopCriterion> make_stop_criterion(const StepSamplesOptions& options);

/// A median with its 95 % confidence interval.
struct MedianInterval {
  double median = 0;
  double low = 0;
  double high = 0;
  [[nodiscard]] double relative_half_width() const { return (high - low) / (2 * median); }
};

/// From order statistics (ranks n/2 -+ 1.96 sqrt(n)/2; Conover, Practical Nonparametric Statistics, 3.2). Samples that
/// resemble their predecessor count as fewer: n (1 - r)/(1 + r) for a lag-1 autocorrelation r > 0 of their ranks. Never
/// narrower than the medians of 4 and of 8 consecutive parts imply (as batch means: Law, Simulation Modeling and
/// Analysis, 9.5.3), which show a level that wanders slowly: 4 parts from 12 samples on, 8 from 24. Fewer than 6
/// samples have no order statistics that reach 95 %: their interval is at least Student's, of the logarithms.
/// @param samples  at least one, positive; a single one has the interval 0 to infinity
[[nodiscard]] MedianInterval median_interval(std::span<const double> samples);

/// Relative standard error of the mean: half width of its 95 % interval / 1.96 / mean. Student's interval, with
/// autocorrelated samples counted as in median_interval(), and never narrower than the means of 4 and of 8 consecutive
/// parts imply.
/// @param samples  at least one, positive; infinite for a single one
[[nodiscard]] double relative_error_of_mean(std::span<const double> samples);

/// The point at which the level of a sequence changes most.
struct ChangePoint {
  std::size_t index = 0;  ///< first sample of the new level
  double p_value = 1;     ///< of no change at all
  double ratio = 1;       ///< median after / median before
};

/// Pettitt's rank test (Applied Statistics 28, 1979): p = 2 exp(-6 K^2 / (n^3 + n^2)).
/// @param samples  at least two
[[nodiscard]] ChangePoint find_change(std::span<const double> samples);

}  // namespace perfpred
