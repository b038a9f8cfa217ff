// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <array>
#include <span>
#include <vector>

namespace perfpred {

/// A convolution or matrix product with parameters, per sample.
struct StepLayer {
  double flops = 0;         ///< of training: forward, weight gradient, and input gradient unless it is the first
  double padded_flops = 0;  ///< those, of convolutions with channels filled up to whole vector blocks
  double elements = 0;      ///< activations read and written by the forward pass, channels filled up likewise
  double params = 0;
  double channels = 0;   ///< of the output
  double positions = 0;  ///< of the output: height x width, or tokens

  // As far as the traffic of weights goes, a layer is dense (behind the flattening), deep, or neither.
  [[nodiscard]] bool is_dense() const { return positions <= 1; }
  [[nodiscard]] bool is_deep() const { return positions > 1 && positions < 32; }
};

/// What the physical model sees of a training epoch.
/// A vector block is 16 channels on a CPU (a 512-bit register of fp32) and 8 elsewhere (what matrix units take); the
/// network's own input and grouped convolutions are not filled up.
class PERFPRED_API StepShape {
 public:
  double steps = 0;
  double samples = 0;         ///< an epoch
  double other_ops = 0;       ///< forward operators that are no layer
  double other_elements = 0;  ///< that those read and write, per sample

  /// `cifar_cnn` in closed form, without allocating; anything else from its OpGraph.
  /// @throws InputError for a network that is not known or has an operator without a rule
  explicit StepShape(const Workload& workload);

  std::span<const StepLayer> layers() && = delete;  // it would outlive what it looks at
  [[nodiscard]] std::span<const StepLayer> layers() const& {
    return more_.empty() ? std::span<const StepLayer>(few_).first(count_) : std::span<const StepLayer>(more_);
  }

  /// Where the residual process sees a workload: depth (half the layers with positions), log2 of the first layer's
  /// channels, log2 batch, whether the batch is a power of two (kernels tile those without a rest), log2 of the first
  /// layer's positions.
  using Place = std::array<double, 5>;
  [[nodiscard]] Place place(std::int64_t batch_size) const;

 private:
  void set_convolution_work(StepLayer& layer, bool first, double in, double out, double in_elements,
                            double out_elements) const;
  void add_cifar_cnn(const Workload& workload);
  void add_graph(const Workload& workload);

  double block_ = 1;
  std::array<StepLayer, 12> few_{};
  std::size_t count_ = 0;
  std::vector<StepLayer> more_;
};

}  // namespace perfpred
