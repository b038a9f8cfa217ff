// SPDX-License-Identifier: Apache-2.0
#include "answer/advice.h"

#include <perfpred/device.h>
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "model/job_forecast.h"
#include "step/parts_needed.h"
#include "workload/rank_network.h"
#include "workload/workload_columns.h"
#include "workload/world.h"

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
  Adviser(const TimeRegressor& model, const Job& asked, const JobTerms& terms, const Forecast& job)
      : model_(model), asked_(asked), workload_(asked.workload()), terms_(terms), job_(job) {
    terms_.unstated.clear();  // advice says medians
  }

  /// Adds what the changes save, if the network can have them on the device and they help.
  /// @returns the verdict of the changed job, nothing if it is not added
  std::optional<MemoryVerdict> offer(const Changes& changes, MemoryVerdict worst = MemoryVerdict::does_not_fit) {
    const std::optional<Forecast> other = changed(changes, false);
    return other ? add(changes, *other, worst) : std::nullopt;
  }

  /// Each of the changes that are not in force alone; those that help together with those before, until the job fits.
  /// @param together  of an earlier chain; those of this one are added
  /// @param fits      with the changes together
  void offer_chain(const std::vector<Changes>& steps, Changes& together, bool& fits) {
    for (Changes step : steps) {
      std::erase_if(step, [&](const Change& one) { return field_text(workload_, one.field) == one.value; });
      if (step.empty()) continue;
      offer(step);
      Changes all = together;
      for (const Change& change : step) {
        std::erase_if(all, [&](const Change& earlier) { return earlier.field == change.field; });
        all.push_back(change);
      }
      const std::optional<Forecast> other = fits ? std::nullopt : changed(all, false);
      if (!other || !other->memory || !helps(*other, best_)) continue;
      best_ = *other;
      if (!together.empty()) add(all, *other, MemoryVerdict::does_not_fit);
      fits = other->verdict == MemoryVerdict::fits;
      together = std::move(all);
    }
  }

  /// The largest batch of the job with these changes, and batches of at most this size, accumulated. Where not even
  /// one sample surely fits, one sample that may.
  void offer_batches(const Changes& changes) {
    const std::optional<Forecast> other = changes.empty() ? std::nullopt : changed(changes, true);
    const std::optional<std::int64_t> largest = changes.empty() ? job_.largest_batch
                                                : other         ? other->largest_batch
                                                                : std::nullopt;
    if (!largest || workload_.batch_size == 1 || *largest >= workload_.batch_size) return;
    const std::int64_t batch = std::max<std::int64_t>(*largest, 1);
    const auto offer_batch = [&](std::int64_t size, std::int64_t accumulate) {
      const bool accumulates = accumulate > workload_.accumulate;
      if (accumulates && workload_.phases == Phases::forward) return;  // it has no gradients
      Changes all = changes;
      all.push_back({"batch_size", std::to_string(size)});
      if (accumulates) all.push_back({"accumulate", std::to_string(accumulate)});
      offer(all, MemoryVerdict::only_just);
    };
    offer_batch(batch, workload_.accumulate);
    const std::int64_t micro_steps = parts_needed(workload_.batch_size, batch);
    offer_batch(parts_needed(workload_.batch_size, micro_steps), workload_.accumulate * micro_steps);
  }

  [[nodiscard]] std::vector<Advice> take() { return std::move(advice_); }

 private:
  /// Whether a job takes so much less than another that it fits better, or frees a fair part of what that one lacks.
  static bool helps(const Forecast& job, const Forecast& than) {
    constexpr double fair_part = 0.05;
    if (job.verdict < than.verdict) return true;
    const auto freed = static_cast<double>(than.memory->peak_bytes - job.memory->peak_bytes);
    const auto lacking = static_cast<double>(than.memory->needed() - *than.usable_bytes);
    return freed > 0 && freed >= fair_part * lacking;
  }

  std::optional<MemoryVerdict> add(const Changes& changes, const Forecast& other, MemoryVerdict worst) {
    if (!other.verdict || *other.verdict > worst) return std::nullopt;
    const bool of_device = !changes.empty() && changes.front().field == "device";
    if (!of_device && !helps(other, job_)) return std::nullopt;
    std::string change = text_of(changes);
    const auto is_it = [&](const Advice& given) { return given.change == change; };
    if (std::any_of(advice_.begin(), advice_.end(), is_it)) return other.verdict;
    advice_.push_back({std::move(change), other.memory->peak_bytes, job_.images_per_sec.p50 / other.images_per_sec.p50,
                       *other.verdict});
    return other.verdict;
  }

  /// @returns nothing for changes that this network cannot have
  [[nodiscard]] std::optional<Forecast> changed(const Changes& changes, bool find_largest_batch) const {
    JobTerms terms = terms_;
    terms.find_largest_batch = find_largest_batch;
    try {
      Workload workload = workload_;
      for (const Change& change : changes) workload = with_field(std::move(workload), change.field, change.value);
      return forecast(model_, asked_.with(std::move(workload)), terms);
    } catch (const InputError&) {
      return std::nullopt;  // no advice
    }
  }

  const TimeRegressor& model_;
  const Job& asked_;
  const Workload& workload_;
  JobTerms terms_;
  const Forecast& job_;
  Forecast best_ = job_;  // of the changes of chains together
  std::vector<Advice> advice_;
};

/// bf16, or fp16 where the job has it or its device no bf16.
const char* half_type(const TimeRegressor& model, const Workload& workload) {
  if (workload.precision == Precision::fp16) return "fp16";
  const auto& devices = model.devices().devices();
  const bool lacks_bf16 = std::any_of(devices.begin(), devices.end(), [&](const Device& device) {
    return device.name == workload.device && !device.matrix_flops(Precision::bf16);
  });
  return lacks_bf16 ? "fp16" : "bf16";
}

/// What trains the same parameters, then what trains an adapter in their place, or beside fewer bits of them.
void offer_methods(Adviser& adviser, const TimeRegressor& model, const Workload& workload) {
  std::vector<Changes> same = {{{"checkpoint", "all"}}}, others;
  if (workload.optimizer == Optimizer::adam) same.push_back({{"optimizer", "adam8bit"}});
  if (workload.optimizer == Optimizer::adamw) same.push_back({{"optimizer", "adamw8bit"}});
  same.push_back({{"loss", "chunked"}});  // last: the logits are the peak once the rest is small
  const bool sequences = workload.input.size() == 1, packed = workload.weights >= Weights::nf4;
  const char* half = half_type(model, workload);
  for (const char* type : {half, "nf4"}) {
    if (!sequences || (packed && type != std::string_view("nf4"))) continue;
    Changes changes = {{"weights", type}};
    if (workload.adapter.empty()) changes.insert(changes.begin(), {"adapter", "lora:r=16,targets=all"});
    // Packed weights are unpacked to the type in which products are computed.
    if (type != half && !is_half(workload.precision)) changes.push_back({"precision", half});
    others.push_back(std::move(changes));
  }
  Changes together;
  bool fits = false;
  adviser.offer_chain(same, together, fits);
  if (!fits) adviser.offer_batches(together);
  const std::string of_same = text_of(together);
  adviser.offer_chain(others, together, fits);
  if (!fits && text_of(together) != of_same) adviser.offer_batches(together);
}

/// Of a job on several devices, layouts of the same devices in which each holds less: replicas that share more, and
/// twice as many stages or devices to a matrix.
void offer_layouts(Adviser& adviser, const Workload& workload) {
  const auto offer = [&](ParallelLayout layout) {
    layout.dp = 0;  // what the placement leaves
    adviser.offer({{"parallel", layout.text()}});
  };
  for (const Sharding sharding : {Sharding::zero1, Sharding::zero2, Sharding::fsdp}) {
    ParallelLayout layout = workload.parallel;
    if (layout.sharding >= sharding || (splits_network(layout) && sharding > Sharding::zero1)) continue;
    layout.sharding = sharding;
    offer(layout);
  }
  for (std::int64_t ParallelLayout::*number : {&ParallelLayout::pp, &ParallelLayout::tp}) {
    ParallelLayout layout = workload.parallel;
    layout.sharding = std::min(layout.sharding, Sharding::zero1);
    layout.*number *= 2;
    if (layout.tp <= usual_node) offer(layout);
  }
}

/// A part of a GPU (MIG), or one that comes with its computer, whose memory it shares: what nobody adds to a machine.
bool is_no_card(const Device& device) {
  return device.name.find(" MIG ") != std::string::npos || device.mem_type.starts_with("LPDDR");
}

/// The GPUs that may take the job as it is, the cheapest or smallest first.
std::vector<const Device*> larger_devices(const TimeRegressor& model, const Workload& workload, const Forecast& job,
                                          const Prices& prices) {
  std::vector<const Device*> larger;
  for (const Device& device : model.devices().devices()) {
    const std::optional<std::int64_t> usable = device.usable_bytes();
    if (device.kind != DeviceKind::gpu || device.name == workload.device || !usable) continue;
    if (*usable < job.memory->needed() || !device.matrix_flops(workload.precision)) continue;
    if (prices.empty() ? is_no_card(device) : !prices.contains(device.name)) continue;
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

std::vector<Advice> advice(const TimeRegressor& model, const Job& asked, const JobTerms& terms, const Forecast& job,
                           const Prices& prices) {
  if (!job.verdict || *job.verdict == MemoryVerdict::fits) return {};
  const Workload& workload = asked.workload();
  Adviser adviser(model, asked, terms, job);
  adviser.offer_batches({});
  offer_methods(adviser, model, workload);
  if (!is_on_one_device(workload)) offer_layouts(adviser, workload);
  for (const Device* device : larger_devices(model, workload, job, prices)) {
    if (adviser.offer({{"device", device->name}}) == MemoryVerdict::fits) break;
  }
  return adviser.take();
}

}  // namespace perfpred
