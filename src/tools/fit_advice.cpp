// SPDX-License-Identifier: Apache-2.0
#include "tools/fit_advice.h"

#include <perfpred/device.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "workload/workload_columns.h"

namespace perfpred {
namespace {

struct Change {
  std::string field, value;
};
using Changes = std::vector<Change>;

std::string text_of(const Changes& changes) {
  std::string text;
  for (const Change& change : changes)
    text += fmt::format("{}{}={}", text.empty() ? "" : ";", change.field, change.value);
  return text;
}

class Adviser {
 public:
  Adviser(const TimeRegressor& model, const Workload& workload, const JobTerms& terms, const Forecast& job)
      : model_(model), workload_(workload), terms_(terms), job_(job) {
    terms_.find_largest_batch = false;
    terms_.unstated.clear();  // advice says medians
  }

  /// Adds what the changes save, if the network can have them and they save something.
  /// @returns the verdict of the changed job, nothing if it is not added
  std::optional<MemoryVerdict> offer(const Changes& changes) {
    Workload changed = workload_;
    try {
      for (const Change& change : changes) changed = with_field(std::move(changed), change.field, change.value);
      const Forecast other = forecast(model_, changed, terms_);
      const bool saves = other.memory && other.memory->peak_bytes < job_.memory->peak_bytes;
      if (!other.verdict || (!saves && changed.device == workload_.device)) return std::nullopt;
      advice_.push_back({text_of(changes), other.memory->peak_bytes,
                         other.prediction.time_sec.p50 / job_.prediction.time_sec.p50, *other.verdict});
      return other.verdict;
    } catch (const InputError&) {
      return std::nullopt;  // a change that this network cannot have is no advice
    }
  }

  /// Each of the changes alone, then together with those before, until the job fits.
  void offer_chain(const std::vector<Changes>& steps) {
    Changes all;
    bool fits = false;
    for (const Changes& step : steps) {
      const bool first = all.empty();
      for (const Change& change : step) {
        std::erase_if(all, [&](const Change& earlier) { return earlier.field == change.field; });
        all.push_back(change);
      }
      offer(step);
      if (fits) continue;
      fits = (first ? verdict_of_last() : offer(all)) == MemoryVerdict::fits;
    }
  }

  [[nodiscard]] std::optional<MemoryVerdict> verdict_of_last() const {
    return advice_.empty() ? std::nullopt : std::optional(advice_.back().verdict);
  }

  [[nodiscard]] std::vector<FitAdvice> take() {
    const auto same = [](const FitAdvice& one, const FitAdvice& other) { return one.change == other.change; };
    advice_.erase(std::unique(advice_.begin(), advice_.end(), same), advice_.end());
    return std::move(advice_);
  }

 private:
  const TimeRegressor& model_;
  const Workload& workload_;
  JobTerms terms_;
  const Forecast& job_;
  std::vector<FitAdvice> advice_;
};

void offer_batches(Adviser& adviser, const Workload& workload, const Forecast& job) {
  if (job.largest_batch.value_or(0) == 0 || *job.largest_batch >= workload.batch_size) return;
  const std::string largest = std::to_string(*job.largest_batch);
  adviser.offer({{"batch_size", largest}});
  const std::int64_t micro_steps = (workload.batch_size + *job.largest_batch - 1) / *job.largest_batch;
  adviser.offer({{"batch_size", std::to_string((workload.batch_size + micro_steps - 1) / micro_steps)},
                 {"accumulate", std::to_string(workload.accumulate * micro_steps)}});
}

void offer_methods(Adviser& adviser, const Workload& workload) {
  std::vector<Changes> steps = {{{"checkpoint", "all"}}};
  if (workload.optimizer == Optimizer::adam) steps.push_back({{"optimizer", "adam8bit"}});
  if (workload.optimizer == Optimizer::adamw) steps.push_back({{"optimizer", "adamw8bit"}});
  const bool sequences = workload.input.size() == 1;
  if (sequences && workload.adapter.empty()) {
    const std::string type = workload.precision == Precision::fp16 ? "fp16" : "bf16";
    const Change lora = {"adapter", "lora:r=16,targets=all"};
    steps.push_back({lora, {"weights", type}});
    steps.push_back({lora, {"weights", "nf4"}});
  }
  adviser.offer_chain(steps);
}

/// The GPUs that may take the job as it is, the cheapest or smallest first.
std::vector<const Device*> larger_devices(const TimeRegressor& model, const Workload& workload, const Forecast& job,
                                          const Prices& prices) {
  std::vector<const Device*> larger;
  for (const Device& device : model.devices().devices()) {
    const std::optional<std::int64_t> usable = device.usable_bytes();
    if (device.kind != DeviceKind::gpu || device.name == workload.device || !usable) continue;
    if (*usable < job.memory->device.upper || !device.matrix_flops(workload.precision)) continue;
    if (!prices.empty() && !prices.contains(device.name)) continue;
    larger.push_back(&device);
  }
  const auto rank = [&](const Device* device) {
    const auto price = prices.find(device->name);
    const double cost = price == prices.end() ? 0 : price->second.per_hour;
    return std::pair(cost, *device->usable_bytes());
  };
  std::stable_sort(larger.begin(), larger.end(), [&](const Device* a, const Device* b) { return rank(a) < rank(b); });
  return larger;
}

}  // namespace

std::vector<FitAdvice> fit_advice(const TimeRegressor& model, const Workload& workload, const JobTerms& terms,
                                  const Forecast& job, const Prices& prices) {
  if (!job.verdict || *job.verdict == MemoryVerdict::fits) return {};
  Adviser adviser(model, workload, terms, job);
  offer_batches(adviser, workload, job);
  offer_methods(adviser, workload);
  for (const Device* device : larger_devices(model, workload, job, prices)) {
    if (adviser.offer({{"device", device->name}}) == MemoryVerdict::fits) break;
  }
  return adviser.take();
}

}  // namespace perfpred
