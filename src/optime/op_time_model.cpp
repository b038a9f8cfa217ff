// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>

#include <fmt/format.h>

#include <algorithm>
#include <memory>

#include "catalogue/device_table.h"
#include "optime/op_model_state.h"
#include "optime/step_prediction.h"
#include "text/files.h"
#include "text/json.h"

namespace perfpred {

struct OpTimeModel::Impl : LearnedModel {
  using LearnedModel::LearnedModel;
};

namespace {

/// Files call devices by many names; the catalogue's are what predictions are asked for.
void use_catalogue_names(OpModelState& state) {
  for (auto& model : state.kernels.classes) {
    if (!model) continue;
    std::map<std::string, KnownDevice> devices;
    for (auto& [name, device] : model->devices) {
      const auto [listed, is_new] = devices.emplace(canonical_device(name), std::move(device));
      if (is_new) continue;
      state.notes.push_back(fmt::format("{}: rows of {} are of {}, which has rows by another name; these count",
                                        formula(model->kind).name, name, listed->first));
    }
    model->devices = std::move(devices);
  }
}

/// Layers most of which waited for their host say less of a device's networks than steps of it: those answer.
void leave_waiting_to_steps(LayerGroups& table, const StepModel& steps) {
  const auto has_steps = [&](const RatesKey& key) {
    return std::any_of(steps.machines.begin(), steps.machines.end(), [&](const auto& machine) {
      return !machine.first.probe && machine.first.device == key.device && machine.first.precision == key.precision;
    });
  };
  std::erase_if(table.groups, [&](const LayerGroup& group) {
    if (!group.mostly_waited() || !has_steps(group.key)) return false;
    table.notes.push_back(fmt::format("layers on {} in {} are left to the steps measured there", group.key.device,
                                      to_string(group.key.precision)));
    return true;
  });
}

}  // namespace

OpTimeModel OpTimeModel::fit(const std::string& ops_dir, const std::vector<std::string>& steps,
                             const std::string& layers, const DeviceCatalogue& devices) {
  OpModelState state;
  if (ops_dir.empty() && layers.empty())
    throw InputError("an op model is fitted on operators or layers; none are given");
  if (!ops_dir.empty()) {
    const OpFolder folder = read_op_folder(ops_dir);
    state.kernels = KernelModels::fit(pointers_to(folder.rows), folder.gpus);
    state.notes = folder.skipped;
  }
  for (const auto& model : state.kernels.classes) {
    if (!model) continue;
    for (const std::string& device : model->set_aside) {
      state.notes.push_back(
          fmt::format("{}: rows of {} are set aside: far slower than its family", formula(model->kind).name, device));
    }
  }
  use_catalogue_names(state);
  if (!steps.empty()) {
    const StepTable table = read_step_tables(steps, devices);
    state.steps = StepModel::fit(pointers_to(table.rows));
    state.measured.devices = table.own_devices;
    for (const auto& [reason, count] : table.unscored) {
      state.notes.push_back(fmt::format("{}: {} rows left out: {}", fmt::join(steps, ", "), count, reason));
    }
  }
  if (!layers.empty()) {
    const std::vector<Device> of_steps = std::move(state.measured.devices);
    LayerGroups groups = read_layer_groups(layers, devices);
    leave_waiting_to_steps(groups, state.steps);
    state.measured = fit_layers(std::move(groups), state.steps.parameters);
    for (const Device& device : of_steps) keep_own(state.measured.devices, device);
    state.notes.insert(state.notes.end(), state.measured.notes.begin(), state.measured.notes.end());
  }
  return OpModelAccess::model(std::move(state));
}

const LearnedModel& OpModelAccess::learned(const OpTimeModel& model) { return *model.impl_; }

const OpModelState& OpModelAccess::state(const OpTimeModel& model) { return model.impl_->state; }

OpTimeModel OpModelAccess::model(OpModelState state) {
  return OpTimeModel(std::make_unique<OpTimeModel::Impl>(std::move(state)));
}

const OpTimeModel& OpTimeModel::standard() {
  static const OpTimeModel model = OpModelAccess::model(load_op_model({}));
  return model;
}

OpTimeModel OpTimeModel::load(const std::string& path) {
  if (path.empty()) throw InputError("the path of an op model is empty");
  return OpModelAccess::model(load_op_model(path));
}

void OpTimeModel::save(const std::string& path) const { write_file(path, dumped(to_json(impl_->state)) + "\n"); }

StepTime OpTimeModel::predict(const OpGraph& step, const Device& device, Precision precision, bool cuda_graph) const {
  StepAnswer answer =
      OpModelAccess::predict(*this, {execute(step, device.kind), device, precision, cuda_graph, {}, {}});
  std::erase_if(answer.time.parts, [](const TimeTerm& part) { return part.op == host_part || part.op == other_part; });
  return {answer.time.quantiles(), answer.time.rests_on,         answer.clocks.device_sec,
          answer.clocks.host_sec,  std::move(answer.time.parts), answer.time.in_layout};
}

namespace {

/// The same in single precision, of a step that is allowed TF32: PyTorch chooses a kernel in it where that is faster.
std::optional<StepQuestion> in_single_precision(const StepQuestion& asked) {
  if (asked.precision != Precision::tf32 && asked.precision != Precision::default_) return std::nullopt;
  StepQuestion single = asked;
  single.precision = Precision::fp32;
  return single;
}

}  // namespace

StepAnswer OpModelAccess::predict(const OpTimeModel& model, const StepQuestion& asked) {
  StepAnswer answer = predict_step(*model.impl_, asked);
  const auto single = in_single_precision(asked);
  if (!single) return answer;
  StepAnswer other = predict_step(*model.impl_, *single);
  return other.time.log_sec < answer.time.log_sec ? other : answer;
}

std::vector<TimedKernel> OpModelAccess::kernels(const OpTimeModel& model, const StepQuestion& asked) {
  const LearnedModel& learned = *model.impl_;
  const auto single = in_single_precision(asked);
  const bool is_faster =
      single && predict_step(learned, *single).time.log_sec < predict_step(learned, asked).time.log_sec;
  return timed_kernels(learned, is_faster ? *single : asked);
}

LayerTime predict_layer(const OpTimeModel& model, const LayerCase& layer, const Device& device) {
  const LayerStep step = layer_step(layer, device.kind);
  const StepQuestion asked = {step.executed, device, layer.precision, false, {}, {}};
  return predict_own_kernels(OpModelAccess::learned(model), step, asked);
}

std::span<const Device> OpTimeModel::devices() const& { return impl_->state.measured.devices; }

std::vector<std::string> OpTimeModel::notes() const { return impl_->state.notes; }

OpTimeModel::OpTimeModel(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
OpTimeModel::OpTimeModel(OpTimeModel&&) noexcept = default;
OpTimeModel& OpTimeModel::operator=(OpTimeModel&&) noexcept = default;
OpTimeModel::~OpTimeModel() = default;

}  // namespace perfpred
