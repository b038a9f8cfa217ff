// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <perfpred/vocabulary.h>

#include <optional>
#include <string>
#include <vector>

#include "torch/device/named_tensors.h"

namespace perfpred {

/// A usual learning rate: 1e-3 for adam, adamw and rmsprop, 1e-2 for sgd, nesterov and
/// adagrad, 1 for adadelta.
[[nodiscard]] double default_learning_rate(Optimizer optimizer);

/// Updates parameters from their gradients with LibTorch's fused or grouped kernels: a few launches for all parameters,
/// where torch::optim has several for each. The results equal torch::optim's. All state is on the parameters' device,
/// so that a CUDA graph can contain an update.
class ParameterUpdate {
 public:
  ParameterUpdate(Optimizer optimizer, std::vector<at::Tensor> parameters, double weight_decay = 0);

  /// @param found_inf  a float on the device; if it is 1, nothing changes but gradients, which may be set to zero
  void step(double learning_rate, const std::optional<at::Tensor>& found_inf = std::nullopt);
  void clear_gradients();

  [[nodiscard]] const std::vector<at::Tensor>& parameters() const { return parameters_; }
  [[nodiscard]] std::vector<at::Tensor> gradients() const;

  /// Everything that a later step depends on, by name; the tensors are the live ones.
  [[nodiscard]] NamedTensors state() const;

 private:
  /// @param found_inf  for a decay of the sums by 1; the gradients are zeros then
  void rmsprop(double learning_rate, const std::vector<at::Tensor>& gradients,
               const std::optional<at::Tensor>& found_inf);
  void adadelta(double learning_rate, const std::vector<at::Tensor>& gradients,
                const std::optional<at::Tensor>& found_inf);

  Optimizer optimizer_;
  std::vector<at::Tensor> parameters_;
  double weight_decay_;
  std::vector<at::Tensor> first_, second_;  // moments, or sums of squares and of squared updates
  at::Tensor count_;                        // of steps, one for all parameters
};

}  // namespace perfpred
