// SPDX-License-Identifier: Apache-2.0
#include "torch/layers/layer_module.h"

#include <perfpred/error.h>
#include <perfpred/torch/network_module.h>

#include <ATen/Functions.h>
#include <torch/nn/module.h>

#include <utility>

#include "optime/layers/layer_step.h"
#include "torch/device/autocast.h"
#include "torch/device/scalar_types.h"

namespace perfpred {
namespace {

std::vector<std::int64_t> input_sizes(const LayerCase& layer) {
  switch (layer.type) {
    case LayerType::conv2d:
    case LayerType::batchnorm:
    case LayerType::pooling:
      return {layer.batch_size, layer.in, layer.image_size, layer.image_size};
    case LayerType::embedding:
      return {layer.batch_size, layer.seq_len};
    default:
      return {layer.batch_size, layer.seq_len, layer.in};
  }
}

}  // namespace

LayerModule::LayerModule(const LayerCase& layer, c10::Device device, std::uint64_t seed) {
  check_layer(layer);
  at::manual_seed(seed);
  const auto floats = at::TensorOptions().device(device).dtype(storage_type(layer.precision));
  const auto half = half_type(layer.precision);  // what the layer before hands over
  const auto values = half ? floats.dtype(*half) : floats;
  const auto make_input = [&](const std::vector<std::int64_t>& sizes, bool gradient) {
    if (layer.type == LayerType::embedding) {
      inputs_.push_back(at::randint(layer.in, sizes, floats.dtype(at::kLong)));
    } else {
      inputs_.push_back(at::randn(sizes, values).set_requires_grad(gradient));
    }
    return inputs_.back();
  };
  const at::Tensor x = make_input(input_sizes(layer), layer.input_gradient && layer.backward);
  std::function<at::Tensor(const at::Tensor&)> apply;
  if (layer.variant == "add" || layer.variant == "sinusoidal") {
    const bool table = layer.variant == "sinusoidal";
    const at::Tensor other = make_input(table ? std::vector<std::int64_t>{layer.seq_len, layer.in} : input_sizes(layer),
                                        !table && layer.input_gradient && layer.backward);
    module_ = std::make_shared<torch::nn::Module>("add");
    apply = [other](const at::Tensor& in) { return at::add(in, other); };
  } else {
    auto network = std::make_shared<NetworkModule>(
        std::make_shared<const Network>(network_of(layer)),
        ModuleOptions{.seed = seed, .device = device, .type = storage_type(layer.precision), .drawn_on_device = true});
    module_ = network;
    apply = [network = network.get()](const at::Tensor& in) { return network->forward(in); };
  }
  if (pads_unevenly(layer)) {
    const std::int64_t all = padded_pixels(layer), before = all / 2, after = all - before;
    apply = [apply = std::move(apply), before, after](const at::Tensor& in) {
      return apply(at::constant_pad_nd(in, {before, after, before, after}));
    };
  }
  module_->train();
  for (at::Tensor& parameter : module_->parameters()) {
    parameter.set_requires_grad(layer.backward);
    parameters_.push_back(parameter);
  }
  run_ = [apply = std::move(apply), x, type = device.type(), precision = layer.precision] {
    const Autocast autocast(type, half_type(precision));
    return apply(x);
  };
  if (trains()) output_gradient_ = at::randn_like(forward().detach());
}

LayerModule::~LayerModule() = default;

at::Tensor LayerModule::forward() const { return run_(); }

void LayerModule::backward(const at::Tensor& output) const { output.backward(output_gradient_); }

void LayerModule::clear_gradients() const {
  for (const auto* tensors : {&inputs_, &parameters_}) {
    for (const at::Tensor& tensor : *tensors) tensor.mutable_grad().reset();
  }
}

bool LayerModule::trains() const {
  if (inputs_.front().requires_grad()) return true;
  return !parameters_.empty() && parameters_.front().requires_grad();
}

}  // namespace perfpred
