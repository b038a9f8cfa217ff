// SPDX-License-Identifier: Apache-2.0
#include "tools/step_report.h"

#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/op_time_model.h>
#include <perfpred/roofline.h>

#include <fmt/format.h>

#include <span>
#include <string_view>
#include <utility>

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

DeviceAnswer ask(const Device& device, const std::optional<TrainingJob>& job, const StepReport& report,
                 const NetworkSteps& network, Precision precision) {
  DeviceAnswer answer;
  answer.name = device.name;
  if (const auto limits = limits_if_known(device, report.step, precision)) {
    const StepConditions how = network.training ? conditions_of(*network.training) : StepConditions();
    answer.bound = step_bound(OpTimeModel::standard(), *limits, {report.step, device, precision, false, how, {}});
    answer.time_at_peak_sec = limits->time_sec;
  }
  if (!job) {
    answer.largest_batch_unknown = "how the device allocates memory is unknown";
    return answer;
  }
  answer.verdict = report.memory->verdict(device);
  if (!answer.verdict) {
    answer.largest_batch_unknown = "the device's memory size is unknown";
    return answer;
  }
  try {
    answer.largest_batch =
        network.training ? largest_batch(*network.training, device) : largest_batch(network.step, *job, device);
  } catch (const InputError& error) {  // a file that was traced may hold its batch size
    answer.largest_batch_unknown = error.what();
  }
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
  std::optional<TrainingJob> job = TrainingJob();
  if (device) job = training ? TrainingJob::of(*training, *device) : TrainingJob::on(*device, precision);
  if (job) report.memory = estimate_memory(report.step, *job);
  if (device) report.device = ask(*device, job, report, network, precision);
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
