// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/layouts.h>

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <tuple>
#include <utility>

#include "answer/answer_json.h"
#include "model/unstated.h"
#include "parallel/placed_memory.h"
#include "step/job.h"
#include "text/enum_names.h"
#include "text/json.h"
#include "text/parse.h"
#include "workload/rank_network.h"
#include "workload/world.h"

namespace perfpred {
namespace {

std::vector<std::int64_t> divisors(std::int64_t whole) {
  std::vector<std::int64_t> all;
  for (std::int64_t d = 1; d <= whole; ++d) {
    if (whole % d == 0) all.push_back(d);
  }
  return all;
}

/// Layouts whose ranks compute the same: they differ in stages of a rank and in what replicas share.
using AlikeLayouts = std::vector<ParallelLayout>;

/// The layout, shared by its replicas in each of these ways.
void add(AlikeLayouts& all, ParallelLayout layout, std::initializer_list<Sharding> shardings) {
  for (const Sharding sharding : shardings) {
    layout.sharding = sharding;
    all.push_back(layout);
  }
}

/// Every layout of the search's devices that the job can have; of a forward pass alone, those that differ for it and
/// are timed.
std::vector<AlikeLayouts> layouts_of(const TransformerDescription& network, std::int64_t gpus, const Workload& job) {
  const std::int64_t words = job.input.front();
  std::vector<AlikeLayouts> all(1);
  if (job.phases == Phases::forward) {
    add(all.front(), {.dp = gpus}, {Sharding::none, Sharding::fsdp});
    return all;
  }
  add(all.front(), {.dp = gpus}, {Sharding::none, Sharding::zero1, Sharding::zero2, Sharding::fsdp});
  if (!job.adapter.empty()) return all;
  for (const std::int64_t tp : divisors(gpus)) {
    for (const std::int64_t pp : divisors(gpus / tp)) {
      for (const std::int64_t ep : divisors(network.experts > 0 ? gpus / tp / pp : 1)) {
        ParallelLayout layout = {.tp = tp, .pp = pp, .dp = gpus / tp / pp, .ep = ep, .sp = tp > 1 && words % tp == 0};
        if (tp > usual_node || !splits_network(layout) || !can_split(network, layout)) continue;
        AlikeLayouts& alike = all.emplace_back();
        for (const std::int64_t vp : divisors(pp > 1 ? network.layers / pp : 1)) {
          layout.vp = vp;
          add(alike, layout, {Sharding::none});
          if (layout.dp > 1) add(alike, layout, {Sharding::zero1});
        }
      }
    }
  }
  return all;
}

Workload with_an_epoch_of_one_step(const Workload& job) {
  Workload one = on_one_device(job);
  one.cluster = job.cluster;
  one.train_images = job.batch_size;
  return one;
}

class Search {
 public:
  Search(const TimeRegressor& model, const Workload& job, const LayoutSearch& asked)
      : job_(with_an_epoch_of_one_step(job), model.devices()),
        asked_(asked),
        variants_(model),
        device_(job_.device().known()),
        memory_(device_) {}

  Layouts run(const TransformerDescription& network) {
    Layouts found;
    const Workload& job = job_.workload();
    const bool trains = job.phases != Phases::forward;
    for (const AlikeLayouts& alike : layouts_of(network, asked_.gpus, job)) {
      const std::int64_t replicas = alike.front().dp;
      if (job.batch_size % replicas != 0) continue;
      const std::int64_t share = job.batch_size / replicas;
      // Those of one step follow each other, so that it is executed, and its memory estimated, once.
      for (const std::int64_t checkpoint : {std::int64_t{0}, selective_checkpoint, std::int64_t{1}}) {
        if (!trains && checkpoint != 0) continue;
        for (std::int64_t micro_batch = 1; micro_batch <= share; micro_batch *= 2) {
          if (share % micro_batch != 0) continue;
          for (const ParallelLayout& layout : alike) {
            // Interleaved stages take micro-batches in groups of as many as there are stages (Megatron-LM).
            if (layout.vp > 1 && share / micro_batch % layout.pp != 0) continue;
            add(found, layout, micro_batch, share / micro_batch, checkpoint);
          }
        }
      }
    }
    sort(found.layouts);
    if (found.layouts.size() > asked_.top) found.layouts.resize(asked_.top);
    return found;
  }

  /// Whether there were layouts whose memory is not known.
  [[nodiscard]] bool lacks_memory() const { return lacks_memory_; }

 private:
  void add(Layouts& found, const ParallelLayout& layout, std::int64_t micro_batch, std::int64_t micro_batches,
           std::int64_t checkpoint) {
    check_time();
    RankedLayout one;
    one.workload = job_.workload();
    one.workload.parallel = layout;
    one.workload.batch_size = micro_batch;
    one.workload.accumulate = micro_batches;
    one.workload.checkpoint = checkpoint;
    one.workload.gpus_per_node = world_of(one.workload).placement;
    one.workload.parallel.dp = 0;  // what the placement leaves
    const std::optional<PlacedMemory> placed = memory_.of(one.workload);
    const std::optional<MemoryVerdict> verdict = placed ? placed->memory.verdict(device_) : std::nullopt;
    if (!verdict) {
      lacks_memory_ = true;
      return;
    }
    const JobEstimate step = variants_.explain(job_.with(one.workload));
    one.memory = placed->memory;
    one.verdict = *verdict;
    one.step_sec = step.time.quantiles();
    one.scaling = *step.scaling;
    const std::int64_t positions = job_.program().positions(job_.workload());
    const auto tokens = static_cast<double>(job_.workload().batch_size * positions);
    one.tokens_per_sec = {tokens / one.step_sec.p95, tokens / one.step_sec.p50, tokens / one.step_sec.p05};
    if (asked_.price_per_hour)
      one.price = one.step_sec.p50 * *asked_.price_per_hour * static_cast<double>(asked_.gpus) / 3600;
    ++found.space;
    if (one.verdict == MemoryVerdict::fits) ++found.fit;
    found.layouts.push_back(std::move(one));
  }

  void check_time() const {
    if (std::chrono::duration<double>(std::chrono::steady_clock::now() - begin_).count() <= asked_.time_sec) return;
    throw Error(
        fmt::format("the layouts of {} devices are not ranked within {} s; fewer devices, or a smaller batch, "
                    "have fewer layouts",
                    asked_.gpus, asked_.time_sec));
  }

  void sort(std::vector<RankedLayout>& layouts) const {
    const auto place = [&](const RankedLayout& one) {
      const double memory = static_cast<double>(one.memory.peak_bytes), sec = one.step_sec.p50;
      const bool by_memory = asked_.by == LayoutOrder::memory || one.verdict == MemoryVerdict::does_not_fit;
      return std::tuple(one.verdict, by_memory ? memory : sec, by_memory ? sec : memory);
    };
    std::ranges::stable_sort(layouts, {}, place);
  }

  Job job_;
  const LayoutSearch& asked_;
  JobVariants variants_;
  const Device& device_;
  MemoryOfPlaced memory_;
  bool lacks_memory_ = false;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

}  // namespace

LayoutOrder parse_layout_order(std::string_view text) {
  if (const auto order = enumerator_named<LayoutOrder::memory>(text)) return *order;
  throw_bad_value({{}, 0, "by"}, text, "time, price or memory");
}

Layouts rank_layouts(const TimeRegressor& model, const Workload& job, const LayoutSearch& search) {
  if (search.gpus < 2) throw InputError(fmt::format("gpus {} is not at least 2", search.gpus));
  if (search.gpus > std::int64_t{1} << 16) throw InputError(fmt::format("gpus {} are more than 65,536", search.gpus));
  job.validate();
  const std::optional<TransformerDescription> network = transformer_of_words(job);
  if (!network)
    throw InputError(fmt::format("layouts are ranked for transformers of words; {} is none", shown(job.network)));
  if (search.by == LayoutOrder::price && !search.price_per_hour) throw InputError("by price needs prices");
  if (!is_on_one_device(job)) throw InputError("parallel and gpus_per_node are what is searched for");
  Search ranked(model, job, search);
  Layouts found = ranked.run(*network);
  if (found.space == 0 && ranked.lacks_memory())
    throw InputError(fmt::format("memory of such jobs on device \"{}\" is not known", shown(job.device)));
  if (found.space == 0) {
    throw InputError(fmt::format("no layout of {} devices divides {} samples an update of {}", search.gpus,
                                 job.batch_size, shown(job.network)));
  }
  found.left_out = {"cp, sp=0 where the words can be shared, stages of different size, and fsdp joined with tp and pp"};
  if (!job.adapter.empty()) found.left_out.emplace_back("tp and pp, which split networks that are trained whole");
  if (ranked.lacks_memory()) found.left_out.emplace_back("layouts whose memory is not known for such a training");
  return found;
}

nlohmann::json to_json(const Layouts& layouts) {
  nlohmann::json list = nlohmann::json::array();
  for (const RankedLayout& one : layouts.layouts) {
    list.push_back({{"parallel", one.workload.parallel.text()},
                    {"gpus_per_node", one.workload.gpus_per_node.text()},
                    {"batch_size", one.workload.batch_size},
                    {"micro_batches", one.workload.accumulate},
                    {"checkpoint", field_text(one.workload, "checkpoint")},
                    {"step_sec", to_json(one.step_sec)},
                    {"tokens_per_sec", to_json(one.tokens_per_sec)},
                    {"memory",
                     {{"tensors", to_json(one.memory.tensors)},
                      {"reserved", to_json(one.memory.reserved)},
                      {"device", to_json(one.memory.device)}}},
                    {"verdict", to_string(one.verdict)},
                    {"price", or_null(one.price)},
                    {"efficiency", one.scaling.efficiency},
                    {"limits", limits_json(one.scaling.limits)}});
  }
  return {{"space", layouts.space}, {"fit", layouts.fit}, {"left_out", layouts.left_out}, {"layouts", list}};
}

std::string json_text(const Layouts& layouts) { return dumped(to_json(layouts), 2); }

}  // namespace perfpred
