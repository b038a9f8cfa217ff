// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>

#include <string>
#include <vector>

#include "torch/device/named_tensors.h"

namespace perfpred {

/// Keeps the gradients of half precision from vanishing: scales the loss by a factor that grows while all gradients are
/// finite and shrinks when one is not. What torch.amp.GradScaler does, with its defaults, without waiting for the
/// device.
class GradientScaler {
 public:
  explicit GradientScaler(c10::Device device);

  [[nodiscard]] at::Tensor scaled(const at::Tensor& loss) const;

  /// Divides the gradients by the factor. @returns a float on the device, 1 if one of them is not finite
  [[nodiscard]] const at::Tensor& unscale(const std::vector<at::Tensor>& gradients);

  void update();  ///< the factor, after the parameters

  /// Everything that a later step depends on, by name; the tensors are the live ones.
  [[nodiscard]] NamedTensors state() const;

 private:
  at::Tensor scale_, growth_, found_inf_;
};

}  // namespace perfpred
