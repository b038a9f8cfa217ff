// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/torch/network_module.h>
#include <perfpred/workload.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/Context.h>
#include <ATen/Functions.h>
#include <fmt/format.h>

#include <array>
#include <cmath>
#include <limits>
#include <memory>
#include <numeric>
#include <string>
#include <utility>

#include "network/layers.h"
#include "torch/network/layer_functions.h"

namespace perfpred {
namespace {

constexpr double norm_momentum = 0.1;
constexpr double token_deviation = 0.02;
constexpr double first_layer_scale = 1e-6;

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

/// Parameters that are named by their layer alone.
bool is_parameter_itself(LayerKind kind) {
  return kind == LayerKind::class_token || kind == LayerKind::position_embedding || kind == LayerKind::layer_scale ||
         kind == LayerKind::relative_position;
}

at::IntArrayRef sizes_of(const Shape& shape) { return {shape.begin(), shape.rank()}; }

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
  tensors_.resize(count);
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
  LayerTensors& own = tensors_[index];
  const auto floats = at::TensorOptions().device(options_.device).dtype(options_.type);
  const auto integers = floats.dtype(at::kLong);

  const bool itself = is_parameter_itself(layer.kind);
  const std::string path = itself ? layer.name : layer.name + ".weight";
  const LayerParameters parameters = Network::parameters(layer);
  std::string_view name = path;
  torch::nn::Module* module = parameters.count > 0 ? &module_at(*this, name) : nullptr;
  if (layer.kind == LayerKind::rnn) {
    for (std::size_t i = 0; i < parameters.count; ++i) {
      own.weights.push_back(
          module->register_parameter(rnn_parameter(layer, i), at::empty(sizes_of(parameters[i]), floats)));
    }
    if (options_.device.is_cuda()) join_weights(layer, own.weights);
    return;
  }
  for (std::size_t i = 0; i < parameters.count; ++i) {
    const Shape& shape = parameters[i];
    at::Tensor parameter = at::empty(sizes_of(shape), floats);
    if (options_.layout == Layout::nhwc && shape.rank() == 4) {
      parameter = parameter.contiguous(at::MemoryFormat::ChannelsLast);
    }
    const bool is_bias = layer.bias && i + 1 == parameters.count;
    const bool norm_bias = i == 1;
    (is_bias || norm_bias ? own.bias : own.weight) =
        module->register_parameter(is_bias || norm_bias ? "bias" : std::string(name), parameter);
  }
  if (layer.kind == LayerKind::linear && layer.tied_to >= 0) {
    own.weight = tensors_[static_cast<std::size_t>(layer.tied_to)].weight;
  }

  switch (layer.kind) {
    case LayerKind::batch_norm:
      own.mean = module->register_buffer("running_mean", at::zeros(layer.out_channels, floats));
      own.variance = module->register_buffer("running_var", at::ones(layer.out_channels, floats));
      own.steps = module->register_buffer("num_batches_tracked", at::zeros({}, integers));
      break;
    case LayerKind::position_ids:
      own.weight = register_buffer("position_ids", at::arange(layer.output[0], integers));
      break;
    case LayerKind::type_ids:
      own.weight = register_buffer("type_ids", at::zeros(layer.output[0], integers));
      break;
    case LayerKind::relative_position:
      own.buffer = distance_rows(layer, integers);
      break;
    case LayerKind::window_mask:
      own.buffer = roll_mask(layer, floats);
      break;
    case LayerKind::rotary:
      if (const auto buffers = named_buffers(false); const at::Tensor* cosines = buffers.find("rotary_cos")) {
        own.mean = *cosines;
        own.variance = buffers["rotary_sin"];
      } else {
        const auto [cos, sin] = rotations(layer.output[1], layer.output[2] / layer.groups, floats);
        own.mean = register_buffer("rotary_cos", cos);
        own.variance = register_buffer("rotary_sin", sin);
      }
      break;
    case LayerKind::causal_mask:
      if (const auto buffers = named_buffers(false); const at::Tensor* mask = buffers.find("causal_mask")) {
        own.weight = *mask;
      } else {
        const std::int64_t length = layer.output.back();
        own.weight = register_buffer("causal_mask", at::ones({length, length}, floats.dtype(at::kBool)).triu_(1));
      }
      break;
    default:
      break;
  }
}

void NetworkModule::initialise() {
  const torch::NoGradGuard no_grad;
  const bool on_device = options_.drawn_on_device && !options_.device.is_cpu();
  at::Generator generator = on_device ? at::globalContext().defaultGenerator(options_.device).clone()
                                      : at::make_generator<at::CPUGeneratorImpl>();
  generator.set_current_seed(options_.seed);
  // On the CPU they are drawn in single precision, whatever the module's type.
  const auto drawn = [&](at::Tensor& parameter, auto fill) {
    if (on_device) {
      fill(parameter);
      return;
    }
    at::Tensor values = at::empty(parameter.sizes(), at::kFloat);
    fill(values);
    parameter.copy_(values);
  };
  const auto normal = [&](at::Tensor& parameter, double deviation) {
    drawn(parameter, [&](at::Tensor& values) { values.normal_(0, deviation, generator); });
  };
  const auto uniform = [&](at::Tensor& parameter, double limit) {
    drawn(parameter, [&](at::Tensor& values) { values.uniform_(-limit, limit, generator); });
  };
  for (std::size_t i = 0; i < tensors_.size(); ++i) {
    const Layer& layer = network_->layers[i];
    LayerTensors& own = tensors_[i];
    switch (layer.kind) {
      case LayerKind::conv2d:
        normal(own.weight,
               std::sqrt(2.0 / static_cast<double>(layer.out_channels * layer.kernel[0] * layer.kernel[1])));
        if (own.bias.defined()) own.bias.zero_();
        break;
      case LayerKind::linear:
        if (network_->tokens) {
          if (layer.tied_to < 0) normal(own.weight, token_deviation);
          if (own.bias.defined()) own.bias.zero_();
        } else {
          const double limit = 1 / std::sqrt(static_cast<double>(layer.in_channels));
          uniform(own.weight, limit);
          if (own.bias.defined()) uniform(own.bias, limit);
        }
        break;
      case LayerKind::batch_norm:
      case LayerKind::layer_norm:
        own.weight.fill_(1);
        own.bias.zero_();
        break;
      case LayerKind::rms_norm:
        own.weight.fill_(1);
        break;
      case LayerKind::rnn:
        for (at::Tensor& weight : own.weights) uniform(weight, 1 / std::sqrt(static_cast<double>(layer.out_channels)));
        break;
      case LayerKind::embedding:
      case LayerKind::position_embedding:
      case LayerKind::relative_position:
        normal(own.weight, token_deviation);
        break;
      case LayerKind::layer_scale:
        own.weight.fill_(first_layer_scale);
        break;
      case LayerKind::class_token:
        own.weight.zero_();
        break;
      default:
        break;
    }
  }
}

torch::Tensor NetworkModule::forward(const torch::Tensor& input) {
  const Shape& expected = network_->layers.at(0).output;
  if (input.dim() != static_cast<std::int64_t>(expected.rank()) ||
      !std::equal(expected.begin() + 1, expected.end(), input.sizes().begin() + 1)) {
    throw InputError(fmt::format("network {} takes samples of shape {}, not a batch of shape {}", network_->name,
                                 shape_text({expected.begin() + 1, expected.end()}), shape_text(input.sizes().vec())));
  }
  std::vector<at::Tensor> values(network_->layers.size());
  const auto& auxiliary = network_->auxiliary;
  for (std::size_t i = 0; i < values.size(); ++i) {
    if (auxiliary && !is_training() && i == static_cast<std::size_t>(auxiliary->first)) {
      i = static_cast<std::size_t>(auxiliary->last);
      continue;
    }
    const Layer& layer = network_->layers[i];
    if (layer.kind == LayerKind::input) {
      values[i] = options_.layout == Layout::nhwc && input.dim() == 4 ? input.contiguous(at::MemoryFormat::ChannelsLast)
                                                                      : input;
    } else if (layer.kind == LayerKind::chunk || layer.kind == LayerKind::select_heads) {
      if (layer.index == 0) {  // one operator makes all the parts
        const at::Tensor& whole = values[static_cast<std::size_t>(network_->inputs(layer)[0])];
        auto parts = layer.kind == LayerKind::chunk ? whole.chunk(layer.count, whole.dim() == 4 ? 1 : -1)
                                                    : select_heads(layer, whole);
        std::move(parts.begin(), parts.end(), values.begin() + static_cast<std::ptrdiff_t>(i));
      }
    } else {
      values[i] = run(i, values);
    }
    for (const std::int32_t read : network_->inputs(layer)) {
      if (last_reader_[static_cast<std::size_t>(read)] == i) values[static_cast<std::size_t>(read)].reset();
    }
  }
  if (auxiliary) auxiliary_logits_ = values[static_cast<std::size_t>(auxiliary->last)];
  return values.back();
}

torch::Tensor NetworkModule::loss(const torch::Tensor& logits,
                                  const std::function<torch::Tensor(const torch::Tensor&)>& of) {
  const at::Tensor own = of(logits);
  const at::Tensor beside = std::exchange(auxiliary_logits_, at::Tensor());
  return beside.defined() ? own + of(beside) * network_->auxiliary->weight : own;
}

torch::Tensor NetworkModule::run(std::size_t index, const std::vector<torch::Tensor>& values) {
  const Layer& layer = network_->layers[index];
  LayerTensors& own = tensors_[index];
  const auto inputs = network_->inputs(layer);
  const auto value = [&](std::size_t i) -> const at::Tensor& { return values[static_cast<std::size_t>(inputs[i])]; };
  const at::Tensor& x = value(0);
  switch (layer.kind) {
    case LayerKind::conv2d:
      return at::conv2d(x, own.weight, own.bias, layer.stride, layer.padding, at::IntArrayRef{1, 1}, layer.groups);
    case LayerKind::batch_norm:
      if (is_training()) own.steps += 1;
      return at::batch_norm(x, own.weight, own.bias, own.mean, own.variance, is_training(), norm_momentum, layer.value,
                            at::globalContext().userEnabledCuDNN());
    case LayerKind::layer_norm:
      return at::layer_norm(x, layer.out_channels, own.weight, own.bias, layer.value);
    case LayerKind::rms_norm:
      return at::rms_norm(x, layer.out_channels, own.weight, layer.value);
    case LayerKind::linear:
      return at::linear(x, own.weight, own.bias);
    case LayerKind::embedding:
      return at::embedding(own.weight, x);
    case LayerKind::position_ids:
    case LayerKind::type_ids:
      return own.weight;
    case LayerKind::relu:
    case LayerKind::relu6:
    case LayerKind::hardswish:
    case LayerKind::hardsigmoid:
    case LayerKind::silu:
    case LayerKind::sigmoid:
    case LayerKind::tanh:
    case LayerKind::gelu:
    case LayerKind::gelu_tanh:
      return activate(layer.kind, layer.in_place, x);
    case LayerKind::max_pool:
      return at::max_pool2d(x, layer.kernel, layer.stride, layer.padding, at::IntArrayRef{1, 1}, layer.ceil_mode);
    case LayerKind::avg_pool:
      return at::avg_pool2d(x, layer.kernel, layer.stride, layer.padding, layer.ceil_mode);
    case LayerKind::adaptive_avg_pool:
      return at::adaptive_avg_pool2d(x, layer.kernel);
    case LayerKind::global_avg_pool:
      return at::mean(x, at::IntArrayRef{-2, -1}, true);
    case LayerKind::add:
      return layer.in_place ? at::Tensor(x).add_(value(1)) : at::add(x, value(1));
    case LayerKind::mul:
      return at::mul(x, value(1));
    case LayerKind::scale:
      return x * layer.value;
    case LayerKind::dropout: {
      at::Tensor in_place = x;
      return layer.in_place ? at::dropout_(in_place, layer.value, is_training())
                            : at::dropout(x, layer.value, is_training());
    }
    case LayerKind::stochastic_depth:
      return is_training() ? stochastic_depth(x, layer.value) : x;
    case LayerKind::layer_scale:
      return own.weight * x;
    case LayerKind::concat: {
      std::vector<at::Tensor> parts;
      for (std::size_t i = 0; i < inputs.size(); ++i) parts.push_back(value(i));
      return at::cat(parts, 1);
    }
    case LayerKind::channel_shuffle:
      return shuffle_channels(x, layer.groups);
    case LayerKind::flatten:
      return x.flatten(1);
    case LayerKind::to_nhwc:
      return x.permute({0, 2, 3, 1});
    case LayerKind::to_nchw:
      return x.permute({0, 3, 1, 2});
    case LayerKind::to_tokens:
      return x.flatten(2).transpose(1, 2);
    case LayerKind::class_token:
      return at::cat({own.weight.expand({x.size(0), -1, -1}), x}, 1);
    case LayerKind::first_token:
      return x.select(1, 0);
    case LayerKind::position_embedding:
      return x + own.weight;
    case LayerKind::split_heads:
      return split_heads(x, layer.groups);
    case LayerKind::merge_heads:
      return merge_heads(x, layer.groups);
    case LayerKind::matmul:
      return at::bmm(x, value(1));
    case LayerKind::matmul_transposed:
      return at::bmm(x, value(1).transpose(1, 2));
    case LayerKind::causal_mask:
      return x.masked_fill(own.weight, -std::numeric_limits<double>::infinity());
    case LayerKind::softmax:
      return at::softmax(x, -1);
    case LayerKind::pad:
      return pad(layer, x);
    case LayerKind::crop:
      return crop(layer, x);
    case LayerKind::roll:
      return at::roll(x, layer.padding, {1, 2});
    case LayerKind::to_windows:
      return to_windows(layer, x);
    case LayerKind::from_windows:
      return from_windows(layer, x);
    case LayerKind::image_windows:
      return image_windows(layer, x);
    case LayerKind::windows_image:
      return windows_image(layer, x);
    case LayerKind::join_windows:
      return x.flatten(0, 1);
    case LayerKind::part_windows:
      return x.unflatten(0, {-1, layer.output[1]});
    case LayerKind::merge_patches:
      return merge_patches(x);
    case LayerKind::relative_position:
      return relative_position(layer, x, own.weight, own.buffer);
    case LayerKind::window_mask:
      return window_mask(layer, x, own.buffer);
    case LayerKind::rotary:
      return rotary(layer, x, own.mean, own.variance);
    case LayerKind::rnn:
      return recurrent(layer, x, own.weights, is_training());
    case LayerKind::attention:
      return attention(layer, x, value(1), value(2), is_training());
    case LayerKind::input:
    case LayerKind::chunk:
    case LayerKind::select_heads:
      break;  // in forward()
  }
  throw Error(fmt::format("layer {} cannot be executed", layer.name));
}

}  // namespace perfpred
