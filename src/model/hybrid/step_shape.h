// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/workload.h>

#include <array>
#include <span>
#include <vector>

namespace perfpred {

class Op;

/// A convolution or matrix product with parameters; FLOPs and elements are per sample.
struct StepLayer {
  double flops = 0;         ///< of training: forward, weight gradient, and input gradient (which the first layer skips)
  double padded_flops = 0;  ///< the same; channels of convolutions are filled up to whole vector blocks
  double elements = 0;      ///< activations that the forward pass reads and writes; channels are filled up likewise
  double params = 0;
  double channels = 0;   ///< of the output
  double positions = 0;  ///< of the output: height x width, or tokens

  // Weights of dense layers (one position) and of deep layers (2 to 31 positions) have a cost of their own.
  [[nodiscard]] bool is_dense() const { return positions <= 1; }
  [[nodiscard]] bool is_deep() const { return positions > 1 && positions < 32; }
};

/// The inputs of the residual process, in the order of a Place. Those before log2_batch describe the architecture.
struct PlaceInput {
  enum : std::size_t {
    depth,       ///< half the number of layers with more than one position
    log2_width,  ///< of the first layer's channels
    log2_batch,
    odd_batch,       ///< 0 if the batch is a power of two, which kernels divide into tiles without a rest; else 1
    log2_positions,  ///< of the first layer's output
    count,
  };
};
using Place = std::array<double, PlaceInput::count>;

/// What the cost model sees of a training epoch.
/// Channels are filled up to whole vector blocks: 16 channels on a CPU (a 512-bit register of fp32), 8 elsewhere (what
/// matrix units take). The network's own input and grouped convolutions are not filled up.
class StepShape {
 public:
  double steps = 0;
  double samples = 0;         ///< per epoch
  double other_ops = 0;       ///< forward operators that are not a layer
  double other_elements = 0;  ///< elements that these read and write, per sample

  /// `cifar_cnn` in closed form, without allocating; anything else from its OpGraph.
  /// @param device  that the model's rows ran on
  /// @throws InputError for a network that is not known or has an operator without a rule
  explicit StepShape(const Workload& workload, DeviceKind device);

  std::span<const StepLayer> layers() && = delete;  // it would outlive what it looks at
  [[nodiscard]] std::span<const StepLayer> layers() const& {
    return more_.empty() ? std::span<const StepLayer>(few_).first(count_) : std::span<const StepLayer>(more_);
  }

  [[nodiscard]] Place place(std::int64_t batch_size) const;

 private:
  void set_convolution_work(StepLayer& layer, bool first, double in, double out, double in_elements,
                            double out_elements) const;
  void add_cifar_cnn(const Workload& workload);
  struct Operands;
  static Operands operands_of(const OpGraph& graph, const Op& op, std::vector<bool>& is_cast);
  void add_layer(const OpGraph& graph, const Op& op, const Operands& operands, double batch, double step_samples);
  void add_graph(const Workload& workload, const OpGraph& graph);

  double block_ = 1;
  std::array<StepLayer, 12> few_{};
  std::size_t count_ = 0;
  std::vector<StepLayer> more_;
};

}  // namespace perfpred
