// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>
#include <perfpred/vocabulary.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace at {
class Tensor;
}
namespace torch::nn {
class Module;
}

namespace perfpred {

/// One input of a network: its whole shape, batch included, and type.
struct InputSpec {
  std::vector<std::int64_t> shape;
  DataType type = DataType::f32;  ///< numbers of words are i64
};

/// A module and how it is called: inputs to the output that the loss is taken of.
struct ModuleToTrace {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs)> forward;
};

/// Records the operators of training steps without executing them: no weights in memory, no device. A tensor's values
/// are unknown, so a branch that depends on them takes the way of ones; shapes that depend on them, that of zeros.
/// The loss is the mean cross entropy over the output's classes: axis 1, or the last axis of an output of rank 3.
class PERFPRED_API StepTracer {
 public:
  /// @param make       makes the module; it is called once, here. Tensors made inside have shapes but no memory.
  /// @param precision  bf16 and fp16: automatic mixed precision by LibTorch's lists for CUDA; fp16 with a gradient
  ///                   scaler
  explicit StepTracer(const std::function<ModuleToTrace()>& make, Precision precision = Precision::fp32);

  /// A TorchScript file, scripted or traced, in training mode. Of several outputs the first tensor counts.
  /// @param precision  fp64 converts what the file holds
  /// @throws InputError if it is none, or of a version that this LibTorch does not read
  static StepTracer torchscript(const std::string& path, Precision precision = Precision::fp32);

  /// A network of the zoo as NetworkModule executes it.
  static StepTracer network(const Network& network, Precision precision);

  ~StepTracer();
  StepTracer(StepTracer&&) noexcept;
  StepTracer& operator=(StepTracer&&) noexcept;

  /// The second or a later step of training, parameters updated by fused kernels (docs/counting.md). Operators of
  /// unknown kind are in the graph with their bytes and their name. Inputs of floating type get no gradient.
  /// @throws InputError naming the operator whose inputs do not fit each other
  [[nodiscard]] OpGraph trace(std::span<const InputSpec> inputs, Optimizer optimizer);

  [[nodiscard]] std::int64_t params() const;  ///< trainable parameters

 private:
  struct Impl;
  explicit StepTracer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// What a TorchScript file is called as a network: `torchscript:` and the first 12 hexadecimal digits of its SHA-256.
/// @throws InputError if it cannot be read
[[nodiscard]] PERFPRED_API std::string torchscript_name(const std::string& path);

/// FLOPs or bytes of an operator from the shapes of its tensor inputs and outputs, in the order of its schema.
struct OpRule {
  using Count = std::function<double(std::span<const Shape> inputs, std::span<const Shape> outputs)>;
  Count flops;
  Count bytes;
};

/// Says how to count an operator that is not known, for all later traces; replaces what was said before.
/// @param name  with its namespace and without overload: "mylib::attention"
/// @throws InputError if the name has no namespace
PERFPRED_API void register_op(const std::string& name, OpRule::Count flops, OpRule::Count bytes);

}  // namespace perfpred
