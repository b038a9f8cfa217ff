// SPDX-License-Identifier: Apache-2.0
#include "model/ops/op_view.h"

#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <algorithm>
#include <cmath>
#include <utility>

#include "model/lognormal.h"
#include "optime/hardware.h"
#include "optime/op_model_state.h"
#include "optime/step_kernels.h"
#include "step/epoch_steps.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

OpFeatures features_of(const OpGraph& step, std::int64_t batch_size) {
  double flops = 0, bytes = 0;
  std::array<double, step_groups> moved{};
  const std::vector<StepKernel> kernels = step_kernels(step);
  for (const StepKernel& kernel : kernels) {
    flops += kernel.flops;
    bytes += kernel.bytes;
    moved[static_cast<std::size_t>(kernel.group)] += kernel.bytes;
  }
  const auto share = [&](std::initializer_list<StepGroup> groups) {
    double sum = 0;
    for (const StepGroup group : groups) sum += moved[static_cast<std::size_t>(group)];
    return bytes > 0 ? sum / bytes / 0.3 : 0;
  };
  const double batch = static_cast<double>(batch_size), count = static_cast<double>(kernels.size());
  flops = std::max(flops, 1.0);
  OpFeatures x;
  x[OpFeature::log_batch] = std::log2(batch) / 3;
  x[OpFeature::log_flops] = std::log(flops / batch) / 3;
  x[OpFeature::log_intensity] = std::log(flops / std::max(bytes, 1.0));
  x[OpFeature::log_op_flops] = std::log(flops / std::max(count, 1.0)) / 2;
  x[OpFeature::convolution] = share({StepGroup::conv_forward, StepGroup::conv_input, StepGroup::conv_weight});
  x[OpFeature::depthwise] =
      share({StepGroup::depthwise_forward, StepGroup::depthwise_input, StepGroup::depthwise_weight});
  x[OpFeature::batch_norm] = share({StepGroup::batch_norm});
  x[OpFeature::elementwise] = share({StepGroup::elementwise});
  return x;
}

/// @throws InputError for a field that a device of this kind cannot have
void check_kind(const Workload& workload, const Device& device) {
  if (workload.threads && device.kind != DeviceKind::cpu)
    throw InputError("threads are given, but the device is not a CPU");
  if (workload.cuda_graph && device.kind == DeviceKind::cpu) throw InputError("a CPU has no CUDA graphs");
}

/// The step of all cores becomes that of fewer or more threads, which nobody measured: in the middle between no change
/// and in proportion, with an interval for both. One of two cores took 1.02 to 1.70 times as long for five networks.
/// @param share  threads a core
void use_threads(StepTime& step, double share) {
  const double middle = std::sqrt(std::max(1.0, 1 / share));
  const double all_cores = half_width(step.sec);
  scale(step, middle);
  step.sec = widened(step.sec, std::max(foreign_half_width, std::hypot(all_cores, std::log(middle))));
  step.provenance = std::max(step.provenance, Provenance::family);
}

}  // namespace

double OpView::log_sec() const { return std::log(step.sec.p50 * steps); }

double OpView::deviation() const { return log_deviation(step.sec); }

OpPrior::OpPrior(std::shared_ptr<const OpTimeModel> model, DeviceCatalogue devices)
    : model_(std::move(model)), devices_(std::move(devices)) {
  if (!model_) model_ = std::shared_ptr<const OpTimeModel>(std::shared_ptr<void>(), &OpTimeModel::standard());
  for (const Device& device : model_->devices()) {
    if (devices_.candidates(device.name).empty()) devices_.add(device);
  }
}

bool OpPrior::knows_device(const Workload& workload) const {
  const std::vector<const Device*> named = devices_.candidates(workload.device);
  if (named.size() != 1 || workload.precision == Precision::unknown) return false;
  const Device& device = *named.front();
  if (device.kind == DeviceKind::cpu ? workload.cuda_graph : workload.threads.has_value()) return false;
  return device.matrix_flops(computed_precision(device, workload.precision)) && device.mem_bw_gbs;
}

void OpPrior::check_device(const Workload& workload) const {
  const std::vector<const Device*> named = devices_.candidates(workload.device);
  if (named.size() == 1) check_kind(workload, *named.front());
}

StepTime OpPrior::time_of(const Workload& workload, const OpGraph& step, const Device& device,
                          MachineEffects* slopes) const {
  return OpModelAccess::predict(*model_, step, device, workload.precision, workload.cuda_graph,
                                network_key(workload.network.family(), workload.input.back()), slopes);
}

double OpPrior::steps_of(const Workload& workload, const Device& device, double step_sec) const {
  const EpochSteps steps = epoch_steps(workload);
  if (steps.rest == 0 || steps.hide_the_last() || is_captured_step(workload.network)) return steps.by_samples();
  Workload last = workload;
  last.batch_size = steps.rest;
  return static_cast<double>(steps.full) + time_of(last, last.graph(), device, nullptr).sec.p50 / step_sec;
}

OpView OpPrior::view(const Workload& workload, const OpGraph* step) const {
  workload.validate();
  if (workload.device == "unknown") throw InputError("device is missing");
  const Device device = devices_.find_measured(workload.device);
  check_kind(workload, device);
  std::optional<OpGraph> made;
  if (step == nullptr) step = &made.emplace(workload.graph());
  OpView view;
  MachineEffects slopes;
  view.step = time_of(workload, *step, device, &slopes);
  view.steps = steps_of(workload, device, view.step.sec.p50);
  if (workload.threads && device.sms && *workload.threads != *device.sms)
    use_threads(view.step, *workload.threads / *device.sms);
  view.slopes = {slopes.compute, slopes.memory, slopes.host};
  view.features = features_of(*step, workload.batch_size);
  return view;
}

std::vector<TimeTerm> breakdown_of(const OpView& view, double sec) {
  const StepTime& step = view.step;
  const double scale = sec / step.sec.p50;
  std::vector<TimeTerm> terms;
  double rest = sec;
  if (const double waiting = step.sec.p50 - step.device_sec; waiting > 0) {
    terms.push_back({"host", waiting * scale});
    rest -= terms.back().sec;
  }
  for (const TimeTerm& term : step.costliest) {
    terms.push_back({term.op, term.sec * scale});
    rest -= terms.back().sec;
  }
  if (rest > 1e-9 * sec) terms.push_back({"other operators", rest});
  return terms;
}

}  // namespace perfpred
