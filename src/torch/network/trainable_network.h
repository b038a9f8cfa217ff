// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <memory>

#include "torch/device/named_tensors.h"

namespace perfpred {

/// What a training step needs from a network.
class TrainableNetwork {
 public:
  virtual ~TrainableNetwork() = default;
  [[nodiscard]] virtual at::Tensor forward(const at::Tensor& inputs) = 0;  ///< logits
  /// The loss of what the last forward() gave: of the logits, and of what else the network is trained on.
  /// @param of  the loss of logits
  [[nodiscard]] virtual at::Tensor loss(const at::Tensor& logits,
                                        const std::function<at::Tensor(const at::Tensor&)>& of) {
    return of(logits);
  }
  virtual void train(bool on) = 0;
  [[nodiscard]] virtual NamedTensors parameters() const = 0;
  [[nodiscard]] virtual NamedTensors buffers() const = 0;
};

/// The workload's network of the zoo.
/// @param drawn_on_device  see ModuleOptions
/// @throws InputError for a network that is not known
[[nodiscard]] std::unique_ptr<TrainableNetwork> make_zoo_network(const Workload& workload, c10::Device device,
                                                                 std::uint64_t seed, bool drawn_on_device);

}  // namespace perfpred
