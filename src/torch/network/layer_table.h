// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <torch/nn/module.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "network/layers.h"
#include "torch/network/first_weights.h"

namespace perfpred {

/// The tensors of a layer; undefined where it has none.
struct LayerTensors {
  at::Tensor weight, bias, mean, variance, steps;
  at::Tensor buffer;                // of relative_position, window_mask: follows from the layer, is not saved
  std::vector<at::Tensor> weights;  // rnn: all of them
};

/// A layer in one forward pass.
struct LayerCall {
  const Layer& layer;
  LayerTensors& own;
  std::span<const std::int32_t> inputs;   // indices into `values`
  const std::vector<at::Tensor>& values;  // of the layers before
  const at::Tensor& samples;              // what the network was given
  bool training;

  [[nodiscard]] const at::Tensor& input(std::size_t i = 0) const { return values[static_cast<std::size_t>(inputs[i])]; }
};

/// Where the buffers of a layer are registered.
struct LayerPlace {
  torch::nn::Module& network;
  torch::nn::Module* module;  // of the layer's parameters, null if it has none
  const Layer& layer;
  at::TensorOptions floats;
  LayerTensors& own;
};

/// What a kind of layer computes, what it holds, and how it starts. Either `run` or `parts` is set.
struct LayerBehaviour {
  LayerKind kind;
  at::Tensor (*run)(const LayerCall& call) = nullptr;
  /// Sets the parameters; called without gradients.
  void (*start)(FirstWeights& first, const Layer& layer, LayerTensors& own) = nullptr;
  void (*add_buffers)(const LayerPlace& place) = nullptr;
  bool is_parameter = false;  // its weight has the name of the layer itself
  /// The values of all `count` layers that follow each other, by one operator.
  std::vector<at::Tensor> (*parts)(const LayerCall& call) = nullptr;
};

/// @throws InputError for a kind that is not executed
[[nodiscard]] const LayerBehaviour& behaviour_of(LayerKind kind);

}  // namespace perfpred
