// SPDX-License-Identifier: Apache-2.0
#include <perfpred/op_graph.h>
#include <perfpred/timeline.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>

#include "answer/answer_json.h"
#include "model/job_forecast.h"
#include "model/placed_prediction.h"
#include "model/unstated.h"
#include "optime/timed_kernel.h"
#include "parallel/schedule.h"
#include "step/kept_steps.h"
#include "text/json.h"
#include "workload/world.h"

namespace perfpred {
namespace {

/// Above it, kernels are drawn for one micro-batch: viewers take some hundred thousand events.
constexpr std::size_t most_kernels = 100'000;

std::string_view pass_name(Phase phase) { return phase == Phase::optimizer ? "update" : to_string(phase); }

/// Neighbouring kernels of one phase, as long as they take one after the other, without the host.
struct Pass {
  Phase phase = Phase::forward;
  std::size_t begin = 0, end = 0;  ///< places of its kernels
  double sec = 0;
};

std::vector<Pass> passes_of(const OpGraph& step, const std::vector<TimedKernel>& kernels) {
  std::vector<Pass> passes;
  for (std::size_t i = 0; i < kernels.size(); ++i) {
    const Phase phase = step.ops()[kernels[i].op].phase;
    if (passes.empty() || passes.back().phase != phase) passes.push_back({phase, i, i, 0});
    passes.back().end = i + 1;
    passes.back().sec += kernels[i].device_sec;
  }
  return passes;
}

/// A job's device, by the kernels of one of its micro-batches and of the update.
struct RankKernels {
  std::shared_ptr<const ExecutedStep> step;
  std::vector<TimedKernel> kernels;
  std::vector<Pass> passes;

  [[nodiscard]] double seconds_of(Phase phase) const {
    double sec = 0;
    for (const Pass& pass : passes) sec += pass.phase == phase ? pass.sec : 0;
    return sec;
  }
};

RankKernels kernels_of(JobVariants& variants, const Job& rank) {
  RankKernels own = {executed_step(rank.workload(), rank.device_kind()), variants.kernels(rank), {}};
  own.passes = passes_of(own.step->graph(), own.kernels);
  return own;
}

std::string numbered(std::string_view name, std::int64_t number, std::int64_t of) {
  return of == 1 ? std::string(name) : fmt::format("{} {}", name, number);
}

class Drawing {
 public:
  void add(std::int64_t stage, Lane lane, std::string name, double begin, double sec) {
    if (sec > 0) events_.push_back({stage, lane, std::move(name), {}, begin, sec});
  }

  void add(Lane lane, const OpGraph& step, const TimedKernel& kernel, double begin, double sec) {
    if (!(sec > 0)) return;
    const Op& op = step.ops()[kernel.op];
    TimelineEvent event = {0, lane, std::string(step.name(op)), std::string(step.layer_name(op)), begin, sec};
    if (lane == Lane::compute) {
      event.flops = kernel.flops;
      event.bytes = kernel.bytes;
    }
    events_.push_back(std::move(event));
  }

  /// The events, so that the last of them ends then.
  [[nodiscard]] std::vector<TimelineEvent> ending_at(double sec) && {
    double end = 0;
    for (const TimelineEvent& event : events_) end = std::max(end, event.begin_sec + event.sec);
    for (TimelineEvent& event : events_) {
      event.begin_sec *= sec / end;
      event.sec *= sec / end;
    }
    return std::move(events_);
  }

 private:
  std::vector<TimelineEvent> events_;
};

/// A step of one device: the host dispatches kernels one after the other; each begins when it is dispatched and the one
/// before has ended.
class OneDevice {
 public:
  OneDevice(Drawing& drawing, const RankKernels& own) : drawing_(drawing), own_(own) {}

  /// @returns whether all kernels are drawn
  [[nodiscard]] bool draw() {
    const std::int64_t batches = own_.step->graph().repeats();
    const bool all = own_.kernels.size() * static_cast<std::size_t>(batches) <= most_kernels;
    for (std::int64_t batch = 1; batch <= batches; ++batch) {
      for (const Pass& pass : own_.passes) {
        if (pass.phase != Phase::optimizer)
          draw(pass, numbered(pass_name(pass.phase), batch, batches), all || batch == 1);
      }
    }
    for (const Pass& pass : own_.passes) {
      if (pass.phase == Phase::optimizer) draw(pass, std::string(pass_name(pass.phase)), true);
    }
    return all;
  }

 private:
  void draw(const Pass& pass, std::string name, bool with_kernels) {
    const OpGraph& step = own_.step->graph();
    std::optional<double> begin;
    Drawing inside;
    for (std::size_t i = pass.begin; i < pass.end; ++i) {
      const TimedKernel& kernel = own_.kernels[i];
      if (with_kernels) drawing_.add(Lane::host, step, kernel, host_, kernel.host_sec);
      host_ += kernel.host_sec;
      device_ = std::max(device_, host_);
      if (!begin) begin = device_;
      if (with_kernels) kernels_.push_back({&kernel, device_});
      device_ += kernel.device_sec;
    }
    drawing_.add(0, Lane::compute, std::move(name), *begin, device_ - *begin);
    for (const auto& [kernel, at] : kernels_) drawing_.add(Lane::compute, step, *kernel, at, kernel->device_sec);
    kernels_.clear();
  }

  struct Begun {
    const TimedKernel* kernel;
    double begin;
  };

  Drawing& drawing_;
  const RankKernels& own_;
  std::vector<Begun> kernels_;  // of the pass that is drawn
  double host_ = 0, device_ = 0;
};

/// A step of several devices: a pass through a chunk computes, then waits for its collectives; gradients are summed
/// behind, and beside, the last backward pass of a stage, or, where replicas share parameters, of each.
class SeveralDevices {
 public:
  SeveralDevices(Drawing& drawing, const PlacedJob& job, const RankKernels& own)
      : drawing_(drawing), job_(job), own_(own) {
    const PlacedStep& step = job.step;
    const auto passes = static_cast<double>(job.work.micro_batches * chunks());
    gathers_ = gathers_parameters(job.world.layout);
    const double inner = step.links - (gathers_ ? 0 : step.reduce);
    const double backward = own.seconds_of(Phase::backward);
    const double forward = own.seconds_of(Phase::forward) + own.seconds_of(Phase::loss);
    forward_share_ = forward + backward > 0 ? forward / (forward + backward) : 1;
    // What a micro-batch more takes may hide the update (StepSec); its kernels do not.
    const auto shares = job.world.layout.sharding == Sharding::none ? 1 : static_cast<double>(job.world.layout.dp);
    update_sec_ = std::min(std::max(job.work.update_sec, own.seconds_of(Phase::optimizer) / shares), step.compute / 2);
    compute_sec_ = (step.compute - update_sec_ + step.host) / passes;
    waits_sec_ = inner / passes;
    hidden_sec_ = gathers_ ? step.hidden_reduce / passes : step.hidden_reduce;
  }

  /// @returns whether all kernels are drawn
  [[nodiscard]] bool draw() {
    const ParallelLayout& layout = job_.world.layout;
    const std::vector<StagePass> passes =
        pipeline_schedule(layout.pp, chunks(), job_.work.micro_batches, seconds_of(true), seconds_of(false));
    const std::size_t of_kernels = own_.kernels.size() * static_cast<std::size_t>(job_.work.micro_batches);
    const bool all = layout.pp == 1 && of_kernels <= most_kernels;
    for (std::size_t i = 0; i < passes.size(); ++i) {
      draw(passes[i], layout.pp == 1 && (all || passes[i].micro_batch == 0));
      const bool is_last = i + 1 == passes.size() || passes[i + 1].stage != passes[i].stage;
      if (is_last) draw_update(passes[i].stage, passes[i].begin_sec + seconds_of(passes[i].forward));
    }
    return all;
  }

 private:
  [[nodiscard]] std::int64_t chunks() const { return job_.world.layout.vp; }
  [[nodiscard]] double share_of(bool forward) const { return forward ? forward_share_ : 1 - forward_share_; }
  /// Both passes wait for as many collectives (Megatron-LM's tensor parallelism, FSDP's gathering).
  [[nodiscard]] double wait_sec(bool forward) const {
    return forward_share_ == 1 ? (forward ? waits_sec_ : 0) : waits_sec_ / 2;
  }
  [[nodiscard]] double seconds_of(bool forward) const { return share_of(forward) * compute_sec_ + wait_sec(forward); }

  void draw(const StagePass& pass, bool with_kernels) {
    const double sec = share_of(pass.forward) * compute_sec_, wait = wait_sec(pass.forward);
    if (sec + wait == 0) return;
    std::string name = numbered(pass.forward ? "forward" : "backward", pass.micro_batch + 1, job_.work.micro_batches);
    if (chunks() > 1) name += fmt::format(", chunk {}", pass.chunk + 1);
    drawing_.add(pass.stage, Lane::compute, std::move(name), pass.begin_sec, sec);
    if (with_kernels) draw_kernels(pass.forward, pass.begin_sec, sec);
    const double end = pass.begin_sec + sec;
    const double hidden = gathers_ ? std::min(sec, hidden_sec_ * share_of(pass.forward)) : 0;
    const Lane lane = gathers_ ? Lane::parameters : Lane::tensors;
    drawing_.add(pass.stage, lane, gathers_ ? "gathered parameters" : "all-reduces, transfers", end - hidden,
                 wait + hidden);
  }

  void draw_kernels(bool forward, double begin, double sec) {
    const OpGraph& step = own_.step->graph();
    double own_sec = 0;
    const auto is_of_pass = [&](const Pass& pass) {
      return pass.phase != Phase::optimizer && (pass.phase == Phase::backward) != forward;
    };
    for (const Pass& pass : own_.passes) own_sec += is_of_pass(pass) ? pass.sec : 0;
    for (const Pass& pass : own_.passes) {
      if (!is_of_pass(pass)) continue;
      for (std::size_t i = pass.begin; i < pass.end; ++i) {
        const double kernel_sec = own_.kernels[i].device_sec * sec / own_sec;
        drawing_.add(Lane::compute, step, own_.kernels[i], begin, kernel_sec);
        begin += kernel_sec;
      }
    }
  }

  /// @param end  of the last backward pass
  void draw_update(std::int64_t stage, double end) {
    const double exposed = gathers_ ? 0 : job_.step.reduce, hidden = gathers_ ? 0 : std::min(hidden_sec_, end);
    drawing_.add(stage, Lane::gradients, "summed gradients", end - hidden, hidden + exposed);
    drawing_.add(stage, Lane::compute, "update", end + exposed, update_sec_);
  }

  Drawing& drawing_;
  const PlacedJob& job_;
  const RankKernels& own_;
  bool gathers_ = false;      // parameters, for every pass
  double forward_share_ = 0;  // of what a micro-batch computes
  // Of both passes of a micro-batch through a chunk: computing and waiting for the host; waiting for links.
  double compute_sec_ = 0, waits_sec_ = 0;
  double update_sec_ = 0;
  double hidden_sec_ = 0;  // of collectives beside the passes; of all of them where it is done once
};

}  // namespace

std::string_view to_string(Lane lane) {
  switch (lane) {
    case Lane::compute:
      return "compute";
    case Lane::host:
      return "host";
    case Lane::tensors:
      return "links tensors";
    case Lane::parameters:
      return "links parameters";
    case Lane::gradients:
      break;
  }
  return "links gradients";
}

Timeline timeline(const TimeRegressor& model, const Workload& workload, const JobTerms& terms) {
  const Job job(workload, model.devices());
  Timeline timeline = {workload, forecast(model, job, terms).step_sec, {}, {}};
  JobVariants variants(model);
  Drawing drawing;
  bool all = false, is_pipeline = false;
  if (is_on_one_device(workload)) {
    const RankKernels own = kernels_of(variants, job.with(on_one_device(workload)));
    all = OneDevice(drawing, own).draw();
  } else {
    const PlacedJob placed = variants.placed(job);
    const RankKernels own = kernels_of(variants, placed.rank);
    all = SeveralDevices(drawing, placed, own).draw();
    timeline.simplified.emplace_back("collectives of a pass are one, behind it");
    timeline.simplified.emplace_back("waiting for the host is part of what is computed");
    is_pipeline = placed.world.layout.pp > 1;
    if (is_pipeline) timeline.simplified.emplace_back("all stages take as long as the fullest");
  }
  if (!all) {
    timeline.simplified.emplace_back(is_pipeline ? "kernels are not drawn"
                                                 : "kernels are drawn for the first micro-batch alone");
  }
  timeline.events = std::move(drawing).ending_at(timeline.step_sec.p50);
  return timeline;
}

std::string trace_json(const Timeline& timeline) {
  constexpr double per_sec = 1e6;
  nlohmann::json events = nlohmann::json::array();
  std::map<std::int64_t, std::set<Lane>> lanes;  // by stage
  for (const TimelineEvent& event : timeline.events) {
    nlohmann::json one = {{"name", event.name},         {"ph", "X"},          {"ts", event.begin_sec * per_sec},
                          {"dur", event.sec * per_sec}, {"pid", event.stage}, {"tid", static_cast<int>(event.lane)}};
    if (!event.layer.empty()) one["args"]["layer"] = event.layer;
    if (event.bytes > 0) one["args"].update({{"flops", event.flops}, {"bytes", event.bytes}});
    events.push_back(std::move(one));
    lanes[event.stage].insert(event.lane);
  }
  const auto name = [&](const char* what, std::int64_t stage, int lane, std::string text) {
    events.push_back(
        {{"name", what}, {"ph", "M"}, {"pid", stage}, {"tid", lane}, {"args", {{"name", std::move(text)}}}});
  };
  const bool is_pipeline = timeline.workload.parallel.pp > 1;
  for (const auto& [stage, of_stage] : lanes) {
    name("process_name", stage, 0, is_pipeline ? fmt::format("stage {}", stage) : "device");
    for (const Lane lane : of_stage) name("thread_name", stage, static_cast<int>(lane), std::string(to_string(lane)));
  }
  return dumped(nlohmann::json{{"traceEvents", std::move(events)},
                               {"displayTimeUnit", "ms"},
                               {"otherData",
                                {{"workload", timeline.workload.key()},
                                 {"step_sec", to_json(timeline.step_sec)},
                                 {"simplified", timeline.simplified}}}});
}

}  // namespace perfpred
