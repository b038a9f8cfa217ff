// SPDX-License-Identifier: Apache-2.0
#include "model/ops/op_prior.h"

#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "optime/hardware.h"
#include "optime/op_model_state.h"
#include "optime/step_kernels.h"
#include "statistics/estimate.h"
#include "step/epoch_steps.h"
#include "step/kept_steps.h"
#include "step/parts_needed.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

// Length scales of the features: the distance over which errors of the op model were found to be similar
// (docs/notes/optime.md, Runs that correct the op model). That of the intensity's logarithm is 1.
constexpr double batch_doublings = 3, log_flops_scale = 3, log_op_flops_scale = 2, share_scale = 0.3;

OpFeatures features_of(const std::vector<StepKernel>& kernels, std::int64_t batch_size) {
  double flops = 0, bytes = 0;
  std::array<double, step_groups> moved{};
  for (const StepKernel& kernel : kernels) {
    flops += kernel.flops;
    bytes += kernel.bytes;
    moved[static_cast<std::size_t>(kernel.group)] += kernel.bytes;
  }
  const auto share = [&](std::initializer_list<StepGroup> groups) {
    double sum = 0;
    for (const StepGroup group : groups) sum += moved[static_cast<std::size_t>(group)];
    return bytes > 0 ? sum / bytes / share_scale : 0;
  };
  const double batch = static_cast<double>(batch_size), count = static_cast<double>(kernels.size());
  flops = std::max(flops, 1.0);
  OpFeatures x;
  x[OpFeature::log_batch] = std::log2(batch) / batch_doublings;
  x[OpFeature::log_flops] = std::log(flops / batch) / log_flops_scale;
  x[OpFeature::log_intensity] = std::log(flops / std::max(bytes, 1.0));
  x[OpFeature::log_op_flops] = std::log(flops / std::max(count, 1.0)) / log_op_flops_scale;
  x[OpFeature::convolution] = share({StepGroup::conv_forward, StepGroup::conv_input, StepGroup::conv_weight});
  x[OpFeature::depthwise] =
      share({StepGroup::depthwise_forward, StepGroup::depthwise_input, StepGroup::depthwise_weight});
  x[OpFeature::batch_norm] = share({StepGroup::batch_norm});
  x[OpFeature::elementwise] = share({StepGroup::elementwise});
  return x;
}

/// Rescales a step timed on all cores to another thread count, which nobody measured: the geometric mean of "no change"
/// and "proportional", with an interval that covers both. One of two cores took 1.02 to 1.70 times as long for five
/// networks (docs/notes/optime.md, A CPU that the standard model has not seen).
/// @param share  threads a core
void use_threads(Estimate& step, double share) {
  const double log_middle = std::log(std::max(1.0, 1 / share)) / 2;
  step.scale(log_middle);
  step.widths.widen_to(std::max(foreign_half_width, std::hypot(step.widths.total(), log_middle)));
  step.rests_on = std::max(step.rests_on, Provenance::family);
}

/// The workload whose step is the same kernels in a row, dispatched alike, without what is a factor of its time.
Workload as_executed(Workload workload) {
  workload.software = compiler_of(workload) == Compiler::xla ? Software::xla : Software::pytorch;
  workload.loader = Loader::none;
  workload.train_images = 1;
  return workload;
}

StepQuestion question_of(const Workload& executed, const ExecutedStep& step, const Device& device) {
  const StepConditions how = conditions_of(executed);
  return {step,
          device,
          executed.precision,
          executed.cuda_graph,
          how,
          network_key(std::string(executed.network.family()), executed.input.back(), how)};
}

/// The device of a job, with its rates. @throws InputError as OpPrior::epoch()
const Device& rated_device(const Job& job) {
  job.workload().validate();
  if (job.workload().device == "unknown") throw InputError("device is missing");
  const Device& device = job.device().rated();
  check_device(job.workload(), job.device());
  return device;
}

}  // namespace

bool knows_rates(const Workload& workload, const ResolvedDevice& resolved) {
  if (resolved.origin != DeviceOrigin::row || workload.precision == Precision::unknown) return false;
  const Device& device = *resolved.device;
  if (device.kind == DeviceKind::cpu ? workload.cuda_graph : workload.threads.has_value()) return false;
  return device.matrix_flops(computed_precision(device, workload.precision)) && device.mem_bw_gbs;
}

void check_device(const Workload& workload, const ResolvedDevice& device) {
  if (device.device == nullptr) return;
  if (workload.threads && device.device->kind != DeviceKind::cpu)
    throw InputError("threads are given, but the device is not a CPU");
  if (workload.cuda_graph && device.device->kind == DeviceKind::cpu) throw InputError("a CPU has no CUDA graphs");
}

DeviceCatalogue OpPrior::with_own_devices(DeviceCatalogue devices) const {
  if (is_standard()) return devices;  // it has those of the catalogue
  for (const Device& own : model().devices()) {
    const DeviceOrigin known = devices.resolve(own.name).origin;
    if (known == DeviceOrigin::unknown || known == DeviceOrigin::this_cpu) devices.add(own);
  }
  return devices;
}

OpStep OpPrior::answer(const Workload& workload, const Device& device, PredictedSteps& known) const {
  const Workload executed = as_executed(workload);
  auto found = known.steps.find(executed);
  if (found == known.steps.end()) {
    const auto step = executed_step(executed, device.kind);
    const StepAnswer answer = OpModelAccess::predict(model(), question_of(executed, *step, device));
    const MachineEffects& slopes = answer.slopes;
    found = known.steps
                .emplace(executed, OpStep{answer.time,
                                          features_of(answer.kernels, executed.batch_size),
                                          {slopes.compute, slopes.memory, slopes.host}})
                .first;
  }
  OpStep answer = found->second;
  const auto log_factor = [&](const Workload& of) {
    return OpModelAccess::state(model()).steps.of_conditions(words_of(conditions_of(of)));
  };
  answer.time.scale(log_factor(workload) - log_factor(executed));
  if (compiler_of(workload) == Compiler::none) return answer;
  // What a compiler cannot make faster it leaves as it is.
  Workload eager = workload;
  eager.compiled = false;
  eager.software = workload.software == Software::xla ? Software::tensorflow : Software::pytorch;
  const double of_eager = this->answer(eager, device, known).time.log_sec;
  if (of_eager < answer.time.log_sec) answer.time.scale(of_eager - answer.time.log_sec);
  return answer;
}

double OpPrior::steps_of(const Job& job, const Device& device, double step_sec, PredictedSteps& known) const {
  const EpochSteps steps = epoch_steps(job);
  if (steps.rest == 0 || steps.hide_the_last() || !job.program().has_smaller_steps()) return steps.by_samples();
  Workload last = job.workload();
  last.accumulate = parts_needed(steps.rest, last.batch_size);
  last.batch_size = parts_needed(steps.rest, last.accumulate);
  return static_cast<double>(steps.full) + answer(last, device, known).time.sec() / step_sec;
}

OpStep OpPrior::epoch(const Job& job, PredictedSteps& known) const {
  const Device& device = rated_device(job);
  const Workload& workload = job.workload();
  OpStep epoch = answer(workload, device, known);
  epoch.time.scale(std::log(steps_of(job, device, epoch.time.sec(), known)));
  if (workload.threads && device.sms && *workload.threads != *device.sms)
    use_threads(epoch.time, *workload.threads / *device.sms);
  return epoch;
}

std::vector<TimedKernel> OpPrior::kernels(const Job& job) const {
  const Device& device = rated_device(job);
  const Workload executed = as_executed(job.workload());
  const auto step = executed_step(executed, device.kind);
  return OpModelAccess::kernels(model(), question_of(executed, *step, device));
}

}  // namespace perfpred
