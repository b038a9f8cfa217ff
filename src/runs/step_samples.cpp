// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/step_samples.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>

#include "runs/stop_criterion.h"
#include "statistics/moments.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

constexpr double leading_excess = 1.25;
constexpr double change_p_value = 0.01;
constexpr double change_size = 0.02;
constexpr std::size_t min_at_limit = 3;
constexpr std::size_t min_to_judge_share = 20;
constexpr int max_cuts = 3;
constexpr double stall = 3;  // medians that one sample counts as at most

bool changes(const ChangePoint& change) {
  return change.p_value < change_p_value && std::abs(change.ratio - 1) > change_size;
}

}  // namespace

StepSamples::StepSamples(StepSamplesOptions options)
    : options_(std::move(options)), criterion_(make_stop_criterion(options_)) {}
StepSamples::~StepSamples() = default;
StepSamples::StepSamples(StepSamples&&) noexcept = default;
StepSamples& StepSamples::operator=(StepSamples&&) noexcept = default;

void StepSamples::add(double sec, bool disturbed) {
  if (!std::isfinite(sec) || sec <= 0) return;
  all_.push_back({sec, disturbed});
  elapsed_ += sec;
  disturbed_ += disturbed ? 1 : 0;
  if (!disturbed || keep_disturbed_) {
    criterion_->add(sec);
    kept_.push_back(all_.size() - 1);
  }
  if (!keep_disturbed_ && must_keep_disturbed()) rebuild();
}

/// Too many samples are disturbed to drop them, or too few are left at the limit.
bool StepSamples::must_keep_disturbed() const {
  const std::size_t settled = all_.size() - first_;
  const bool many = static_cast<double>(disturbed_) > options_.max_discarded * static_cast<double>(settled);
  return (many && settled >= min_to_judge_share) || (at_limit() && settled - disturbed_ < min_at_limit);
}

bool StepSamples::at_limit() const { return elapsed_ >= options_.limit_sec && all_.size() >= min_at_limit; }

void StepSamples::rebuild() {
  criterion_ = make_stop_criterion(options_);
  kept_.clear();
  disturbed_ = 0;
  for (std::size_t i = first_; i < all_.size(); ++i) disturbed_ += all_[i].disturbed ? 1 : 0;
  keep_disturbed_ = must_keep_disturbed();
  for (std::size_t i = first_; i < all_.size(); ++i) {
    if (all_[i].disturbed && !keep_disturbed_) continue;
    criterion_->add(all_[i].sec);
    kept_.push_back(i);
  }
}

/// @returns whether samples were cut off
bool StepSamples::cut_warmup() {
  const auto samples = criterion_->samples();
  const double excess = leading_excess * median_interval(samples).median;
  std::size_t cut = 0;
  while (cut < samples.size() / 2 && samples[cut] > excess) ++cut;
  if (cut == 0) {
    const ChangePoint change = find_change(samples);
    if (changes(change) && change.index <= samples.size() / 2) cut = change.index;
  }
  if (cut == 0) return false;
  first_ = kept_[cut];
  ++cuts_;
  rebuild();
  return true;
}

bool StepSamples::finished() {
  if (keep_disturbed_ != must_keep_disturbed()) rebuild();
  const bool limit = at_limit();
  const std::string_view reason = criterion_->reason();
  if (reason.empty() && !limit) return false;
  // At the limit one cut has to do: cutting a drift again and again would hide it.
  while (criterion_->samples().size() > min_at_limit && cut_warmup() && !limit) {
  }
  const std::string_view still = criterion_->reason();
  if (limit) {
    stopped_by_ = still.empty() ? std::string_view("limit") : still;
    return true;
  }
  if (still.empty() || changes(find_change(criterion_->samples()))) return false;
  stopped_by_ = still;
  return true;
}

void StepSamples::end() {
  if (all_.size() < min_at_limit)
    throw Error(fmt::format("{} steps were timed, where {} are needed", all_.size(), min_at_limit));
  options_.limit_sec = std::numeric_limits<double>::min();  // which these samples are above
  (void)finished();
}

StepLabel StepSamples::label() const {
  if (kept_.empty()) throw Error("no step was timed");
  const auto samples = criterion_->samples();
  const std::vector<double> values(samples.begin(), samples.end());
  const MedianInterval interval = median_interval(values);
  Moments moments;
  for (const double x : values) moments.add(x);
  std::vector<double> winsorised = values;
  for (double& x : winsorised) x = std::min(x, stall * interval.median);
  StepLabel label;
  label.median = interval.median;
  label.low = interval.low;
  label.high = interval.high;
  label.mean = std::accumulate(winsorised.begin(), winsorised.end(), 0.0) / static_cast<double>(winsorised.size());
  label.mean_rel_sem = relative_error_of_mean(winsorised);
  label.cv = moments.deviation() / moments.mean();
  label.p05 = quantile(values, 0.05);
  label.p95 = quantile(values, 0.95);
  label.samples = static_cast<std::int64_t>(kept_.size());
  label.warmup = static_cast<std::int64_t>(first_);
  label.discarded = static_cast<std::int64_t>(all_.size() - first_ - kept_.size());
  label.disturbed_share = static_cast<double>(disturbed_) / static_cast<double>(all_.size() - first_);
  label.stopped_by = stopped_by_;
  label.disturbed = keep_disturbed_;
  const ChangePoint change = values.size() > 1 ? find_change(values) : ChangePoint{};
  label.drift = cuts_ > max_cuts || changes(change);
  if (label.drift) label.change = change.ratio;
  return label;
}

}  // namespace perfpred
