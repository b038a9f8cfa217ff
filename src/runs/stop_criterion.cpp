// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/step_samples.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <numeric>
#include <utility>

#include "statistics/confidence.h"
#include "statistics/moments.h"

namespace perfpred {
namespace {

double median_of_sorted(std::span<const double> sorted) {
  const std::size_t n = sorted.size();
  return n % 2 == 1 ? sorted[n / 2] : (sorted[n / 2 - 1] + sorted[n / 2]) / 2;
}

double median(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  return median_of_sorted(sorted);
}

/// 1-based ranks; ties share their mean rank.
std::vector<double> ranks(std::span<const double> samples) {
  std::vector<std::size_t> order(samples.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return samples[a] < samples[b]; });
  std::vector<double> result(samples.size());
  for (std::size_t begin = 0; begin < order.size();) {
    std::size_t end = begin;
    while (end < order.size() && samples[order[end]] == samples[order[begin]]) ++end;
    for (std::size_t i = begin; i < end; ++i) result[order[i]] = static_cast<double>(begin + end + 1) / 2;
    begin = end;
  }
  return result;
}

double lag_one_correlation(const std::vector<double>& values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  double variance = 0;
  double covariance = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    variance += (values[i] - mean) * (values[i] - mean);
    if (i > 0) covariance += (values[i] - mean) * (values[i - 1] - mean);
  }
  return variance > 0 ? covariance / variance : 0;
}

constexpr std::size_t fewest_of_batch = 3;

/// Of the median's logarithm, 95 %: medians of consecutive parts differ by what changes slowly, too.
double batch_half_width(std::span<const double> samples, std::size_t batches) {
  Moments medians;
  for (std::size_t i = 0; i < batches; ++i) {
    const std::size_t begin = samples.size() * i / batches;
    medians.add(std::log(median(samples.subspan(begin, samples.size() * (i + 1) / batches - begin))));
  }
  const auto n = static_cast<double>(batches);
  return student_quantile(z95, n - 1) * medians.deviation() / std::sqrt(n);
}

/// Judges again only when a tenth more has come: keeps the work linear, and tests fewer times.
class Sparse {
 public:
  [[nodiscard]] bool due(std::size_t n) {
    if (n < next_) return false;
    next_ = n + std::max<std::size_t>(1, n / 10);
    return true;
  }

 private:
  std::size_t next_ = 0;
};

class StdRel final : public StopCriterion {
 public:
  explicit StdRel(const StopOptions& options) : StopCriterion(options) {}

 private:
  std::string_view judge() override {
    const auto all = samples();
    if (!sparse_.due(all.size())) return {};
    // Twice, lest it be a moment's chance.
    const bool known_before = std::exchange(known_, median_interval(all).relative_half_width() <= options().interval);
    if (known_ && known_before) return "interval";
    Moments moments;
    for (const double x : all) moments.add(x);
    const double noise = moments.deviation() / moments.mean();
    noises_.emplace_back(all.size(), noise);
    // Settled: over the last half of many samples the estimate has moved by less than a twentieth.
    if (all.size() < settled_samples) return {};
    for (const auto& [size, earlier] : noises_) {
      if (size * 2 >= all.size() && std::abs(earlier - noise) > settled_change * noise) return {};
    }
    return noises_.front().first * 2 < all.size() ? "settled" : std::string_view{};
  }

  static constexpr std::size_t settled_samples = 200;
  static constexpr double settled_change = 0.05;
  Sparse sparse_;
  bool known_ = false;
  std::vector<std::pair<std::size_t, double>> noises_;
};

class Entropy final : public StopCriterion {
 public:
  explicit Entropy(const StopOptions& options) : StopCriterion(options) {}

 private:
  std::string_view judge() override {
    const auto all = samples();
    for (; counted_ < all.size(); ++counted_) {
      ++bins_[std::lround(std::log(all[counted_]) / bin_width)];
      entropies_.push_back(entropy(static_cast<double>(counted_ + 1)));
    }
    // Growth over the last half, as the slope of a line through it, in bits for a doubling of the samples.
    const std::size_t begin = entropies_.size() / 2;
    const auto n = static_cast<double>(entropies_.size() - begin);
    double x_mean = 0;
    double y_mean = 0;
    for (std::size_t i = begin; i < entropies_.size(); ++i) {
      x_mean += std::log2(static_cast<double>(i + 1)) / n;
      y_mean += entropies_[i] / n;
    }
    double xx = 0;
    double xy = 0;
    for (std::size_t i = begin; i < entropies_.size(); ++i) {
      const double x = std::log2(static_cast<double>(i + 1)) - x_mean;
      xx += x * x;
      xy += x * (entropies_[i] - y_mean);
    }
    return xy <= flat_slope * xx ? "entropy" : std::string_view{};
  }

  [[nodiscard]] double entropy(double n) const {
    double bits = 0;
    for (const auto& [bin, count] : bins_) {
      const double share = static_cast<double>(count) / n;
      bits -= share * std::log2(share);
    }
    return bits;
  }

  static constexpr double bin_width = 0.005;  // of a logarithm: half a percent
  static constexpr double flat_slope = 0.1;
  std::map<long, std::int64_t> bins_;
  std::vector<double> entropies_;
  std::size_t counted_ = 0;
};

class Samples final : public StopCriterion {
 public:
  explicit Samples(const StopOptions& options) : StopCriterion(options) {}

 private:
  std::string_view judge() override {
    return static_cast<std::int64_t>(samples().size()) >= options().max_samples ? "samples" : std::string_view{};
  }
};

class Time final : public StopCriterion {
 public:
  explicit Time(const StopOptions& options) : StopCriterion(options) {}

 private:
  std::string_view judge() override {
    for (; counted_ < samples().size(); ++counted_) sum_ += samples()[counted_];
    return sum_ >= options().max_sec ? "time" : std::string_view{};
  }

  double sum_ = 0;
  std::size_t counted_ = 0;
};

}  // namespace

void StopCriterion::add(double sec) {
  if (std::isfinite(sec) && sec > 0) samples_.push_back(sec);
}

std::string_view StopCriterion::reason() {
  const bool enough = static_cast<std::int64_t>(samples_.size()) >= options_.min_samples;
  if (reason_.empty() && enough) reason_ = judge();
  return reason_;
}

std::unique_ptr<StopCriterion> make_stop_criterion(std::string_view name, const StopOptions& options) {
  if (!(options.interval > 0) || options.min_samples < 1 || options.max_samples < 1 || !(options.max_sec > 0)) {
    throw InputError("a stop criterion needs a positive interval, number of samples and time");
  }
  if (name == "stdrel") return std::make_unique<StdRel>(options);
  if (name == "entropy") return std::make_unique<Entropy>(options);
  if (name == "samples") return std::make_unique<Samples>(options);
  if (name == "time") return std::make_unique<Time>(options);
  throw InputError(fmt::format("stop criterion \"{}\" is not stdrel, entropy, samples or time", name));
}

MedianInterval median_interval(std::span<const double> samples) {
  std::vector<double> sorted(samples.begin(), samples.end());
  std::sort(sorted.begin(), sorted.end());
  const auto n = static_cast<double>(sorted.size());
  const double correlation = std::clamp(lag_one_correlation(ranks(samples)), 0.0, 0.99);
  const double fewer = (1 - correlation) / (1 + correlation);
  const double reach = z95 * std::sqrt(n / fewer) / 2;
  const auto at = [&](double rank) {  // 1-based
    return sorted[static_cast<std::size_t>(std::clamp(rank, 1.0, n)) - 1];
  };
  const double middle = median_of_sorted(sorted);
  MedianInterval interval = {middle, at(std::floor(n / 2 - reach)), at(std::ceil(n / 2 + reach) + 1)};
  for (const std::size_t batches : {4, 8}) {
    if (samples.size() < fewest_of_batch * batches) continue;
    const double factor = std::exp(batch_half_width(samples, batches));
    interval.low = std::min(interval.low, middle / factor);
    interval.high = std::max(interval.high, middle * factor);
  }
  return interval;
}

ChangePoint find_change(std::span<const double> samples) {
  const std::vector<double> rank = ranks(samples);
  const auto n = static_cast<double>(samples.size());
  ChangePoint change;
  double sum = 0;
  double largest = -1;
  for (std::size_t t = 1; t < samples.size(); ++t) {
    sum += rank[t - 1];
    const double u = std::abs(2 * sum - static_cast<double>(t) * (n + 1));
    if (u > largest) {
      largest = u;
      change.index = t;
    }
  }
  change.p_value = std::min(1.0, 2 * std::exp(-6 * largest * largest / (n * n * n + n * n)));
  change.ratio = median(samples.subspan(change.index)) / median(samples.first(change.index));
  return change;
}

}  // namespace perfpred
