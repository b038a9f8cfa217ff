// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/torch/network_module.h>
#include <perfpred/workload.h>

#include <ATen/Functions.h>
#include <fmt/format.h>

#include <array>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "network/layers.h"
#include "torch/network/layer_table.h"

namespace perfpred {
namespace {

/// The module that the part of `name` before the last dot names; missing ones are created. `name` keeps the rest.
torch::nn::Module& module_at(torch::nn::Module& root, std::string_view& name) {
  torch::nn::Module* module = &root;
  for (std::size_t dot = name.find('.'); dot != std::string_view::npos; dot = name.find('.')) {
    const std::string child(name.substr(0, dot));
    name.remove_prefix(dot + 1);
    const auto children = module->named_children();
    const auto* found = children.find(child);
    module =
        found != nullptr ? found->get() : module->register_module(child, std::make_shared<torch::nn::Module>()).get();
  }
  return *module;
}

struct ParameterNames {
  std::string first;  ///< with the modules that hold it
  std::string bias;   ///< in the same module
};

/// torch.nn.MultiheadAttention holds its first projection itself: in_proj_weight, not in_proj.weight.
ParameterNames parameter_names(const Layer& layer, bool is_parameter) {
  if (is_parameter) return {layer.name, "bias"};
  if (layer.name.ends_with("in_proj")) return {layer.name + "_weight", "in_proj_bias"};
  return {layer.name + ".weight", "bias"};
}

at::IntArrayRef sizes_of(const Shape& shape) { return {shape.begin(), shape.rank()}; }

at::Tensor new_parameter(const Shape& shape, const at::TensorOptions& options, Layout layout) {
  const bool last = layout == Layout::nhwc && shape.rank() == 4;
  return at::empty(sizes_of(shape), options, last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous);
}

/// As cuDNN wants the weights: in one piece of memory, which would otherwise be made anew in each step.
void join_weights(const Layer& layer, const std::vector<at::Tensor>& weights) {
  const torch::NoGradGuard no_grad;
  constexpr std::array<std::int64_t, 4> modes = {2, 3, 1, 0};  // cudnnRNNMode_t of each RnnCell
  (void)at::_cudnn_rnn_flatten_weight(weights, 4, layer.in_channels, modes.at(static_cast<std::size_t>(layer.cell)),
                                      layer.out_channels, 0, layer.count, true, layer.groups == 2);
}

/// torch.nn.LSTM's name of a parameter, with the names of the layer and of the direction.
std::string rnn_parameter(const Layer& layer, std::size_t index) {
  constexpr std::array<std::string_view, 4> names = {"weight_ih", "weight_hh", "bias_ih", "bias_hh"};
  const auto group = static_cast<std::int64_t>(index / 4);
  return fmt::format("{}_l{}{}", names.at(index % 4), group / layer.groups,
                     group % layer.groups == 1 ? "_reverse" : "");
}

}  // namespace

NetworkModule::NetworkModule(const Workload& workload, const ModuleOptions& options)
    : NetworkModule(std::make_shared<const Network>(build_network(workload)), options) {}

NetworkModule::NetworkModule(std::shared_ptr<const Network> network, const ModuleOptions& options)
    : torch::nn::Module(network->name), network_(std::move(network)), options_(options) {
  const std::size_t count = network_->layers.size();
  tensors_ = std::make_shared<std::vector<LayerTensors>>(count);
  last_reader_.resize(count);
  std::iota(last_reader_.begin(), last_reader_.end(), std::size_t{0});
  for (std::size_t i = 0; i < count; ++i) {
    for (const std::int32_t input : network_->inputs(network_->layers[i])) {
      last_reader_[static_cast<std::size_t>(input)] = i;
    }
    add_tensors(i);
  }
  if (!options_.device.is_meta()) initialise();
}

void NetworkModule::add_tensors(std::size_t index) {
  const Layer& layer = network_->layers[index];
  const LayerBehaviour& behaviour = behaviour_of(layer.kind);
  LayerTensors& own = (*tensors_)[index];
  const auto floats = at::TensorOptions().device(options_.device).dtype(options_.type);
  const LayerParameters parameters = Network::parameters(layer);
  const ParameterNames names = parameter_names(layer, behaviour.is_parameter);
  std::string_view name = names.first;
  torch::nn::Module* module = parameters.count > 0 ? &module_at(*this, name) : nullptr;
  for (std::size_t i = 0; i < parameters.count; ++i) {
    const at::Tensor parameter = new_parameter(parameters[i], floats, options_.layout);
    if (layer.kind == LayerKind::rnn) {
      own.weights.push_back(module->register_parameter(rnn_parameter(layer, i), parameter));
      continue;
    }
    const bool is_bias = i == 1 || (layer.bias && i + 1 == parameters.count);  // a normalisation's comes second
    (is_bias ? own.bias : own.weight) = module->register_parameter(is_bias ? names.bias : std::string(name), parameter);
  }
  if (layer.kind == LayerKind::rnn && options_.device.is_cuda()) join_weights(layer, own.weights);
  if (layer.kind == LayerKind::linear && layer.tied_to >= 0) {
    own.weight = (*tensors_)[static_cast<std::size_t>(layer.tied_to)].weight;
  }
  if (behaviour.add_buffers != nullptr) behaviour.add_buffers({*this, module, layer, floats, own});
}

void NetworkModule::initialise() {
  const torch::NoGradGuard no_grad;
  FirstWeights first(options_.seed, options_.device, options_.drawn_on_device, network_->tokens);
  for (std::size_t i = 0; i < tensors_->size(); ++i) {
    const Layer& layer = network_->layers[i];
    const auto start = behaviour_of(layer.kind).start;
    if (start != nullptr) start(first, layer, (*tensors_)[i]);
  }
}

torch::Tensor NetworkModule::forward(const torch::Tensor& input) {
  const Shape& expected = network_->layers.at(0).output;
  if (input.dim() != static_cast<std::int64_t>(expected.rank()) ||
      !std::equal(expected.begin() + 1, expected.end(), input.sizes().begin() + 1)) {
    throw InputError(fmt::format("network {} takes samples of shape {}, not a batch of shape {}", network_->name,
                                 shape_text({expected.begin() + 1, expected.end()}), shape_text(input.sizes().vec())));
  }
  const bool last = options_.layout == Layout::nhwc && input.dim() == 4;
  const at::Tensor samples = last ? input.contiguous(at::MemoryFormat::ChannelsLast) : input;
  std::vector<at::Tensor> values(network_->layers.size());
  const auto& auxiliary = network_->auxiliary;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (auxiliary && !is_training() && i == static_cast<std::size_t>(auxiliary->first)) {
      i = static_cast<std::size_t>(auxiliary->last);
      continue;
    }
    const Layer& layer = network_->layers[i];
    const LayerBehaviour& behaviour = behaviour_of(layer.kind);
    const LayerCall call{layer, (*tensors_)[i], network_->inputs(layer), values, samples, is_training()};
    if (behaviour.run != nullptr) {
      values[i] = behaviour.run(call);
    } else if (layer.index == 0) {  // one operator makes all the parts
      std::vector<at::Tensor> parts = behaviour.parts(call);
      std::move(parts.begin(), parts.end(), values.begin() + static_cast<std::ptrdiff_t>(i));
    }
    for (const std::int32_t read : call.inputs) {
      if (last_reader_[static_cast<std::size_t>(read)] == i) values[static_cast<std::size_t>(read)].reset();
    }
  }
  if (auxiliary) beside_ = values[static_cast<std::size_t>(auxiliary->last)];
  if (network_->boxes >= 0) beside_ = values[static_cast<std::size_t>(network_->boxes)];
  return values.back();
}

torch::Tensor NetworkModule::loss(const torch::Tensor& logits,
                                  const std::function<torch::Tensor(const torch::Tensor&)>& of) {
  at::Tensor own = of(logits);
  const at::Tensor beside = std::exchange(beside_, at::Tensor());
  if (!beside.defined()) return own;
  if (network_->auxiliary) return own + of(beside) * network_->auxiliary->weight;
  const auto type = beside.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return own + at::smooth_l1_loss(beside, at::zeros(beside.sizes(), beside.options().dtype(type)));
}

}  // namespace perfpred
