// SPDX-License-Identifier: Apache-2.0
#include "torch/measure/step_measurement.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <nlohmann/json.hpp>

#include "statistics/confidence.h"
#include "statistics/quantiles.h"
#include "step/epoch_steps.h"
#include "torch/device/step_clock.h"

namespace perfpred {
namespace {

using Clock = std::chrono::steady_clock;
using nlohmann::ordered_json;

// A CPU's steps are slow and noisy: it needs longer for as many samples.
constexpr double cpu_step_sec = 15;
constexpr double gpu_step_sec = 3;
constexpr double eager_share_of_limit = 1.0 / 3;
constexpr double shown_error = 0.01;

/// Seconds of the last, smaller step, median of three after a first one. @param images  of this rank
double time_of_last_step(TrainingSession& session, c10::Device device, std::int64_t images) {
  constexpr int times = 3;
  const Batch whole = session.next();
  const Batch part{whole.inputs.narrow(0, 0, images), whole.targets.narrow(0, 0, images)};
  session.step().run(part);
  synchronize(device);
  StepClock clock(device);
  clock.mark();
  for (int i = 0; i < times; ++i) {
    session.step().run(part);
    clock.mark();
  }
  return median(clock.take(0));
}

/// Medians of the parts of ten steps; `data` is from the end of a step until the next batch is there.
std::vector<std::pair<std::string, double>> phase_times(TrainingSession& session, c10::Device device) {
  constexpr std::size_t steps = 10;
  constexpr std::array<const char*, 5> names = {"data", "forward", "loss", "backward", "optimizer"};
  StepClock clock(device);
  session.step().on_phase([&clock](Phase) { clock.mark(); });
  clock.mark();
  for (std::size_t i = 0; i < steps; ++i) {
    const Batch batch = session.next();
    clock.mark();
    session.step().run(batch);
  }
  session.step().on_phase(nullptr);
  const std::vector<double> taken = clock.take(0);
  std::vector<std::pair<std::string, double>> phases;
  for (std::size_t i = 0; i < names.size(); ++i) {
    std::vector<double> parts;
    for (std::size_t at = i; at < taken.size(); at += names.size()) parts.push_back(taken[at]);
    phases.emplace_back(names.at(i), median(std::move(parts)));
  }
  return phases;
}

/// What an epoch takes beyond its steps: the order of the images, the threads that load them, the first batch, reading
/// the metrics. The least of epochs of two steps: a stall only adds to it, and later runs use it again.
double epoch_overhead(TrainingSession& session, c10::Device device, double step_sec, int epochs) {
  constexpr int steps = 2;
  double least = HUGE_VAL;
  for (int epoch = 0; epoch < epochs; ++epoch) {
    synchronize(device);
    if (session.ranks() != nullptr) session.ranks()->meet();
    const auto begin = Clock::now();
    session.begin_epoch(static_cast<std::uint64_t>(epoch));
    int taken = 0;
    while (taken < steps && session.train_next()) ++taken;
    static_cast<void>(session.step().take_metrics());
    least = std::min(least, seconds_since(begin) - taken * step_sec);
  }
  return std::max(0.0, least);
}

/// Seconds of the last, smaller step of an epoch; 0 if there is none.
double last_step_time(TrainingSession& session, c10::Device device, const Workload& workload, const StepLabel& label) {
  const EpochSteps steps = epoch_steps(workload);
  if (steps.full == 0 || steps.rest == 0) return 0;
  // Where its time is hidden, cuDNN need not try its algorithms for this batch size, too.
  if (steps.hide_the_last() || workload.accumulate > 1)
    return label.mean * static_cast<double>(steps.rest) / static_cast<double>(steps.samples);
  const std::int64_t ranks = steps.samples / workload.batch_size;
  return time_of_last_step(session, device, (steps.rest + ranks - 1) / ranks);
}

/// The time of an epoch from its parts.
void set_epoch(StepMeasurement& measured, const Workload& workload) {
  const std::int64_t full = std::max<std::int64_t>(epoch_steps(workload).full, 1);
  const StepLabel& label = measured.timing.label;
  const double steps_sec = static_cast<double>(full) * label.mean;
  measured.epoch_sec = steps_sec + measured.last_step_sec + measured.overhead_sec;
  measured.epoch_rel_sem = label.mean_rel_sem * steps_sec / measured.epoch_sec;
}

double limit_sec(c10::Device device) { return device.is_cpu() ? cpu_step_sec : gpu_step_sec; }

/// What an epoch has beside full steps, and the parts of a step. All ranks take the same steps: rank 0 decides.
void measure_rest(StepMeasurement& measured, TrainingSession& session, const Workload& workload, c10::Device device,
                  std::optional<double> overhead_sec) {
  const auto of_first = [&](double value) {
    return session.ranks() == nullptr ? value : session.ranks()->of_first(value);
  };
  const double median_sec = measured.timing.label.median;
  const bool slow = 10 * of_first(median_sec) > limit_sec(device);
  if (!workload.cuda_graph && workload.accumulate == 1 && !slow) measured.phases = phase_times(session, device);
  measured.last_step_sec = last_step_time(session, device, workload, measured.timing.label);
  const bool is_known = of_first(overhead_sec ? 1 : 0) > 0;
  measured.overhead_sec =
      is_known ? overhead_sec.value_or(0) : epoch_overhead(session, device, median_sec, slow ? 2 : 3);
  for (const auto& bucket : session.step().buckets()) {
    std::int64_t& bytes = measured.bucket_bytes.emplace_back(0);
    for (const at::Tensor& parameter : bucket) bytes += static_cast<std::int64_t>(parameter.nbytes());
  }
}

}  // namespace

std::optional<StepMeasurement> measure_steps(TrainingSession& session, const Workload& workload, c10::Device device,
                                             MemoryPeak& peak, std::optional<double> overhead_sec,
                                             const std::function<bool()>& stop) {
  TrainingStep& step = session.step();
  Batch batch;
  const auto fetch = [&] { batch = session.next(); };
  const auto one_eagerly = [&] {
    step.run_eagerly(batch);
    return !stop();
  };
  const auto one = [&] {
    session.train(batch);
    return !stop();
  };
  StepMeasurement measured;
  StepSamplesOptions sampling;
  sampling.limit_sec = limit_sec(device);
  fetch();
  if (!one()) return std::nullopt;
  peak.restart();
  std::optional<double> eager_sec;
  if (workload.cuda_graph && workload.train_images >= workload.batch_size) {
    StepSamplesOptions before = sampling;
    before.limit_sec *= eager_share_of_limit;
    const auto eager = StepTimer(device, before).measure(one_eagerly, fetch);
    if (!eager) return std::nullopt;
    eager_sec = eager->label.median;
    while (!step.captured()) {
      fetch();
      if (!one()) return std::nullopt;
    }
  }
  const auto begin = Clock::now();
  const double waited_before = session.loader().waited_sec();
  auto timing = StepTimer(device, sampling, session.ranks()).measure(one, fetch);
  if (!timing) return std::nullopt;
  measured.sampling_sec = seconds_since(begin);
  measured.data_wait_share = (session.loader().waited_sec() - waited_before) / measured.sampling_sec;
  peak.stop();
  measured.timing = *std::move(timing);
  if (eager_sec) measured.graph_speedup = *eager_sec / measured.timing.label.median;
  measure_rest(measured, session, workload, device, overhead_sec);
  set_epoch(measured, workload);
  return measured;
}

std::string steps_json(const StepMeasurement& measured, double wall_sec) {
  const StepTiming& timing = measured.timing;
  const StepLabel& label = timing.label;
  ordered_json samples = ordered_json::array();
  ordered_json disturbed = ordered_json::array();
  for (const StepSample& sample : timing.samples) {
    samples.push_back(sample.sec * 1e3);
    disturbed.push_back(sample.disturbed ? 1 : 0);
  }
  ordered_json phases;
  for (const auto& [name, sec] : measured.phases) phases[name + "_sec"] = sec;
  ordered_json steps = {{"samples", label.samples},
                        {"warmup", label.warmup},
                        {"discarded", label.discarded},
                        {"mean_ms", label.mean * 1e3},
                        {"mean_rel_sem", label.mean_rel_sem},
                        {"median_ms", label.median * 1e3},
                        {"low_ms", label.low * 1e3},
                        {"high_ms", label.high * 1e3},
                        {"drift", label.drift},
                        {"level_change", label.change},
                        {"stopped_by", label.stopped_by},
                        {"sampling_sec", measured.sampling_sec},
                        {"wall_sec", wall_sec},
                        {"last_step_ms", measured.last_step_sec * 1e3},
                        {"epoch_overhead_sec", measured.overhead_sec},
                        {"data_wait_share", measured.data_wait_share},
                        {"data_bound", is_data_bound(measured.data_wait_share)},
                        {"bucket_bytes", measured.bucket_bytes},
                        {"phases", phases},
                        {"samples_ms", samples},
                        {"disturbed", disturbed}};
  return ordered_json{{"steps", steps}}.dump();
}

std::string note_of(const StepMeasurement& measured) {
  const StepTiming& timing = measured.timing;
  const StepLabel& label = timing.label;
  std::vector<std::string> flags;
  if (label.disturbed) flags.push_back(fmt::format("disturbed {:.0f} % of the samples", 100 * label.disturbed_share));
  if (timing.throttled) flags.emplace_back("throttled");
  if (timing.company) flags.emplace_back("company");
  const double half_width = z95 * measured.epoch_rel_sem;
  if (half_width > shown_error) flags.push_back(fmt::format("known to {:.1f} %", 100 * half_width));
  if (is_data_bound(measured.data_wait_share)) flags.emplace_back("data-bound");
  return fmt::format("{}", fmt::join(flags, "; "));
}

}  // namespace perfpred
