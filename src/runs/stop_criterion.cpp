// SPDX-License-Identifier: Apache-2.0
#include "runs/stop_criterion.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <numeric>
#include <utility>

#include "statistics/confidence.h"
#include "statistics/moments.h"
#include "statistics/quantiles.h"

namespace perfpred {
namespace {

double median_of(std::span<const double> samples) { return median({samples.begin(), samples.end()}); }

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

/// How many independent samples say as much: autocorrelated ones count as fewer.
double effective_size(std::span<const double> samples) {
  const double correlation = std::clamp(lag_one_correlation(ranks(samples)), 0.0, 0.99);
  return static_cast<double>(samples.size()) * (1 - correlation) / (1 + correlation);
}

/// Half width of a 95 % interval from independent estimates of the same value.
double student_half_width(const Moments& estimates) {
  const auto n = static_cast<double>(estimates.n);
  return student_quantile(z95, n - 1) * estimates.deviation() / std::sqrt(n);
}

constexpr std::size_t min_batch_size = 3;
constexpr std::size_t min_for_order_statistics = 6;

/// Half width of the 95 % interval of the logarithm of `statistic`, as its values for 4 and for 8 consecutive parts of
/// the samples imply: they differ by slow changes, too. 0 where the samples are too few for parts.
template <class Statistic>
double batch_half_width(std::span<const double> samples, Statistic&& statistic) {
  double width = 0;
  for (const std::size_t batches : {4U, 8U}) {
    if (samples.size() < min_batch_size * batches) continue;
    Moments parts;
    for (std::size_t i = 0; i < batches; ++i) {
      const std::size_t begin = samples.size() * i / batches;
      parts.add(std::log(statistic(samples.subspan(begin, samples.size() * (i + 1) / batches - begin))));
    }
    width = std::max(width, student_half_width(parts));
  }
  return width;
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
  using StopCriterion::StopCriterion;

 private:
  std::string_view judge() override {
    const auto all = samples();
    if (!sparse_.due(all.size())) return {};
    // Twice in a row: once may be chance.
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
  using StopCriterion::StopCriterion;

 private:
  std::string_view judge() override {
    const auto all = samples();
    for (; counted_ < all.size(); ++counted_) {
      ++bins_[std::lround(std::log(all[counted_]) / bin_width)];
      entropies_.push_back(entropy(static_cast<double>(counted_ + 1)));
    }
    // Slope of a line through the last half, in bits per doubling of the samples.
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
  using StopCriterion::StopCriterion;

 private:
  std::string_view judge() override {
    return static_cast<std::int64_t>(samples().size()) >= options().max_samples ? "samples" : std::string_view{};
  }
};

class Time final : public StopCriterion {
 public:
  using StopCriterion::StopCriterion;

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

std::unique_ptr<StopCriterion> make_stop_criterion(const StepSamplesOptions& options) {
  if (!(options.interval > 0) || options.min_samples < 1 || options.max_samples < 1 || !(options.max_sec > 0) ||
      !(options.limit_sec > 0)) {
    throw InputError("a stop criterion needs a positive interval, number of samples and time");
  }
  if (!(options.max_discarded >= 0 && options.max_discarded <= 1)) {
    throw InputError(fmt::format("max_discarded {} is not in 0..1", options.max_discarded));
  }
  const std::string& name = options.criterion;
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
  const double middle = median_of(samples);
  if (samples.size() == 1) return {middle, 0, std::numeric_limits<double>::infinity()};
  const double reach = z95 * n / std::sqrt(effective_size(samples)) / 2;
  const auto at = [&](double rank) {  // 1-based
    return sorted[static_cast<std::size_t>(std::clamp(rank, 1.0, n)) - 1];
  };
  double half_width = batch_half_width(samples, median_of);
  if (samples.size() < min_for_order_statistics) {
    Moments logarithms;
    for (const double x : samples) logarithms.add(std::log(x));
    half_width = student_half_width(logarithms);
  }
  const double factor = std::exp(half_width);
  return {middle, std::min(at(std::floor(n / 2 - reach)), middle / factor),
          std::max(at(std::ceil(n / 2 + reach) + 1), middle * factor)};
}

double relative_error_of_mean(std::span<const double> samples) {
  if (samples.size() == 1) return std::numeric_limits<double>::infinity();
  Moments moments;
  for (const double x : samples) moments.add(x);
  const double size = std::max(2.0, effective_size(samples));
  const double independent = student_quantile(z95, size - 1) * moments.deviation() / std::sqrt(size) / moments.mean();
  const double batches = batch_half_width(samples, [](std::span<const double> part) {
    return std::accumulate(part.begin(), part.end(), 0.0) / static_cast<double>(part.size());
  });
  return std::max(independent, batches) / z95;
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
  change.ratio = median_of(samples.subspan(change.index)) / median_of(samples.first(change.index));
  return change;
}

}  // namespace perfpred
