// SPDX-License-Identifier: Apache-2.0
#include "model/unstated.h"

#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "statistics/estimate.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

// A usual value that nobody stated is wrong in one of three cases, taken: the deviation of what that is worth is
// sqrt(1/3 * 2/3), and 90 % of a normal distribution lie within 1.645 of them.
constexpr double half_width_of_other = 1.645 * 0.471, least_width = 0.01;

/// A field's usual value, and the other that is tried.
struct Alternative {
  std::string_view field, usual, other;
};
constexpr std::array<Alternative, 4> alternatives = {{{"layout", "nchw", "nhwc"},
                                                      {"compiled", "0", "1"},
                                                      {"software", "pytorch", "xla"},
                                                      {"loader", "none", "included"}}};

/// Those of the fields that a workload has its usual values of, and may have others.
std::vector<Alternative> alternatives_of(const Workload& workload, Provenance rests_on,
                                         std::span<const std::string> fields) {
  if (rests_on == Provenance::runs || is_captured_step(workload.network)) return {};
  std::vector<Alternative> possible;
  for (const Alternative& one : alternatives) {
    if (std::find(fields.begin(), fields.end(), one.field) == fields.end()) continue;
    if (field_text(workload, one.field) != one.usual) continue;
    if ((one.field == "software" && workload.compiled) ||
        (one.field == "compiled" && workload.software != Software::pytorch)) {
      continue;
    }
    possible.push_back(one);
  }
  return possible;
}

}  // namespace

Quantiles of_known_epoch(const Workload& workload, const Quantiles& sec) {
  constexpr double none = std::numeric_limits<double>::quiet_NaN();
  return workload.knows_epoch() ? sec : Quantiles{none, none, none};
}

Unstated::Unstated(JobVariants& variants, const Job& job, const Estimate& stated, std::span<const std::string> fields) {
  for (const auto& [field, usual, other] : alternatives_of(job.workload(), stated.rests_on, fields)) {
    const double log_sec = variants.estimate(job.with(with_field(job.workload(), field, other))).time.log_sec;
    const double width = half_width_of_other * std::abs(log_sec - stated.log_sec);
    if (width > least_width) widths_.emplace_back(field, width);
  }
  std::sort(widths_.begin(), widths_.end(), [](const auto& a, const auto& b) { return a.second > b.second; });
}

double Unstated::half_width() const {
  double squares = 0;
  for (const auto& [field, width] : widths_) squares += width * width;
  return std::sqrt(squares);
}

std::vector<Narrowing> Unstated::narrow_by(double total) const {
  constexpr std::size_t most = 2;
  constexpr double least_gain = 0.98;  // of the width: what gains less is not worth asking for
  std::vector<Narrowing> fields;
  for (const auto& [field, width] : widths_) {
    const double narrowed = std::sqrt(std::max(0.0, total * total - width * width));
    if (fields.size() == most || narrowed > least_gain * total) break;
    fields.push_back({std::string(field), narrowed});
  }
  return fields;
}

void ManyUnstated::widen(Estimate& time, const Workload& workload, std::span<const std::string> fields) {
  std::vector<std::string> unstated;
  for (const Alternative& one : alternatives_of(workload, time.rests_on, fields)) unstated.emplace_back(one.field);
  if (unstated.empty()) return;
  const auto below = static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(workload.batch_size)));
  const double of_below = half_width(workload, below, unstated);
  time.widths.unstated = of_below;
  if (below == workload.batch_size) return;
  const double share = std::log2(static_cast<double>(workload.batch_size) / static_cast<double>(below));
  try {
    time.widths.unstated += share * (half_width(workload, 2 * below, unstated) - of_below);
  } catch (const InputError&) {  // too large a batch for any device: that of the one below
    time.widths.unstated = of_below;
  }
}

double ManyUnstated::half_width(Workload workload, std::int64_t batch_size, const std::vector<std::string>& fields) {
  workload.batch_size = batch_size;
  {
    const std::lock_guard lock(mutex_);
    const ByWorkload<double>& known = half_widths_[fields];
    if (const auto found = known.find(workload); found != known.end()) return found->second;
  }
  JobVariants variants(model_);
  const Job job(std::move(workload), model_.devices());
  const double width = Unstated(variants, job, variants.estimate(job).time, fields).half_width();
  const std::lock_guard lock(mutex_);
  return half_widths_[fields].emplace(job.workload(), width).first->second;
}

}  // namespace perfpred
