// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <cstdint>

namespace perfpred {

/// What writes a step's kernels anew: nothing, torch.compile (TorchInductor), XLA.
enum class Compiler : std::uint8_t { none, inductor, xla };

/// @param compiled, software  fields of a workload
[[nodiscard]] PERFPRED_API Compiler compiler_of(bool compiled, Software software);
[[nodiscard]] PERFPRED_API Compiler compiler_of(const Workload& workload);

/// One training step as LibTorch executes it on a kind of device (docs/guides/counting.md). On a GPU, biases of
/// convolutions are added and have gradients summed apart, dropout is one kernel with a byte mask, operators on lists
/// are as many kernels as CUDA launches, attention of doubles, and in single precision of heads that share keys, is
/// written out. On a CPU, attention with dropout and RMS norms are written out, LSTMs split by layer and direction,
/// GRUs and plain RNNs by position. On other devices the step is executed as written.
///
/// All that learns (layers, probes, tables of steps) and all that answers (time, memory, roofline, reports) reads this
/// form; execute() alone makes it.
class PERFPRED_API ExecutedStep {
 public:
  /// Operators in the order of execution, and tensors: those of the step as written keep their ids, new ones follow.
  /// Where the step as written says when memory is given back (OpGraph::frees()), this graph does, too.
  [[nodiscard]] const OpGraph& graph() const { return graph_; }
  [[nodiscard]] DeviceKind device() const { return device_; }

 private:
  friend class StepGrowth;
  friend PERFPRED_API ExecutedStep execute(OpGraph step, DeviceKind device, Compiler compiler);
  ExecutedStep(OpGraph graph, DeviceKind device) : graph_(std::move(graph)), device_(device) {}

  OpGraph graph_;
  DeviceKind device_;
};

/// The precision at whose rate a step of precision `asked` multiplies operands of this type: half and double precision
/// have their own; single precision in a step of another one is PyTorch's default.
[[nodiscard]] PERFPRED_API Precision product_precision(DataType type, Precision asked);

/// @param step  as Workload::graph(), StepFile::graph() or a trace gives it
/// @param compiler  makes a chain of elementwise operators one kernel, which reads what comes from outside once, and
///                  writes what is needed outside once. On a GPU images lie in channels-last memory where that suits
///                  the convolutions. TorchInductor computes a second time in the backward pass what costs less than
///                  to keep it
[[nodiscard]] PERFPRED_API ExecutedStep execute(OpGraph step, DeviceKind device, Compiler compiler = Compiler::none);

}  // namespace perfpred
