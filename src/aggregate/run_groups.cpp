// SPDX-License-Identifier: Apache-2.0
#include "aggregate/run_groups.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <span>

#include "runs/disturbed.h"
#include "statistics/quantiles.h"
#include "text/hash.h"
#include "text/nearest_name.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr double max_ratio = 1.10;          // of epochs of a run, or of runs of a workload, that agree
constexpr double diverged_accuracy = 1.2;   // times the accuracy of guessing
constexpr double max_epoch_rel_sem = 1e50;  // whose square is summable

/// Of the mean of values that are not negative, over its square; 0 if all of them are 0.
double relative_variance_of_mean(std::span<const double> values) {
  const auto n = static_cast<double>(values.size());
  const double mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  if (mean <= 0) return 0;
  double squares = 0;
  for (const double value : values) squares += (value / mean - 1) * (value / mean - 1);
  return squares / (n - 1) / n;
}

/// All epochs but the first, which warms up.
std::span<const double> timed_epochs(const Run& run) { return std::span(run.epoch_times).subspan(1); }

Rejection rejection_for(Outcome outcome) {
  switch (outcome) {
    case Outcome::oom:
      return Rejection::oom;
    case Outcome::interrupted:
      return Rejection::interrupted;
    case Outcome::untrusted:
      return Rejection::untrusted;
    default:
      return Rejection::failed;
  }
}

void check_summable(std::string_view name, double value) {
  if (!(value >= min_summable && value <= max_summable)) {
    throw_bad_value({{}, 0, name}, number_text(value), "between 1e-100 and 1e100");
  }
}

/// What a run counts by, and why it is rejected.
struct RunFigures {
  std::optional<double> seconds, images_per_sec;
  std::optional<Rejection> rejection;
};

/// The median of epochs that agree, and the throughput that follows from it.
RunFigures robust_figures(const Run& run) {
  if (run.timing != Timing::epochs || run.epoch_times.size() < 2) return {run.avg_time_sec, {}, {}};
  const auto timed = timed_epochs(run);
  const auto [shortest, longest] = std::minmax_element(timed.begin(), timed.end());
  if (*longest > max_ratio * *shortest) return {run.avg_time_sec, run.images_per_sec, Rejection::epochs_disagree};
  return {median({timed.begin(), timed.end()}), {}, {}};
}

/// @throws InputError if a time or a throughput is too large or small to be summed
RunFigures figures_of(const Run& run, Aggregator::Label label) {
  RunFigures figures = {run.avg_time_sec, run.images_per_sec, {}};
  if (run.outcome != Outcome::ok) {
    figures.rejection = rejection_for(run.outcome);
  } else if (label == Aggregator::Label::robust) {
    figures = robust_figures(run);
  }
  if (!figures.seconds) return figures;
  check_summable("the time of an epoch", *figures.seconds);
  if (!figures.images_per_sec)
    figures.images_per_sec = static_cast<double>(run.workload.train_images) / *figures.seconds;
  check_summable("images_per_sec", *figures.images_per_sec);
  return figures;
}

/// Names of devices differ in more than capital letters.
std::string with_small_device(std::string key) {
  constexpr std::string_view field = ";device=";
  const std::size_t found = key.find(field);
  if (found == std::string::npos) return key;
  const std::size_t begin = found + field.size(), length = std::min(key.find(';', begin), key.size()) - begin;
  return key.replace(begin, length, lower_case(std::string_view(key).substr(begin, length)));
}

}  // namespace

std::optional<Rejection> RunGroup::add(const Run& run, Aggregator::Label label) {
  if (run.epoch_rel_sem && *run.epoch_rel_sem > max_epoch_rel_sem) {
    throw_bad_value({{}, 0, "epoch_rel_sem"}, number_text(run.epoch_rel_sem), "at most 1e50");
  }
  const auto [seconds, images_per_sec, rejection] = figures_of(run, label);
  take_params(run.params, run.params);
  if (rejection) ++n_rejected;
  oom = oom || rejection == Rejection::oom;
  if (!seconds || !counts(rejection.has_value(), kept)) return rejection;
  if (!rejection) keep();
  time.add(*seconds);
  throughput.add(*images_per_sec);
  if (run.test_acc) accuracy.add(*run.test_acc);
  if (run.epoch_rel_sem) {
    epoch_rel_variance.add(*run.epoch_rel_sem * *run.epoch_rel_sem);
  } else if (run.timing == Timing::epochs && run.epoch_times.size() > 2) {
    epoch_rel_variance.add(relative_variance_of_mean(timed_epochs(run)));
  }
  return rejection;
}

void RunGroup::take_params(std::int64_t least, std::int64_t most) {
  if (most == 0) return;  // unknown
  min_params = min_params == 0 ? least : std::min(min_params, least);
  max_params = std::max(max_params, most);
}

void RunGroup::keep() {
  if (!kept) time = throughput = accuracy = epoch_rel_variance = Moments();
  kept = true;
}

void RunGroup::merge(const RunGroup& other) {
  if (other.n_rejected == 0 && other.time.n == 0) return;  // it has no runs
  take_params(other.min_params, other.max_params);
  n_rejected += other.n_rejected;
  oom = oom || other.oom;
  if (other.kept) keep();
  if (other.kept != kept) return;
  time.merge(other.time);
  throughput.merge(other.throughput);
  accuracy.merge(other.accuracy);
  epoch_rel_variance.merge(other.epoch_rel_variance);
}

AggregateRow RunGroup::row() const {
  if (min_params != max_params) {
    throw InputError(
        fmt::format("runs of one workload differ in params, {} and {}: {}", min_params, max_params, workload.key()));
  }
  AggregateRow row;
  row.workload = workload;
  row.env = env;
  row.params = max_params;
  row.n = time.n;
  row.steps_per_epoch = workload.steps_per_epoch();
  row.n_rejected = n_rejected;
  row.flags.oom = time.n == 0 && oom;
  if (time.n == 0) return row;
  row.avg_time_mean = time.mean();
  row.avg_time_std = time.deviation();
  row.thr_mean = throughput.mean();
  row.thr_std = throughput.deviation();
  row.flags.unstable = !kept;
  if (epoch_rel_variance.n > 0) row.epoch_rel_sem = std::sqrt(epoch_rel_variance.mean());
  row.flags.disagree = kept && time.max > max_ratio * time.min;
  if (accuracy.n == 0) return row;
  row.acc_mean = accuracy.mean();
  row.acc_std = accuracy.deviation();
  row.flags.diverged = *row.acc_mean <= diverged_accuracy / static_cast<double>(workload.classes);
  return row;
}

std::size_t RunGroups::index_of(const Workload& workload, const std::string& env) {
  const std::string written = workload.key() + '\n' + env;
  const auto [found, is_new] = index_.emplace(with_small_device(written), groups_.size());
  if (is_new) {
    RunGroup& group = groups_.emplace_back();
    group.workload = workload;
    group.env = env;
    group.key_hash = fnv1a(written);
  }
  return found->second;
}

}  // namespace perfpred
