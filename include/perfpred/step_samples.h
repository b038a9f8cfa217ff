#pragma once
#include <perfpred/export.h>
#include <perfpred/stop_criterion.h>

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

namespace perfpred {

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
