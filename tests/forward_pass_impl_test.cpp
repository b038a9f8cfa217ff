// SPDX-License-Identifier: Apache-2.0
// Passes in evaluation mode, and what a compiler makes of a step.
#include "step/forward_pass.h"

#include <perfpred/executed_step.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>

namespace perfpred {
namespace {

Workload workload_of(const char* network, std::int64_t batch, Precision precision = Precision::fp32) {
  Workload workload = Workload::zoo(network, batch);
  workload.precision = precision;
  return workload;
}

OpGraph pass_of(Workload workload) {
  workload.phases = Phases::forward;
  return workload.graph();
}

TEST(ForwardPass, HasTheForwardProductsAndNothingThatTrains) {
  for (const char* network : {"resnet50", "vgg16", "efficientnet_b0", "vit_b_16", "bert_base", "swin_t"}) {
    SCOPED_TRACE(network);
    const OpGraph step = workload_of(network, 4).graph(), pass = pass_of(workload_of(network, 4));
    EXPECT_EQ(pass.totals(Phase::forward).conv_matmul_flops, step.totals(Phase::forward).conv_matmul_flops);
    for (const Phase phase : {Phase::loss, Phase::backward, Phase::optimizer}) EXPECT_EQ(pass.totals(phase).ops, 0);
    EXPECT_EQ(pass.params(), step.params());
    EXPECT_EQ(pass.totals(OpKind::bernoulli).ops, 0);
    for (const Op& op : pass.ops()) {
      for (const TensorId id : pass.outputs(op)) EXPECT_NE(pass.tensors()[id].role, TensorRole::buffer);
    }
  }
}

TEST(ForwardPass, BatchNormReadsItsImageOnceAndWritesIt) {
  const OpGraph pass = pass_of(workload_of("resnet18", 8));
  int norms = 0;
  for (const Op& op : pass.ops()) {
    if (op.kind != OpKind::batch_norm) continue;
    ++norms;
    EXPECT_EQ(pass.outputs(op).size(), 1U);
    EXPECT_EQ(op.bytes_written, pass.bytes(pass.inputs(op)[0]));
  }
  EXPECT_EQ(norms, 20);  // He et al. 2015: one after each of 20 convolutions
}

TEST(ForwardPass, WeightsAreCastInMixedPrecision) {
  const OpGraph pass = pass_of(workload_of("resnet18", 8, Precision::fp16));
  std::int64_t cast = 0;
  for (const Op& op : pass.ops()) {
    const TensorId in = op.kind == OpKind::copy ? pass.inputs(op)[0] : no_tensor;
    if (in != no_tensor && pass.tensors()[in].role == TensorRole::parameter) cast += pass.numel(in);
  }
  EXPECT_EQ(cast, 11'678'912 + 1000);  // all of 11,689,512 but the norms' 9,600
}

TEST(ForwardPass, ItsMemoryIsLessThanAStepsByFar) {
  const TrainingJob job;
  const auto peak = [&](const OpGraph& graph) {
    return estimate_memory(execute(graph, DeviceKind::gpu), job).peak_bytes;
  };
  EXPECT_LT(3 * peak(pass_of(workload_of("resnet50", 32))), peak(workload_of("resnet50", 32).graph()));
}

TEST(ForwardPass, ATransformersDropoutLeavesItsInput) {
  OpGraph step;  // y = relu(dropout(x))
  const TensorId x = step.add_tensor({4, 8}, DataType::f32, TensorRole::input);
  const TensorId mask = step.add_like(x, TensorRole::activation), z = step.add_like(x, TensorRole::activation);
  const TensorId y = step.add_like(x, TensorRole::activation);
  const auto add = [&](OpKind kind, std::initializer_list<TensorId> in, std::initializer_list<TensorId> out) {
    step.add_op(kind, Phase::forward, -1, std::span(in.begin(), in.size()), std::span(out.begin(), out.size()));
  };
  add(OpKind::bernoulli, {mask}, {mask});
  add(OpKind::div, {mask}, {mask});
  add(OpKind::mul, {x, mask}, {z});
  add(OpKind::relu, {z}, {y});
  const OpGraph pass = forward_pass(step);
  ASSERT_EQ(pass.ops().size(), 1U);
  EXPECT_EQ(pass.ops()[0].kind, OpKind::relu);
  EXPECT_EQ(pass.tensors()[pass.inputs(pass.ops()[0])[0]].role, TensorRole::input);
}

TEST(CompiledStep, ReadsOnceAndWritesOnceWhatAChainNeeds) {
  OpGraph step;  // d = relu(a + b) * c, of which others read d alone
  const auto tensor = [&](TensorRole role) { return step.add_tensor({1024}, DataType::f32, role); };
  const TensorId a = tensor(TensorRole::input), b = tensor(TensorRole::input), c = tensor(TensorRole::input);
  const TensorId sum = tensor(TensorRole::activation), above = tensor(TensorRole::activation);
  const TensorId d = tensor(TensorRole::activation),
                 product = step.add_tensor({1}, DataType::f32, TensorRole::activation);
  const auto add = [&](OpKind kind, std::initializer_list<TensorId> in, TensorId out) {
    step.add_op(kind, Phase::forward, -1, std::span(in.begin(), in.size()), {&out, 1});
  };
  add(OpKind::add, {a, b}, sum);
  add(OpKind::relu, {sum}, above);
  add(OpKind::mul, {above, c}, d);
  add(OpKind::max_pool2d, {d}, product);
  const ExecutedStep compiled = execute(step, DeviceKind::gpu, Compiler::inductor);
  ASSERT_EQ(compiled.graph().ops().size(), 2U);
  const Op& fused = compiled.graph().ops()[0];
  EXPECT_EQ(fused.bytes_read, 3 * 4096);
  EXPECT_EQ(fused.bytes_written, 4096);
  EXPECT_EQ(fused.flops, 3 * 1024);
}

TEST(CompiledStep, ComputesTheSameProductsAndMovesFewerBytes) {
  for (const char* network : {"resnet50", "efficientnet_b0", "densenet121", "vit_b_16", "gpt2", "convnext_tiny"}) {
    for (const Phases phases : {Phases::all, Phases::forward}) {
      SCOPED_TRACE(network);
      Workload workload = workload_of(network, 4, Precision::bf16);
      workload.phases = phases;
      const ExecutedStep eager = execute(workload.graph(), DeviceKind::gpu);
      const ExecutedStep compiled = execute(workload.graph(), DeviceKind::gpu, Compiler::inductor);
      const OpTotals before = eager.graph().totals(), after = compiled.graph().totals();
      EXPECT_EQ(after.conv_matmul_flops, before.conv_matmul_flops);
      EXPECT_GE(after.flops, (1 - 1e-9) * before.flops);
      EXPECT_LE(after.flops, (phases == Phases::all ? 1.02 : 1 + 1e-9) * before.flops);  // some are computed again
      EXPECT_LT(after.bytes(), before.bytes());
      EXPECT_LT(after.ops, before.ops);
      EXPECT_EQ(compiled.graph().params(), eager.graph().params());
    }
  }
}

/// What an operator reads was written before it, as in the step as it is written.
TEST(CompiledStep, NothingIsReadBeforeItIsMade) {
  for (const char* network : {"resnet50", "inception_v3", "densenet121", "shufflenet_v2_x1_0", "gpt2", "swin_t"}) {
    SCOPED_TRACE(network);
    const ExecutedStep compiled =
        execute(workload_of(network, 2, Precision::fp16).graph(), DeviceKind::gpu, Compiler::inductor);
    const OpGraph& graph = compiled.graph();
    std::vector<bool> made(graph.tensors().size());
    for (const Op& op : graph.ops()) {
      for (const TensorId id : graph.outputs(op)) {
        if (id != no_tensor) made[graph.tensors()[id].storage] = true;
      }
      for (const TensorId id : graph.inputs(op)) {
        if (id == no_tensor) continue;
        const Tensor& tensor = graph.tensors()[graph.tensors()[id].storage];
        const bool result = tensor.role == TensorRole::activation || tensor.role == TensorRole::temporary;
        EXPECT_TRUE(!result || made[graph.tensors()[id].storage]) << graph.name(op);
      }
    }
  }
}

}  // namespace
}  // namespace perfpred
