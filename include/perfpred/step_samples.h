// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// When there are enough samples of a time.
struct StopOptions {
  double interval = 0.01;           ///< relative half width of the median's 95 % confidence interval that is enough
  std::int64_t min_samples = 10;    ///< before any rule applies
  std::int64_t max_samples = 2000;  ///< of criterion `samples`
  double max_sec = 1;               ///< of criterion `time`: sum of the samples
};

/// Decides from the samples themselves whether more are needed.
class PERFPRED_API StopCriterion {
 public:
  virtual ~StopCriterion() = default;

  /// Adds a sample. What is no time (not finite, not positive) is ignored.
  void add(double sec);

  /// Why it is enough: a word of the criterion, from then on the same; empty while more is needed.
  [[nodiscard]] std::string_view reason();

  [[nodiscard]] std::span<const double> samples() const { return samples_; }

 protected:
  explicit StopCriterion(const StopOptions& options) : options_(options) {}

  /// Called with at least min_samples samples.
  [[nodiscard]] virtual std::string_view judge() = 0;
  [[nodiscard]] const StopOptions& options() const { return options_; }

 private:
  StopOptions options_;
  std::vector<double> samples_;
  std::string_view reason_;
};

/// A criterion by its name:
///  * `stdrel`  the median is known to `interval`, and still is a tenth more samples later (reason `interval`), or the
///              relative standard deviation has stopped changing, so that more samples tell nothing new (`settled`)
///  * `entropy` the entropy of the samples' histogram has stopped growing (`entropy`)
///  * `samples` there are max_samples (`samples`)
///  * `time`    the samples add up to max_sec (`time`)
/// @throws InputError for another name, or an option that is not positive
[[nodiscard]] PERFPRED_API std::unique_ptr<StopCriterion> make_stop_criterion(std::string_view name,
                                                                              const StopOptions& options = {});

/// A median with its 95 % confidence interval.
struct MedianInterval {
  double median = 0;
  double low = 0;
  double high = 0;
  [[nodiscard]] double relative_half_width() const { return (high - low) / (2 * median); }
};

/// From order statistics (ranks n/2 -+ 1.96 sqrt(n)/2; Conover, Practical Nonparametric Statistics, 3.2). Samples that
/// resemble their predecessor count as fewer: n (1 - r)/(1 + r) for a lag-1 autocorrelation r > 0 of their ranks. Never
/// narrower than batch medians say, of 4 and 8 consecutive parts (as batch means: Law, Simulation Modeling and
/// Analysis, 9.5.3), so that a level that wanders slowly is seen. 12 samples have 4 parts, 24 have 8.
/// @param samples  at least one, positive
[[nodiscard]] PERFPRED_API MedianInterval median_interval(std::span<const double> samples);

/// The point at which the level of a sequence changes most.
struct ChangePoint {
  std::size_t index = 0;  ///< first sample of the new level
  double p_value = 1;     ///< of no change at all
  double ratio = 1;       ///< median after / median before
};

/// Pettitt's rank test (Applied Statistics 28, 1979): p = 2 exp(-6 K^2 / (n^3 + n^2)).
/// @param samples  at least two
[[nodiscard]] PERFPRED_API ChangePoint find_change(std::span<const double> samples);

/// How samples of a training step become a label.
struct StepSamplesOptions {
  std::string criterion = "stdrel";  ///< a name of make_stop_criterion()
  StopOptions stop;
  double limit_sec = 3;        ///< sum of all samples, warm-up included, after which no more are taken
  double max_discarded = 0.5;  ///< share of disturbed samples above which they are kept and flagged
};

/// One step, in seconds, and whether it was taken while the device was throttled or had company.
struct StepSample {
  double sec;
  bool disturbed;
};

/// The time of a training step and how it came about; times in seconds.
struct StepLabel {
  double median = 0;
  double low = 0, high = 0;  ///< 95 % confidence interval of the median
  double p05 = 0, p95 = 0;
  std::int64_t samples = 0;    ///< that the label stands on
  std::int64_t warmup = 0;     ///< samples before times had settled
  std::int64_t discarded = 0;  ///< disturbed ones left out
  double disturbed_share = 0;  ///< of the samples after warm-up
  std::string stopped_by;      ///< a reason of the criterion, or `limit`
  bool disturbed = false;      ///< so many were that they had to be kept
  bool drift = false;          ///< the level was still changing at the limit
  [[nodiscard]] double relative_half_width() const { return (high - low) / (2 * median); }
  /// Undisturbed, and known to 5 % at least.
  [[nodiscard]] bool trusted() const { return !disturbed && relative_half_width() <= 0.05; }
};

/// Collects samples until they make a label. Warm-up ends where the times have settled: leading samples more than a
/// quarter above the median of all are cut off, and so is what lies before a change of level (find_change() with
/// p < 0.01 and more than 2 %) in the first half.
class PERFPRED_API StepSamples {
 public:
  /// @throws InputError as make_stop_criterion() does
  explicit StepSamples(StepSamplesOptions options = {});

  void add(double sec, bool disturbed = false);

  [[nodiscard]] bool finished();

  /// @throws Error if there is no sample
  [[nodiscard]] StepLabel label() const;

  [[nodiscard]] const std::vector<StepSample>& all() const { return all_; }  ///< in order, warm-up included

 private:
  void rebuild();
  [[nodiscard]] bool cut_warmup();

  StepSamplesOptions options_;
  std::vector<StepSample> all_;
  std::size_t first_ = 0;      // of the samples after warm-up
  std::size_t disturbed_ = 0;  // among these
  bool keep_disturbed_ = false;
  double elapsed_ = 0;
  int cuts_ = 0;
  std::unique_ptr<StopCriterion> criterion_;
  std::vector<std::size_t> kept_;  // places in all_ of the criterion's samples
  std::string stopped_by_;
};

}  // namespace perfpred
