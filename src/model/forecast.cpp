// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/forecast.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>
#include <perfpred/roofline.h>
#include <perfpred/throughput_deriver.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <utility>

#include "model/job_forecast.h"
#include "model/unstated.h"
#include "optime/step_bound.h"
#include "parallel/placed_memory.h"
#include "statistics/confidence.h"
#include "step/epoch_steps.h"
#include "step/kept_steps.h"
#include "workload/workload_columns.h"
#include "workload/world.h"

namespace perfpred {
namespace {

/// Degrees of freedom of Student's distribution, which the logarithm of a time is taken to have: of 527 measured steps
/// on devices that a fit had left out, 2.5 % took longer than its 99 % quantile and none longer than that of 99.9 %;
/// 4.4 and 2.5 % exceed the normal distribution's (docs/predict.md, A time limit).
constexpr double tail_freedom = 4;

void check(const JobTerms& terms) {
  const auto check_term = [](const char* name, std::optional<double> value, bool may_be_zero) {
    if (!value || (std::isfinite(*value) && (*value > 0 || (may_be_zero && *value == 0)))) return;
    throw InputError(fmt::format("{} {} is not {}", name, *value, may_be_zero ? "a number >= 0" : "positive"));
  };
  check_term("epochs", terms.epochs, false);
  check_term("startup_sec", terms.startup_sec, true);
  check_term("checkpoint_sec", terms.checkpoint_sec, true);
  check_term("checkpoint_every", terms.checkpoint_every, false);
  if (terms.evaluation < 0) throw InputError("evaluation is negative");
  check_term("price_per_hour", terms.price_per_hour, true);
  check_term("budget_sec", terms.budget_sec, false);
  for (const double q : terms.quantiles) (void)quantile(Quantiles{1, 1, 1}, q);
  if (terms.reserved_by_others < 0) throw InputError("reserved_by_others is negative");
}

Quantiles scaled(const Quantiles& q, double factor, double offset = 0) {
  return {q.p05 * factor + offset, q.p50 * factor + offset, q.p95 * factor + offset};
}

/// Weight traffic counts as memory; feeding the images as data. An op model tells only whether the device waits for the
/// host for most of the time.
std::optional<Bound> bound_of(const std::vector<TimeTerm>& breakdown, double epoch_sec) {
  std::array<std::pair<Bound, double>, 4> parts = {
      {{Bound::compute, 0.0}, {Bound::memory, 0.0}, {Bound::launch, 0.0}, {Bound::data, 0.0}}};
  for (const TimeTerm& term : breakdown) {
    if (term.op == "compute") parts[0].second += term.sec;
    if (term.op == "memory" || term.op == "weights") parts[1].second += term.sec;
    if (term.op == "launch") parts[2].second += term.sec;
    if (term.op == "host" && is_launch_bound(term.sec, epoch_sec)) return Bound::launch;
    if (term.op == "input") parts[3].second += term.sec;
  }
  const auto largest =
      std::max_element(parts.begin(), parts.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
  return largest->second > 0 ? std::optional(largest->first) : std::nullopt;
}

/// A step of `batch_size` samples, from an epoch whose last step has fewer, or from an epoch without that one; of an
/// epoch that has fewer samples, its only step. Of a captured step no smaller one is known: its last one is a share.
/// @param predict  the epoch of a job on the same device
Quantiles step_of(const Job& job, const Quantiles& epoch, const std::function<Quantiles(const Job&)>& predict) {
  const EpochSteps steps = epoch_steps(job);
  const bool by_share = !job.program().has_smaller_steps();
  if (steps.full == 0 && !by_share) return epoch;
  if (steps.rest == 0 || steps.hide_the_last() || by_share) return scaled(epoch, 1 / steps.by_samples());
  Workload whole = job.workload();
  whole.train_images = steps.full * steps.samples;
  return scaled(predict(job.with(std::move(whole))), 1 / static_cast<double>(steps.full));
}

/// Of the samples of a step those that step_of() times.
double share_of_step(const Job& job) {
  const EpochSteps steps = epoch_steps(job);
  return steps.full > 0 || !job.program().has_smaller_steps() ? 1 : steps.by_samples();
}

/// With an epoch of at least a step, where nobody stated one.
Job with_a_step(const Job& job) {
  if (job.workload().knows_epoch()) return job;
  Workload workload = job.workload();
  workload.validate();
  const std::int64_t samples = std::max<std::int64_t>(workload.train_images, samples_per_step(job));
  workload.train_images = EpochSamples::unstated(samples);
  return job.with(std::move(workload));
}

/// Nobody stated an epoch, which has no time then: samples a second and parts are those of a step.
void leave_to_steps(Forecast& answer, const Job& job) {
  const double share = answer.step_sec.p50 / answer.prediction.time_sec.p50;
  for (TimeTerm& term : answer.breakdown) term.sec *= share;
  answer.images_per_sec = ThroughputDeriver(samples_per_step(job)).derive(answer.step_sec);
  for (QuantileOfJob& one : answer.quantiles) one.total_sec = std::numeric_limits<double>::quiet_NaN();
  answer.prediction.time_sec = answer.total_sec = of_known_epoch(job.workload(), answer.prediction.time_sec);
}

/// Seconds of a job of so many epochs. What comes after an epoch comes after one that is broken off, too.
double job_sec(const JobTerms& terms, double epochs, double epoch_sec, double evaluation_sec) {
  return epoch_sec * epochs + std::ceil(epochs) * evaluation_sec +
         std::ceil(epochs / terms.checkpoint_every) * terms.checkpoint_sec + terms.startup_sec;
}

/// Whole epochs of a job that takes no longer than the budget, 0 if it has no time for one.
double epochs_within(const JobTerms& terms, double budget_sec, double epoch_sec, double evaluation_sec) {
  const double each = epoch_sec + evaluation_sec;
  double most = std::max(0.0, std::floor((budget_sec - terms.startup_sec) / each));
  if (terms.checkpoint_sec == 0) return most;
  double least = 0;                               // fits, as `most + 1` does not
  for (int i = 0; i < 64 && least < most; ++i) {  // halves of a whole number
    const double middle = least + std::ceil((most - least) / 2);
    const bool fits = job_sec(terms, middle, epoch_sec, evaluation_sec) <= budget_sec;
    (fits ? least : most) = fits ? middle : middle - 1;
  }
  return least;
}

/// Seconds of a pass over the samples that the network is judged on after an epoch.
/// @throws InputError for a job that has no epochs of training
Quantiles evaluation_of(const Job& job, const JobTerms& terms, JobVariants& variants, const Unstated& unstated) {
  if (job.workload().phases == Phases::forward) throw InputError("evaluation is for a job that trains");
  Workload judged = job.workload();
  judged.phases = Phases::forward;
  judged.train_images = terms.evaluation;
  Estimate time = variants.estimate(job.with(std::move(judged))).time;
  unstated.widen(time);
  return time.quantiles();
}

/// What follows from an epoch's time.
void add_totals(Forecast& job, const Workload& workload, const JobTerms& terms) {
  const Quantiles& epoch = job.prediction.time_sec;
  job.images_per_sec = ThroughputDeriver(workload.train_images).derive(epoch);
  const Quantiles judging = job.evaluation_sec.value_or(Quantiles{0, 0, 0});
  const auto total = [&](double epoch_sec, double evaluation_sec) {
    return job_sec(terms, terms.epochs, epoch_sec, evaluation_sec);
  };
  job.total_sec = {total(epoch.p05, judging.p05), total(epoch.p50, judging.p50), total(epoch.p95, judging.p95)};
  if (!std::isfinite(job.total_sec.p95)) throw InputError(fmt::format("epochs {} are too many", terms.epochs));
  if (terms.price_per_hour) {
    const std::int64_t devices = world_of(workload).placement.devices();
    job.price = scaled(job.total_sec, *terms.price_per_hour * static_cast<double>(devices) / 3600);
    if (!std::isfinite(job.price->p95))
      throw InputError(fmt::format("price_per_hour {} is too large", *terms.price_per_hour));
  }
  if (terms.budget_sec) {
    const auto within = [&](double epoch_sec, double evaluation_sec) {
      return epochs_within(terms, *terms.budget_sec, epoch_sec, evaluation_sec);
    };
    job.epochs_in_budget =
        Quantiles{within(epoch.p95, judging.p95), within(epoch.p50, judging.p50), within(epoch.p05, judging.p05)};
    if (!std::isfinite(job.epochs_in_budget->p95))
      throw InputError(fmt::format("budget_sec {} is too large", *terms.budget_sec));
  }
}

/// Seconds that the device takes at its peaks for a step's convolutions and products, each in the type of its operands.
std::optional<double> products_at_peak(const OpGraph& step, const Device& device, Precision precision) {
  double sec = 0;
  for (const Op& op : step.ops()) {
    if (!is_conv_or_matmul(op.kind)) continue;
    const Precision own = product_precision(op.type, precision);
    const std::optional<double> peak =
        is_convolution(op.kind) ? device.convolution_flops(own) : device.matrix_flops(own);
    if (!peak) return std::nullopt;
    sec += (op.flops - op.cell_flops) * static_cast<double>(step.times(op)) / *peak;
  }
  return sec;
}

/// The step of a replica without what it computes a second time, which utilisation does not count.
std::shared_ptr<const ExecutedStep> without_checkpoints(Workload workload) {
  workload.checkpoint = 0;
  return executed_step(on_one_device(std::move(workload)), DeviceKind::other);
}

/// Devices that train one replica.
double ranks_of_replica(const Workload& workload) {
  if (is_on_one_device(workload)) return 1;
  const World world = world_of(workload);
  const std::int64_t ranks = world.placement.devices() / world.layout.dp;
  return static_cast<double>(ranks);
}

/// Memory, utilisation, and the bound where the breakdown did not say it.
void add_limits(Forecast& answer, const OpGraph& neutral, const Device& device, const Job& job, const JobTerms& terms) {
  const Workload& workload = job.workload();
  const JobLimits limits = job_limits(workload, device, terms.reserved_by_others, terms.find_largest_batch);
  answer.memory = limits.memory;
  answer.usable_bytes = limits.usable_bytes;
  answer.verdict = limits.verdict;
  answer.largest_batch = limits.largest_batch;
  answer.rank = limits.rank;
  const auto at_peak_of = [&](const OpGraph& graph) { return products_at_peak(graph, device, workload.precision); };
  const std::optional<double> at_peak =
      workload.checkpoint != 0 ? at_peak_of(without_checkpoints(workload)->graph()) : at_peak_of(neutral);
  if (at_peak) answer.mfu = *at_peak * share_of_step(job) / ranks_of_replica(workload) / answer.step_sec.p50;
  if (answer.bound) return;
  const std::shared_ptr<const ExecutedStep> step = executed_step(workload, device.kind);
  if (const auto roofline = limits_if_known(device, *step, workload.precision)) answer.bound = roofline->bound;
}

}  // namespace

void JobLimits::judge(const Device& device, std::int64_t reserved_by_others,
                      const std::function<std::optional<std::int64_t>()>& largest) {
  if (!memory) {
    largest_batch_unknown = "how the device allocates memory is unknown";
    return;
  }
  verdict = memory->verdict(device, reserved_by_others);
  if (!verdict) {
    largest_batch_unknown = "the device's memory size is unknown";
    return;
  }
  usable_bytes = std::max<std::int64_t>(*device.usable_bytes() - reserved_by_others, 0);
  if (!largest) return;
  try {
    largest_batch = largest().value_or(0);
  } catch (const InputError& error) {  // a step that was captured at one batch size says so
    largest_batch_unknown = error.what();
  }
}

JobLimits job_limits(const Workload& workload, const Device& device, std::int64_t reserved_by_others,
                     bool find_largest_batch) {
  JobLimits limits;
  std::function<std::optional<std::int64_t>()> largest;
  if (is_on_one_device(workload)) {
    if (const std::optional<TrainingJob> training = TrainingJob::of(workload, device))
      limits.memory = estimate_memory(*executed_step(workload, device.kind), *training);
    if (find_largest_batch) largest = [&] { return largest_batch(workload, device, reserved_by_others); };
  } else if (const std::optional<PlacedMemory> placed = MemoryOfPlaced(device).of(workload)) {
    limits.memory = placed->memory;
    limits.rank = {placed->stage, placed->tp, placed->ep};
  }
  limits.judge(device, reserved_by_others, largest);
  return limits;
}

double quantile(const Quantiles& q, double probability) {
  if (!(probability > 0 && probability < 1))
    throw InputError(fmt::format("quantile {} is not above 0 and below 1", probability));
  if (probability == 0.5) return q.p50;
  const bool below = probability < 0.5;
  if (probability == (below ? 0.05 : 0.95)) return below ? q.p05 : q.p95;
  const double half_width = below ? std::log(q.p50 / q.p05) : std::log(q.p95 / q.p50);
  const double half_widths =
      student_quantile(normal_quantile(probability), tail_freedom) / student_quantile(z90, tail_freedom);
  const double value = q.p50 * std::exp(half_width * half_widths);
  return std::clamp(value, std::numeric_limits<double>::min(), std::numeric_limits<double>::max());
}

Forecast forecast(const TimeRegressor& model, const Workload& workload, const JobTerms& terms) {
  return forecast(model, Job(workload, model.devices()), terms);
}

Forecast forecast(const TimeRegressor& model, const Job& asked, const JobTerms& terms) {
  check(terms);
  const Job job = with_a_step(asked);
  const Workload& workload = job.workload();
  // Runs answer where the step is not known; whoever asks an op model is told that it is missing.
  const std::shared_ptr<const ExecutedStep> written = job.program().has_step()
                                                          ? executed_step(on_one_device(workload), DeviceKind::other)
                                                          : std::shared_ptr<const ExecutedStep>();
  JobVariants variants(model);
  JobEstimate epoch = variants.explain(job);
  const Unstated unstated(variants, job, epoch.time, terms.unstated);
  unstated.widen(epoch.time);
  Forecast answer;
  answer.prediction = epoch.prediction();
  answer.scaling = epoch.scaling;
  answer.narrow_by = unstated.narrow_by(epoch.time.widths.total());
  answer.step_sec = step_of(job, answer.prediction.time_sec, [&](const Job& whole) {
    Estimate time = variants.estimate(whole).time;
    unstated.widen(time);
    return time.quantiles();
  });
  if (terms.evaluation > 0) answer.evaluation_sec = evaluation_of(job, terms, variants, unstated);
  for (const double q : terms.quantiles) {
    const double epoch_sec = quantile(answer.prediction.time_sec, q);
    const double evaluation_sec = answer.evaluation_sec ? quantile(*answer.evaluation_sec, q) : 0;
    answer.quantiles.push_back(
        {q, quantile(answer.step_sec, q), job_sec(terms, terms.epochs, epoch_sec, evaluation_sec)});
  }
  answer.breakdown = std::move(epoch.time.parts);
  answer.bound = bound_of(answer.breakdown, answer.prediction.time_sec.p50);
  if (workload.knows_epoch()) {
    add_totals(answer, workload, terms);
  } else {
    leave_to_steps(answer, job);
  }
  if (const std::int64_t positions = job.program().positions(workload); positions > 0) {
    answer.tokens_per_sec = scaled(answer.images_per_sec, static_cast<double>(positions));
  }
  if (!written) return answer;

  const OpGraph& step = written->graph();
  const std::int64_t unknown = step.totals(OpKind::unknown).bytes();
  if (unknown > 0) answer.unknown_bytes = static_cast<double>(unknown) / static_cast<double>(step.totals().bytes());
  Device on;
  on.kind = job.device_kind();
  if (job.device().origin == DeviceOrigin::this_cpu && answer.prediction.provenance == Provenance::runs) {
    on = Device::this_cpu();  // runs answered: whether its rates are known makes no difference
  } else if (job.device().device != nullptr) {
    on = *job.device().device;
  }
  add_limits(answer, step, on, job, terms);
  return answer;
}

}  // namespace perfpred
