// SPDX-License-Identifier: Apache-2.0
// A step as a device executes it. Expected operators are those that LibTorch's sources call (docs/guides/counting.md).
#include <perfpred/error.h>
#include <perfpred/executed_step.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <array>
#include <string>
#include <vector>

#include "network/layers.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;

OpGraph on_gpu(const Workload& workload) { return execute(workload.graph(), DeviceKind::gpu).graph(); }

Workload trained_with(std::string_view network, std::int64_t batch, Optimizer optimizer) {
  Workload workload = Workload::zoo(network, batch);
  workload.optimizer = optimizer;
  return workload;
}

void expect_same(const OpGraph& a, const OpGraph& b) {
  ASSERT_EQ(a.ops().size(), b.ops().size());
  for (std::size_t i = 0; i < a.ops().size(); ++i) {
    const Op &x = a.ops()[i], &y = b.ops()[i];
    EXPECT_EQ(a.name(x), b.name(y));
    EXPECT_EQ(a.layer_name(x), b.layer_name(y));
    EXPECT_EQ(x.flops, y.flops);
    EXPECT_EQ(x.bytes_read, y.bytes_read);
    EXPECT_EQ(x.bytes_written, y.bytes_written);
  }
  EXPECT_EQ(a.params(), b.params());
  EXPECT_EQ(a.activation_bytes(), b.activation_bytes());
}

TEST(ExecutedStep, LeavesWhatEveryDeviceExecutesAlike) {
  const OpGraph resnet = trained_with("resnet18", 2, Optimizer::none).graph();
  for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu, DeviceKind::other}) {
    expect_same(execute(resnet, device).graph(), resnet);
  }
  for (const char* name : {"vgg11", "vit_b_32"}) {  // a bias is added by oneDNN itself
    const OpGraph step = Workload::zoo(name, 2).graph();
    expect_same(execute(step, DeviceKind::cpu).graph(), step);
  }
}

/// Beside each convolution: a sum of the output and the bias; and a sum over the output's gradient.
TEST(ExecutedStep, CudnnsConvolutionsHaveTheirBiasAddedAfterwards) {
  Workload workload = trained_with("vgg11", 2, Optimizer::none);
  std::int64_t convolutions = 0, elements = 0, channels = 0;
  for (const Layer& layer : build_network(workload).layers) {
    if (layer.kind != LayerKind::conv2d) continue;
    ++convolutions;
    elements += layer.output.numel();
    channels += layer.out_channels;
  }
  ASSERT_EQ(convolutions, 8);
  const OpGraph neutral = workload.graph(), gpu = on_gpu(workload);
  for (const OpKind kind : {OpKind::add, OpKind::sum}) {
    EXPECT_EQ(gpu.totals(kind).ops, neutral.totals(kind).ops + 8);
    EXPECT_EQ(gpu.totals(kind).flops, neutral.totals(kind).flops + static_cast<double>(elements));
    EXPECT_EQ(gpu.totals(kind).bytes_read,
              neutral.totals(kind).bytes_read + 4 * elements + (kind == OpKind::add ? 4 * channels : 0));
  }
  EXPECT_EQ(gpu.totals(OpKind::add).bytes_written, neutral.totals(OpKind::add).bytes_written + 4 * elements);
  for (const OpKind kind : {OpKind::convolution, OpKind::convolution_backward}) {
    EXPECT_EQ(gpu.totals(kind).ops, neutral.totals(kind).ops);
    EXPECT_EQ(gpu.totals(kind).flops, neutral.totals(kind).flops);
  }
  EXPECT_EQ(gpu.totals().conv_matmul_flops, neutral.totals().conv_matmul_flops);
}

std::int64_t biased_convolutions(const OpGraph& step) {
  return std::count_if(step.ops().begin(), step.ops().end(),
                       [&](const Op& op) { return op.kind == OpKind::convolution && step.inputs(op).size() == 3; });
}

TEST(ExecutedStep, DepthwiseKernelsAddTheirBias) {
  OpGraph step;
  const auto convolve = [&](TensorId x, const Shape& window) {
    const TensorId weight = step.add_tensor(window, DataType::f32, TensorRole::parameter);
    const TensorId bias = step.add_tensor({16}, DataType::f32, TensorRole::parameter);
    const TensorId result = step.add_like(x, TensorRole::activation);
    step.add_op(OpKind::convolution, Phase::forward, -1, std::array{x, weight, bias}, std::array{result});
  };
  convolve(step.add_tensor({2, 16, 8, 8}, DataType::f32, TensorRole::input), {16, 1, 3, 3});
  const TensorId sequence = step.add_tensor({2, 8, 16}, DataType::f32, TensorRole::input);
  convolve(step.add_view(sequence, {2, 16, 8}), {16, 1, 3});  // has channels last, but is no image
  EXPECT_EQ(biased_convolutions(execute(step, DeviceKind::gpu).graph()), 2);
  step.set_layout(Layout::nhwc);  // of images
  EXPECT_EQ(biased_convolutions(execute(step, DeviceKind::gpu).graph()), 1);
  EXPECT_EQ(execute(step, DeviceKind::gpu).graph().layout(), Layout::nhwc);
}

/// Convolution.cpp, is_depthwise: a transposed convolution is none, also if its weight is [Cin, 1, ..].
TEST(ExecutedStep, TransposedConvolutionsStayTransposed) {
  OpGraph step;
  const auto tensor = [&](const Shape& shape) { return step.add_tensor(shape, DataType::f32, TensorRole::activation); };
  const TensorId x = tensor({2, 16, 8, 8}), weight = tensor({16, 1, 3, 3}), bias = tensor({1}),
                 y = tensor({2, 1, 8, 8});
  const std::array gradients = {tensor({2, 16, 8, 8}), tensor({16, 1, 3, 3}), tensor({1})};
  step.add_op(OpKind::convolution, Phase::forward, -1, std::array{x, weight, bias}, std::array{y}, true);
  step.add_op(OpKind::convolution_backward, Phase::backward, -1, std::array{y, x, weight}, gradients, true);
  EXPECT_EQ(biased_convolutions(execute(step, DeviceKind::gpu).graph()), 0);
  for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
    const OpGraph lowered = execute(step, device).graph();
    for (const Op& op : lowered.ops()) EXPECT_EQ(op.transposed, is_convolution(op.kind));
  }
}

/// Its layer norms make all images channels-last, whose depthwise convolutions are cuDNN's (gpu_dispatch_impl_test).
TEST(ExecutedStep, ConvNextsBiasesAreAddedAfterwards) {
  Workload workload = trained_with("convnext_tiny", 2, Optimizer::none);
  for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::fp64}) {
    workload.precision = precision;
    EXPECT_EQ(biased_convolutions(workload.graph()), 18 + 4);  // one in each block; four that change the resolution
    EXPECT_EQ(biased_convolutions(on_gpu(workload)), precision == Precision::fp64 ? 18 : 0);
  }
}

TEST(ExecutedStep, DropoutIsOneKernelThatKeepsAByteAnElement) {
  for (const Precision precision : {Precision::fp32, Precision::bf16}) {
    Workload workload = trained_with("vgg11", 4, Optimizer::none);
    workload.precision = precision;
    const OpGraph neutral = workload.graph(), gpu = on_gpu(workload);
    constexpr std::int64_t elements = 4 * 4096;  // of each of the two
    const std::int64_t size = precision == Precision::fp32 ? 4 : 2;
    EXPECT_EQ(neutral.totals(OpKind::bernoulli).ops, 2);
    EXPECT_EQ(gpu.totals(OpKind::bernoulli).ops + gpu.totals(OpKind::div).ops, 0);
    const OpTotals forward = gpu.totals(OpKind::native_dropout), backward = gpu.totals(OpKind::native_dropout_backward);
    EXPECT_EQ(forward.ops, 2);
    EXPECT_EQ(forward.bytes_read, 2 * elements * size);
    EXPECT_EQ(forward.bytes_written, 2 * elements * (size + 1));
    EXPECT_EQ(backward.ops, 2);
    EXPECT_EQ(backward.bytes_read, 2 * elements * (size + 1));
    EXPECT_EQ(backward.bytes_written, 2 * elements * size);
    EXPECT_EQ(neutral.activation_bytes() - gpu.activation_bytes(), 2 * elements * (size - 1));
  }
}

/// A program that keeps the dropout's result to the end of the step. Its mask, as the step was written, has 4 bytes an
/// element and lives to the backward pass; on a GPU one byte an element does.
TEST(ExecutedStep, KeepsTheTimesAtWhichMemoryIsGivenBack) {
  constexpr std::int64_t n = 1024;
  OpGraph step;
  const TensorId x = step.add_tensor({4, n / 4}, DataType::f32, TensorRole::input);
  const auto made = [&] { return step.add_like(x, TensorRole::activation); };
  const TensorId mask = made(), y = made(), z = made(), gz = made(), gy = made();
  step.add_op(OpKind::bernoulli, Phase::forward, -1, std::array{mask}, std::array{mask});
  step.add_op(OpKind::div, Phase::forward, -1, std::array{mask}, std::array{mask});
  step.add_op(OpKind::mul, Phase::forward, -1, std::array{x, mask}, std::array{y});
  step.add_op(OpKind::relu, Phase::forward, -1, std::array{y}, std::array{z});
  step.add_op(OpKind::threshold_backward, Phase::backward, -1, std::array{z, z}, std::array{gz});
  step.add_op(OpKind::mul, Phase::backward, -1, std::array{gz, mask}, std::array{gy});
  const auto peak = [&](DeviceKind device) {
    TrainingJob job;
    job.loader_batches = 1;
    return estimate_memory(execute(step, device), job).peak_bytes;
  };
  step.set_freed_after(z, 4);
  for (const TensorId id : {mask, gz, gy}) step.set_freed_after(id, 5);  // y: never
  EXPECT_EQ(peak(DeviceKind::cpu), 4 * n * 5);                           // x, mask, y, gz; z or gy
  EXPECT_EQ(peak(DeviceKind::gpu), 4 * n * 4 + n);
}

OpGraph compiled(const char* network, Phases phases) {
  Workload workload = trained_with(network, 2, Optimizer::none);
  workload.phases = phases;
  return execute(workload.graph(), DeviceKind::gpu, Compiler::inductor).graph();
}

/// TorchInductor's decide_layout_opt by hand: gradients and groups of several channels (ResNeXt), or 3x3 convolutions
/// that halve the channels (DenseNet's from 128 to 32), keep the layout. Without gradients groups count 1.358 times
/// their FLOPs, most others 0.823 times: of ResNeXt-50's FLOPs, three in ten are of groups at most.
TEST(ExecutedStep, ACompilerKeepsImagesInTheLayoutThatSuitsTheirConvolutions) {
  for (const char* network : {"resnet50", "mobilenet_v2"}) {
    EXPECT_EQ(compiled(network, Phases::all).layout(), Layout::nhwc) << network;
    EXPECT_EQ(compiled(network, Phases::forward).layout(), Layout::nhwc) << network;
  }
  for (const char* network : {"resnext50_32x4d", "densenet121"}) {
    EXPECT_EQ(compiled(network, Phases::all).layout(), Layout::nchw) << network;
    EXPECT_EQ(compiled(network, Phases::forward).layout(), Layout::nhwc) << network;
  }
  EXPECT_EQ(compiled("bert_base", Phases::all).layout(), Layout::nchw);  // nothing convolves
}

/// A compiler writes norms and softmax itself, with what is computed around them, and leaves products to libraries. It
/// moves less.
TEST(ExecutedStep, ACompilerWritesNormsItself) {
  for (const char* network : {"vit_b_32", "bert_base", "llama3_8b"}) {
    Workload workload = trained_with(network, 2, Optimizer::none);
    workload.precision = Precision::bf16;
    const OpGraph eager = on_gpu(workload);
    const OpGraph fused = execute(workload.graph(), DeviceKind::gpu, Compiler::inductor).graph();
    for (const OpKind kind : {OpKind::layer_norm, OpKind::layer_norm_backward, OpKind::rms_norm,
                              OpKind::rms_norm_backward, OpKind::log_softmax}) {
      EXPECT_EQ(fused.totals(kind).ops, 0) << network;
    }
    for (const OpKind kind : {OpKind::addmm, OpKind::mm, OpKind::attention, OpKind::attention_backward}) {
      EXPECT_EQ(fused.totals(kind).ops, eager.totals(kind).ops) << network;
    }
    EXPECT_GT(fused.totals(OpKind::fused).ops, 0) << network;
    EXPECT_GE(fused.totals().flops, eager.totals().flops) << network;  // some are computed again
    EXPECT_LE(fused.totals().flops, 1.02 * eager.totals().flops) << network;
    EXPECT_LT(fused.totals().bytes(), eager.totals().bytes()) << network;
  }
}

TEST(ExecutedStep, StochasticDepthIsNoDropout) {
  const Workload workload = trained_with("efficientnet_b0", 2, Optimizer::none);
  const OpGraph neutral = workload.graph(), gpu = on_gpu(workload);
  EXPECT_EQ(gpu.totals(OpKind::native_dropout).ops, 1);  // before the classifier
  EXPECT_EQ(gpu.totals(OpKind::bernoulli).ops, neutral.totals(OpKind::bernoulli).ops - 1);
  EXPECT_GT(gpu.totals(OpKind::bernoulli).ops, 5);
}

/// One operator on `count` tensors of `elements` each, and so many kernels on a GPU.
std::vector<std::int64_t> elements_of_kernels(std::int64_t count, std::int64_t elements, bool in_place) {
  OpGraph step;
  std::vector<TensorId> x, y;
  for (std::int64_t i = 0; i < count; ++i)
    x.push_back(step.add_tensor({elements}, DataType::f32, TensorRole::gradient));
  for (std::int64_t i = 0; i < count; ++i) y.push_back(step.add_like(x[0], TensorRole::parameter));
  for (std::size_t i = 0; i < x.size(); ++i) {
    step.add_op(OpKind::add, Phase::optimizer, -1, in_place ? std::vector{x[i]} : std::vector{y[i], x[i]},
                in_place ? std::array{x[i]} : std::array{y[i]});
  }
  const OpGraph gpu = execute(step, DeviceKind::gpu).graph();
  EXPECT_EQ(gpu.totals().flops, step.totals().flops);
  EXPECT_EQ(gpu.totals().bytes_read, step.totals().bytes_read);
  EXPECT_EQ(gpu.totals().bytes_written, step.totals().bytes_written);
  std::vector<std::int64_t> kernels;
  for (const Op& op : gpu.ops()) kernels.push_back(op.bytes_written / 4);
  return kernels;
}

TEST(ExecutedStep, AListIsAsManyKernelsAsItsTensorsAndBlocksNeed) {
  EXPECT_THAT(elements_of_kernels(250, 10, true), ElementsAre(1100, 1100, 300));       // 110 tensors of one list
  EXPECT_THAT(elements_of_kernels(130, 10, false), ElementsAre(640, 640, 20));         // 64 of two lists
  EXPECT_THAT(elements_of_kernels(2, 65'536 * 160, true), ElementsAre(65'536 * 320));  // 320 blocks of 65,536
  EXPECT_THAT(elements_of_kernels(2, 65'536 * 160 + 1, true), ElementsAre(65'536 * 319 + 1, 65'536 + 1));
  EXPECT_THAT(elements_of_kernels(3, 65'536 * 320, true), ElementsAre(65'536 * 320, 65'536 * 320, 65'536 * 320));
}

TEST(ExecutedStep, AFusedUpdateIsAKernelForThirtySixTensors) {  // four lists: parameters, gradients, two moments
  const Workload workload = trained_with("mobilenet_v2", 2, Optimizer::adam);  // 158 small tensors
  const OpGraph neutral = workload.graph(), gpu = on_gpu(workload);
  EXPECT_EQ(gpu.totals(OpKind::fused_adam).ops, 5);
  EXPECT_EQ(gpu.totals(OpKind::fused_adam).flops, neutral.totals(OpKind::fused_adam).flops);
  EXPECT_EQ(gpu.totals(OpKind::fused_adam).bytes(), neutral.totals(OpKind::fused_adam).bytes());
}

/// torch/optim: the operators of _multi_tensor_adam and its like, each a kernel on lists; in copies of the parameters.
TEST(ExecutedStep, AnUpdateThatNoDeviceHoldsIsRefused) {
  Workload workload = Workload::zoo("resnet50", 8);
  workload.classes = 1'000'000'000'000;
  for (const OptimizerImpl how : {OptimizerImpl::fused, OptimizerImpl::foreach}) {
    workload.optimizer_impl = how;
    EXPECT_THAT([&] { (void)on_gpu(workload); },
                ::testing::ThrowsMessage<InputError>(::testing::HasSubstr("too large for any device")));
  }
  workload.classes = 100'000'000;  // 819 GB of weights in the last layer
  workload.optimizer_impl = OptimizerImpl::fused;
  EXPECT_LT(on_gpu(workload).ops().size(), 20'000U);
}

TEST(ExecutedStep, ForeachHasAKernelForEachOperation) {
  struct Expected {
    Optimizer optimizer;
    std::int64_t operations, read, written;
  };
  for (const auto& [optimizer, operations, read, written] :
       {Expected{Optimizer::sgd, 1, 2, 1}, Expected{Optimizer::nesterov, 4, 7, 4},
        Expected{Optimizer::adagrad, 5, 8, 5}, Expected{Optimizer::adam, 7, 11, 7},
        Expected{Optimizer::adamw, 8, 12, 8}}) {
    SCOPED_TRACE(to_string(optimizer));
    Workload workload = trained_with("resnet18", 2, optimizer);
    workload.optimizer_impl = OptimizerImpl::foreach;
    const std::int64_t params = workload.params();
    for (const OpGraph& step : {workload.graph(), on_gpu(workload)}) {
      const OpTotals update = step.totals(Phase::optimizer);
      EXPECT_EQ(update.flops, static_cast<double>(operations * params));
      EXPECT_EQ(update.bytes_read, read * 4 * params);
      EXPECT_EQ(update.bytes_written, written * 4 * params);
    }
    EXPECT_EQ(workload.graph().totals(Phase::optimizer).ops, operations * 62);  // tensors
    const std::int64_t kernels = on_gpu(workload).totals(Phase::optimizer).ops;
    EXPECT_GE(kernels, operations);
    EXPECT_LE(kernels, 2 * operations);
  }
}

TEST(ExecutedStep, OperatorsThatFollowEachOtherOnOtherListsAreNotJoined) {
  const Workload workload = trained_with("resnet18", 2, Optimizer::adadelta);  // eleven operations, two of them `mul`
  const std::int64_t kernels = on_gpu(workload).totals(Phase::optimizer).ops;
  EXPECT_GE(kernels, 11 + 1);  // and the count of steps
  EXPECT_LE(kernels, 2 * 11 + 1);
}

TEST(ExecutedStep, AttentionWithoutAFusedKernelIsWrittenOut) {
  Workload words = Workload::zoo("transformer:layers=2,hidden=32,heads=4,vocab=50", 3, {40});
  const double pairs = 3.0 * 4 * 40 * 40 * (32 / 4);
  // A CPU's kernel has no dropout.
  const OpGraph cpu = execute(words.graph(), DeviceKind::cpu).graph();
  EXPECT_EQ(cpu.totals(OpKind::attention).ops + cpu.totals(OpKind::attention_backward).ops, 0);
  EXPECT_EQ(cpu.totals(OpKind::bmm).flops, 2 * (4 + 8) * pairs);
  EXPECT_EQ(cpu.totals(OpKind::softmax).ops, 2);
  EXPECT_EQ(on_gpu(words).totals(OpKind::attention).ops, 2);
  // A GPU's kernels do not compute in double precision.
  words.precision = Precision::fp64;
  EXPECT_EQ(on_gpu(words).totals(OpKind::attention).ops, 0);
  Workload images = Workload::zoo("vit_b_32", 2);
  EXPECT_EQ(execute(images.graph(), DeviceKind::cpu).graph().totals(OpKind::attention).ops, 12);
  images.precision = Precision::fp64;
  EXPECT_EQ(on_gpu(images).totals(OpKind::attention_backward).ops, 0);
  EXPECT_EQ(on_gpu(images).totals(OpKind::softmax_backward).ops, 12);
}

/// sdp_utils.cpp: flash attention is of 16 bits, and memory-efficient attention wants as many keys as queries.
TEST(ExecutedStep, AttentionOfSharedKeysIsWrittenOutInSinglePrecision) {
  Workload words = Workload::zoo("llama3.2_1b", 2, {64});  // 16 layers, 32 heads of 64 numbers, 8 of keys
  const double pairs = 2.0 * 32 * 64 * 64 * 64;
  for (const Precision precision : {Precision::fp32, Precision::tf32}) {
    words.precision = precision;
    const OpGraph gpu = on_gpu(words);
    EXPECT_EQ(gpu.totals(OpKind::attention).ops + gpu.totals(OpKind::attention_backward).ops, 0);
    EXPECT_EQ(gpu.totals(OpKind::bmm).flops, 16 * (4 + 8) * pairs);
  }
  words.precision = Precision::bf16;
  EXPECT_EQ(on_gpu(words).totals(OpKind::attention).ops, 16);
}

}  // namespace
}  // namespace perfpred
