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

/// Shape and type of one input of a network. The shape includes the batch.
struct InputSpec {
  std::vector<std::int64_t> shape;
  DataType type = DataType::f32;  ///< i64 for word numbers
};

/// A module and a function that calls it and returns the output of which the loss is taken.
struct ModuleToTrace {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs)> forward;
};

/// Records the operators of training steps without executing them: no weights in memory, no device. The values of
/// tensors are unknown: a branch that depends on a value sees ones, a shape that depends on values is that of zeros.
/// The loss is the mean cross entropy; axis 1 of the output holds the classes, or the last axis if its rank is 3.
class PERFPRED_API StepTracer {
 public:
  /// @param make       creates the module; called once, here. Tensors that it creates have shapes but no memory.
  /// @param precision  bf16 and fp16: automatic mixed precision by LibTorch's lists for CUDA; fp16 with a gradient
  ///                   scaler
  explicit StepTracer(const std::function<ModuleToTrace()>& make, Precision precision = Precision::fp32);

  /// A TorchScript file, scripted or traced, in training mode. If it has several outputs, the first tensor counts.
  /// @param precision  fp64 converts the parameters and buffers
  /// @throws InputError if the file is not TorchScript or is of a version that this LibTorch does not read
  static StepTracer torchscript(const std::string& path, Precision precision = Precision::fp32);

  /// A network of the zoo as NetworkModule executes it.
  static StepTracer network(const Network& network, Precision precision);

  ~StepTracer();
  StepTracer(StepTracer&&) noexcept;
  StepTracer& operator=(StepTracer&&) noexcept;

  /// The second or a later step of training, parameters updated by fused kernels (docs/counting.md). Operators of
  /// unknown kind are in the graph with their name and bytes. Inputs get no gradient.
  /// @throws InputError that names the operator if its inputs do not fit each other
  [[nodiscard]] OpGraph trace(std::span<const InputSpec> inputs, Optimizer optimizer);

  [[nodiscard]] std::int64_t params() const;  ///< trainable parameters

 private:
  struct Impl;
  explicit StepTracer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// The name of a TorchScript file's network: `torchscript:` and the first 12 hexadecimal digits of the file's SHA-256.
/// @throws InputError if it cannot be read
[[nodiscard]] PERFPRED_API std::string torchscript_name(const std::string& path);

/// Counts an operator from the shapes of its tensor inputs and outputs, which are in the order of its schema.
struct OpRule {
  using Count = std::function<double(std::span<const Shape> inputs, std::span<const Shape> outputs)>;
  Count flops;
  Count bytes;
};

/// Sets how all later traces count an operator that is not known. Replaces an earlier rule.
/// @param name  with namespace, without overload: "mylib::attention"
/// @throws InputError if the name has no namespace
PERFPRED_API void register_op(const std::string& name, OpRule::Count flops, OpRule::Count bytes);

}  // namespace perfpred
