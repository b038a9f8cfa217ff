// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace perfpred {

class StopCriterion;

/// How samples of a training step become a label.
struct StepSamplesOptions {
  /// Rule that ends the sampling:
  ///  * `stdrel`  the median is known to `interval`, and still is after a tenth more samples (reason `interval`), or
  ///              the relative standard deviation has stopped changing: more samples tell nothing new (`settled`)
  ///  * `entropy` the entropy of the samples' histogram has stopped growing (`entropy`)
  ///  * `samples` there are max_samples (`samples`)
  ///  * `time`    the samples add up to max_sec (`time`)
  std::string criterion = "stdrel";
  double interval = 0.01;           ///< wanted half width of the median's 95 % confidence interval, relative; > 0
  std::int64_t min_samples = 10;    ///< before any rule applies; >= 1
  std::int64_t max_samples = 2000;  ///< of criterion `samples`; >= 1
  double max_sec = 1;               ///< of criterion `time`: sum of the samples; > 0
  double limit_sec = 3;             ///< total time of all samples, warm-up included, after which no more are taken; > 0
  /// If a larger share of the samples is disturbed, they are kept and the label is flagged; 0 to 1. Below 20 samples
  /// after warm-up a share says little: then they are only kept if sampling ends with fewer than three others.
  double max_discarded = 0.5;
};

/// One training step in seconds, and whether something else slowed the device down meanwhile.
struct StepSample {
  double sec;
  bool disturbed;
};

/// The time of a training step and how it came about; times in seconds.
struct StepLabel {
  double median = 0;         ///< the steady step
  double low = 0, high = 0;  ///< 95 % confidence interval of the median
  double mean = 0;           ///< for the time of many steps: winsorised, samples above 3 medians count as 3 medians, so
                             ///< that one stall does not decide it
  double mean_rel_sem = 0;   ///< relative standard error of `mean`: half width of its 95 % interval / 1.96 / mean
  double cv = 0;             ///< coefficient of variation: standard deviation / mean of the samples
  double p05 = 0, p95 = 0;   ///< quantiles of the samples
  std::int64_t samples = 0;  ///< number of samples behind these figures
  std::int64_t warmup = 0;   ///< samples before the times had settled
  std::int64_t discarded = 0;  ///< disturbed samples that were dropped
  double disturbed_share = 0;  ///< of the samples after warm-up
  std::string stopped_by;      ///< reason of the criterion, or `limit`
  bool disturbed = false;      ///< too many samples were disturbed to drop them: the label is not to be trusted
  bool drift = false;          ///< the level was still changing when sampling ended
  double change = 1;           ///< level after / before the largest change among the samples; 1 without `drift`
  [[nodiscard]] double relative_half_width() const { return (high - low) / (2 * median); }
};

/// Collects samples until they make a label. Warm-up is cut off: leading samples more than a quarter above the median
/// of all, and everything before a change of level in the first half (Pettitt's rank test, p < 0.01, medians more than
/// 2 % apart).
class PERFPRED_API StepSamples {
 public:
  /// @throws InputError for an unknown criterion, or an option that is out of range
  explicit StepSamples(StepSamplesOptions options = {});
  ~StepSamples();
  StepSamples(StepSamples&&) noexcept;
  StepSamples& operator=(StepSamples&&) noexcept;

  void add(double sec, bool disturbed = false);  ///< a time that is not finite or not positive is ignored

  [[nodiscard]] bool finished();

  /// No more samples will come: what there are make the label, as at the limit. @throws Error if there are fewer than 3
  void end();

  /// @throws Error if there is no sample
  [[nodiscard]] StepLabel label() const;

  [[nodiscard]] const std::vector<StepSample>& all() const { return all_; }  ///< in order, warm-up included

 private:
  [[nodiscard]] bool must_keep_disturbed() const;
  [[nodiscard]] bool at_limit() const;
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
