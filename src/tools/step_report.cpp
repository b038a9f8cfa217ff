// SPDX-License-Identifier: Apache-2.0
#include "tools/step_report.h"

#include <perfpred/device.h>
#include <perfpred/op_time_model.h>
#include <perfpred/roofline.h>

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

#include "model/job_forecast.h"
#include "optime/op_model_state.h"
#include "optime/step_bound.h"
#include "optime/step_conditions.h"
#include "step/kept_steps.h"
#include "text/files.h"
#include "tools/complexity_tables.h"

namespace perfpred {
namespace {

std::string shapes(const OpGraph& step, std::span<const TensorId> tensors) {
  std::string text;
  for (const TensorId id : tensors) {
    if (!text.empty()) text += ' ';
    text += id == no_tensor ? "-" : step.shape(id).rank() == 0 ? "1" : step.shape(id).text();
  }
  return text;
}

/// @param precision  of a module that was traced; a training has its own
JobLimits limits_of(const NetworkSteps& network, const std::optional<Workload>& training, const ExecutedStep& step,
                    const Device& device, Precision precision) {
  if (training) return job_limits(*training, device, 0, true);
  JobLimits limits;
  const std::optional<TrainingJob> job = TrainingJob::on(device, precision);
  if (job) limits.memory = estimate_memory(step, *job);
  limits.judge(device, 0, [&] { return largest_batch(network.step, *job, device); });
  return limits;
}

DeviceAnswer ask(const Device& device, const JobLimits& job, const ExecutedStep& step,
                 const std::optional<Workload>& training, Precision precision) {
  DeviceAnswer answer;
  answer.name = device.name;
  if (const auto limits = limits_if_known(device, step, precision)) {
    const StepConditions how = training ? conditions_of(*training) : StepConditions();
    answer.bound = step_bound(OpTimeModel::standard(), *limits, {step, device, precision, false, how, {}});
    answer.time_at_peak_sec = limits->time_sec;
  }
  answer.verdict = job.verdict;
  if (job.largest_batch != 0) answer.largest_batch = job.largest_batch;
  answer.largest_batch_unknown = job.largest_batch_unknown;
  return answer;
}

}  // namespace

std::map<std::string, OpTotals> StepReport::kinds() const {
  std::map<std::string, OpTotals> kinds;
  for (const Op& op : step.graph().ops()) kinds[std::string(step.graph().name(op))].add(op, step.graph().times(op));
  return kinds;
}

std::vector<LayerSummary> StepReport::layers() const {
  const OpGraph& graph = step.graph();
  std::vector<LayerSummary> layers;
  std::map<std::string_view, std::size_t> numbers;
  std::vector<bool> counted(graph.tensors().size());  // parameters, by storage
  for (const Op& op : graph.ops()) {
    const std::string_view name = graph.layer_name(op);
    const auto [number, is_new] = numbers.try_emplace(name, layers.size());
    if (is_new) layers.push_back({std::string(name), {}, 0, {}, {}});
    LayerSummary& layer = layers[number->second];
    layer.all.add(op, graph.times(op));
    for (const TensorId id : graph.inputs(op)) {
      if (id == no_tensor) continue;
      const TensorId owner = graph.tensors()[id].storage;
      if (graph.tensors()[owner].role != TensorRole::parameter || counted[owner]) continue;
      counted[owner] = true;
      layer.params += graph.numel(owner);
    }
    if (op.phase != Phase::forward) continue;
    layer.forward.add(op, graph.times(op));
    const auto outputs = graph.outputs(op);
    if (!outputs.empty() && outputs[0] != no_tensor) layer.output = graph.shape(outputs[0]).text();
  }
  return layers;
}

std::map<std::string, std::int64_t> StepReport::unknown_ops() const {
  std::map<std::string, std::int64_t> unknown;
  for (const Op& op : step.graph().ops()) {
    if (op.kind == OpKind::unknown) ++unknown[std::string(step.graph().name(op))];
  }
  return unknown;
}

StepReport report_step(const NetworkSteps& network, std::int64_t batch_size, Precision precision,
                       const std::optional<Device>& device) {
  const DeviceKind kind = device ? device->kind : DeviceKind::other;
  std::optional<Workload> training = network.training;
  if (training) {
    training->batch_size = batch_size;
    precision = training->precision;
  }
  StepReport report{network.network,
                    batch_size,
                    training ? *executed_step(*training, kind) : execute(network.step(batch_size), kind),
                    {},
                    {}};
  if (!device) {
    report.memory = estimate_memory(report.step, TrainingJob());
    return report;
  }
  const JobLimits limits = limits_of(network, training, report.step, *device, precision);
  report.memory = limits.memory;
  report.device = ask(*device, limits, report.step, training, precision);
  return report;
}

void write_ops(const OpGraph& step, const std::string& path) {
  AtomicFile file(path);
  file.write("index,phase,op,layer,type,inputs,outputs,flops,bytes_read,bytes_written\n");
  for (std::size_t i = 0; i < step.ops().size(); ++i) {
    const Op& op = step.ops()[i];
    file.write(fmt::format("{},{},{},{},{},{},{},{:.0f},{},{}\n", i, to_string(op.phase), step.name(op),
                           step.layer_name(op), to_string(op.type), shapes(step, step.inputs(op)),
                           shapes(step, step.outputs(op)), op.flops, op.bytes_read, op.bytes_written));
  }
  file.commit();
}

}  // namespace perfpred
