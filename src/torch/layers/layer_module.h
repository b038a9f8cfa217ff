// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

#include "optime/layers/layer_case.h"

namespace torch::nn {
class Module;
}

namespace perfpred {

/// A layer with its input and the gradient of its output, all made beforehand.
class LayerModule {
 public:
  /// @throws InputError for sizes that do not fit each other, OutOfMemory
  LayerModule(const LayerCase& layer, c10::Device device, std::uint64_t seed);
  ~LayerModule();
  LayerModule(const LayerModule&) = delete;
  LayerModule& operator=(const LayerModule&) = delete;

  [[nodiscard]] at::Tensor forward() const;
  /// Computes the gradients of the parameters and, where the layer has one, of the input.
  void backward(const at::Tensor& output) const;
  /// Forgets all gradients: the next backward writes them anew.
  void clear_gradients() const;

  [[nodiscard]] bool trains() const;  ///< has something to compute a gradient of
  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] const std::vector<at::Tensor>& inputs() const { return inputs_; }
  [[nodiscard]] const at::Tensor& output_gradient() const { return output_gradient_; }

 private:
  std::shared_ptr<torch::nn::Module> module_;
  std::function<at::Tensor()> run_;
  std::vector<at::Tensor> inputs_, parameters_;
  at::Tensor output_gradient_;
};

}  // namespace perfpred
