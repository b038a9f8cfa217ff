// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/vocabulary.h>
#include <perfpred/workload.h>

#include <torch/nn/module.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <vector>

namespace perfpred {

class Network;
struct LayerTensors;

/// Where a network's parameters live, and how they start.
struct ModuleOptions {
  std::uint64_t seed = 0;              ///< of the initial weights: equal seeds give equal weights on every device
  torch::Device device = torch::kCPU;  ///< on `meta` nothing is allocated or initialised
  torch::ScalarType type = torch::kFloat;
  Layout layout = Layout::nchw;  ///< nhwc: weights and images in channels-last memory
  bool drawn_on_device = false;  ///< draws the weights on the device: fast, but they then differ between devices
};

/// The network of a workload as a module: its layers executed one by one with LibTorch's operators. Parameters and
/// buffers are named as in torchvision's state dictionaries. Weights start as torchvision's ResNets do (convolutions:
/// normal, He, fan-out; linear layers: PyTorch's default) and, in networks of tokens, as GPT-2's do (normal, deviation
/// 0.02).
class PERFPRED_API NetworkModule : public torch::nn::Module {
 public:
  /// @throws InputError as Workload::params()
  explicit NetworkModule(const Workload& workload, const ModuleOptions& options = {});
  NetworkModule(std::shared_ptr<const Network> network, const ModuleOptions& options);

  /// @param input  images N x C x H x W of the module's type, or word numbers N x S (int64); any N, the layout is
  ///               changed if need be
  /// @return       logits, N x classes, N x S x words or N x boxes x classes
  [[nodiscard]] torch::Tensor forward(const torch::Tensor& input);

  /// The loss of the last forward(): of its logits and, in training mode, of an auxiliary head's. Of a detector also
  /// the mean smooth L1 distance of its boxes from zero: for their times, as no data here brings boxes.
  /// @param of  the loss of logits
  [[nodiscard]] torch::Tensor loss(const torch::Tensor& logits,
                                   const std::function<torch::Tensor(const torch::Tensor&)>& of);

 private:
  void add_tensors(std::size_t index);
  void initialise();

  std::shared_ptr<const Network> network_;
  ModuleOptions options_;
  std::shared_ptr<std::vector<LayerTensors>> tensors_;  // of each layer
  std::vector<std::size_t> last_reader_;                // of each layer: the last layer that reads it
  torch::Tensor beside_;                                // of the last forward(): auxiliary logits, or places of boxes
};

}  // namespace perfpred
