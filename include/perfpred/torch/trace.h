// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>
#include <perfpred/torch/loss.h>
#include <perfpred/vocabulary.h>
#include <perfpred/workload.h>

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

/// A module and a function that calls it and returns the output that the loss is computed from.
struct ModuleToTrace {
  std::shared_ptr<torch::nn::Module> module;
  std::function<at::Tensor(const std::vector<at::Tensor>& inputs)> forward;
};

/// Records the operators of training steps without executing them: no weights in memory, no device. The values of
/// tensors are unknown: branches that depend on a value see ones, shapes that depend on values are those for zeros.
/// The loss is the mean cross entropy unless another one is asked for; axis 1 of the output holds the classes, or the
/// last axis if its rank is 3. An output of rank 0 is a loss already.
class PERFPRED_API StepTracer {
 public:
  /// @param make       creates the module; called once, here. Tensors that it creates have shapes but no memory.
  /// @param precision  bf16 and fp16: automatic mixed precision by LibTorch's lists for CUDA; fp16 with a gradient
  ///                   scaler
  explicit StepTracer(const std::function<ModuleToTrace()>& make, Precision precision = Precision::fp32);

  /// The module of a shared library that defines `extern "C" void perfpred_make_module(perfpred::ModuleToTrace& made)`,
  /// which stands for `make`. The library stays loaded, as by load_operators().
  /// @throws InputError if it cannot be loaded, or does not define the function
  static StepTracer library(const std::string& path, Precision precision = Precision::fp32);

  /// The network of a workload as NetworkModule executes it, in the workload's precision and layout.
  /// @throws InputError as Workload::params()
  static StepTracer network(const Workload& workload);

  ~StepTracer();
  StepTracer(StepTracer&&) noexcept;
  StepTracer& operator=(StepTracer&&) noexcept;

  /// The second or a later step of training, parameters updated by fused kernels (docs/guides/counting.md). Operators
  /// of unknown kind are in the graph with their name and bytes. Inputs get no gradient.
  /// @throws InputError that names the operator if its inputs do not fit each other; for another loss than the cross
  ///                    entropy if the network returns one itself
  [[nodiscard]] OpGraph trace(std::span<const InputSpec> inputs, Optimizer optimizer, const Loss& loss = {});

  [[nodiscard]] std::int64_t params() const;  ///< trainable parameters

 private:
  struct Impl;
  explicit StepTracer(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

/// Loads a shared library that registers operators of its own with LibTorch. It is never unloaded.
/// @throws InputError if it cannot be loaded
PERFPRED_API void load_operators(const std::string& path);

}  // namespace perfpred
