// SPDX-License-Identifier: Apache-2.0
#include "model/hybrid/step_shape.h"

#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <fmt/format.h>

#include <cmath>

#include "step/epoch_steps.h"
#include "step/kept_steps.h"

namespace perfpred {

StepShape::StepShape(const Workload& workload, DeviceKind device) : block_(device == DeviceKind::cpu ? 16 : 8) {
  steps = static_cast<double>(workload.steps_per_epoch());
  samples = static_cast<double>(workload.train_images);
  if (const auto depth = workload.depth(); depth && *depth <= 5) {
    add_cifar_cnn(workload);
  } else {
    add_graph(workload, executed_step(workload, DeviceKind::other)->graph());
  }
}

void StepShape::set_convolution_work(StepLayer& layer, bool first, double in, double out, double in_elements,
                                     double out_elements) const {
  const auto filling = [&](double channels) { return std::ceil(channels / block_) * block_ / channels; };
  const double fill_in = first ? 1 : filling(in), fill_out = filling(out);
  layer.padded_flops = layer.flops * fill_in * fill_out;
  layer.elements = in_elements * fill_in + out_elements * fill_out;
}

void StepShape::add_cifar_cnn(const Workload& workload) {
  double in = static_cast<double>(workload.input[0]);
  std::int64_t height = workload.input[1];
  std::int64_t width = workload.input[2];
  const auto add = [&](double from, double to, double positions, double taps) {
    StepLayer& layer = few_[count_++];
    layer.params = taps * from * to + to;
    layer.flops = (count_ == 1 ? 2 : 3) * 2 * taps * from * to * positions;
    layer.padded_flops = layer.flops;
    layer.elements = (from + to) * positions;
    layer.channels = to;
    layer.positions = positions;
    if (taps > 1) set_convolution_work(layer, count_ == 1, from, to, from * positions, to * positions);
  };
  const int depth = workload.depth().value(), base_filters = workload.base_filters().value();
  for (int block = 0; block < depth; ++block) {
    const double out = static_cast<double>(base_filters) * std::pow(2.0, block);
    const auto positions = static_cast<double>(height * width);
    for (const double from : {in, out}) {
      add(from, out, positions, 9);
      other_ops += 1;  // ReLU
      other_elements += 2 * out * positions;
    }
    height /= 2;
    width /= 2;
    other_ops += 1;  // pooling
    other_elements += out * (positions + static_cast<double>(height * width));
    in = out;
  }
  const double flat = in * static_cast<double>(height * width);
  const auto classes = static_cast<double>(workload.classes);
  add(flat, 128, 1, 1);
  other_ops += 1;
  other_elements += 2 * 128;
  add(128, classes, 1, 1);
}

/// What an operator of the forward pass reads and writes, in elements.
struct StepShape::Operands {
  double moved = 0;   ///< activations
  double params = 0;  ///< parameters, cast ones included
  TensorId out = no_tensor;
};

StepShape::Operands StepShape::operands_of(const OpGraph& graph, const Op& op, std::vector<bool>& is_cast) {
  Operands operands;
  for (const TensorId id : graph.inputs(op)) {
    const Tensor& tensor = graph.tensors()[id];
    const bool is_parameter = tensor.role == TensorRole::parameter || is_cast[tensor.storage];
    (is_parameter ? operands.params : operands.moved) += static_cast<double>(graph.numel(id));
  }
  for (const TensorId id : graph.outputs(op)) {
    if (id == no_tensor) continue;
    if (operands.out == no_tensor) operands.out = id;
    operands.moved += static_cast<double>(graph.numel(id));
  }
  if (op.kind == OpKind::copy && operands.params > 0 && operands.out != no_tensor) {
    is_cast[graph.tensors()[operands.out].storage] = true;
  }
  return operands;
}

void StepShape::add_layer(const OpGraph& graph, const Op& op, const Operands& operands, double batch,
                          double step_samples) {
  StepLayer& layer = more_.emplace_back();
  const Shape& result = graph.shape(operands.out);
  const auto elements = static_cast<double>(graph.numel(operands.out));
  layer.params = operands.params;
  layer.flops = (more_.size() == 1 ? 2 : 3) * op.flops / step_samples;
  layer.padded_flops = layer.flops;
  layer.elements = operands.moved / step_samples;
  const bool image = op.kind == OpKind::convolution;
  layer.channels = static_cast<double>(result[image ? 1 : result.rank() - 1]);
  layer.positions = elements / (batch * layer.channels);
  if (!image) return;
  const TensorId x = graph.inputs(op)[0], weight = graph.inputs(op)[1];
  const bool grouped = graph.shape(weight)[1] != graph.shape(op.transposed ? operands.out : x)[1];
  if (grouped) return;
  set_convolution_work(layer, more_.size() == 1, static_cast<double>(graph.shape(x)[1]), layer.channels,
                       static_cast<double>(graph.numel(x)) / step_samples, elements / step_samples);
}

void StepShape::add_graph(const Workload& workload, const OpGraph& graph) {
  const auto batch = static_cast<double>(workload.batch_size);
  const auto step_samples = static_cast<double>(samples_per_step(workload) / graph.repeats());  // a whole number
  std::vector<bool> is_cast(graph.tensors().size());  // by storage: of parameters, in mixed precision
  for (const Op& op : graph.ops()) {
    if (op.kind == OpKind::unknown) {
      throw InputError(
          fmt::format("network \"{}\" has an operator without a rule: {}", workload.network, graph.name(op)));
    }
    if (op.phase != Phase::forward) continue;
    const Operands operands = operands_of(graph, op, is_cast);
    if (is_conv_or_matmul(op.kind) && operands.params > 0 && operands.out != no_tensor) {
      add_layer(graph, op, operands, batch, step_samples);
    } else {
      other_ops += 1;
      other_elements += operands.moved / step_samples;
    }
  }
  if (more_.empty())
    throw InputError(fmt::format("network \"{}\" has no convolution or matrix product", workload.network));
}

Place StepShape::place(std::int64_t batch_size) const {
  double spatial = 0;
  for (const StepLayer& layer : layers()) spatial += layer.is_dense() ? 0 : 1;
  const StepLayer& first = layers().front();
  const bool power_of_two = (batch_size & (batch_size - 1)) == 0;
  Place place;
  place[PlaceInput::depth] = spatial / 2;
  place[PlaceInput::log2_width] = std::log2(first.channels);
  place[PlaceInput::log2_batch] = std::log2(static_cast<double>(batch_size));
  place[PlaceInput::odd_batch] = power_of_two ? 0 : 1;
  place[PlaceInput::log2_positions] = std::log2(first.positions);
  return place;
}

}  // namespace perfpred
