// SPDX-License-Identifier: Apache-2.0
// The kernels of a step.
#include <perfpred/device.h>
#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>
#include <perfpred/workload.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <string>
#include <vector>

#include "optime/step_kernels.h"

namespace perfpred {
namespace {

TEST(StepKernels, OfEmptyTensorsTakeALaunch) {
  struct Call {
    OpKind kind;
    std::vector<Shape> in, out;
  };
  const std::vector<Call> calls = {
      {OpKind::batch_norm, {{0, 4, 8, 8}, {4}}, {{0, 4, 8, 8}}},
      {OpKind::batch_norm, {{2, 0, 8, 8}, {0}}, {{2, 0, 8, 8}}},
      {OpKind::max_pool2d, {{0, 4, 8, 8}}, {{0, 4, 4, 4}}},
      {OpKind::convolution, {{0, 4, 8, 8}, {6, 4, 3, 3}}, {{0, 6, 8, 8}}},
      {OpKind::convolution, {{2, 0, 8, 8}, {6, 0, 3, 3}}, {{2, 6, 8, 8}}},
      {OpKind::convolution_backward, {{0, 6, 8, 8}, {0, 4, 8, 8}, {6, 4, 3, 3}}, {{0, 4, 8, 8}, {6, 4, 3, 3}}},
      {OpKind::mm, {{0, 4}, {4, 5}}, {{0, 5}}},
      {OpKind::mm, {{3, 0}, {0, 5}}, {{3, 5}}},
      {OpKind::bmm, {{2, 3, 4}, {2, 4, 0}}, {{2, 3, 0}}},
      {OpKind::softmax, {{3, 0}}, {{3, 0}}},
      {OpKind::layer_norm, {{3, 0}, {0}}, {{3, 0}}},
      {OpKind::relu, {{0}}, {{0}}}};
  for (const Call& call : calls) {
    OpGraph step;
    std::vector<TensorId> in, out;
    for (const Shape& shape : call.in) in.push_back(step.add_tensor(shape, DataType::f32, TensorRole::activation));
    for (const Shape& shape : call.out) out.push_back(step.add_tensor(shape, DataType::f32, TensorRole::activation));
    step.add_op(call.kind, Phase::forward, -1, in, out);
    const std::string what = std::string(to_string(call.kind)) + " " + call.in[0].text();
    for (const StepKernel& kernel : step_kernels(execute(step, DeviceKind::gpu))) {
      for (const double size : {kernel.depth, kernel.width, kernel.batch, kernel.rows, kernel.flops, kernel.bytes}) {
        EXPECT_TRUE(std::isfinite(size)) << what;
      }
    }
    for (const char* device : {"T4", "K80"}) {
      const StepTime time = OpTimeModel::standard().predict(step, DeviceCatalogue().find(device), Precision::fp32);
      EXPECT_GT(time.device_sec, 0) << what;
      EXPECT_LT(time.device_sec, 1e-3) << what;
      EXPECT_TRUE(std::isfinite(time.sec.p95)) << what;
    }
  }
}

TEST(StepKernels, TheGradientOfAWeightIsAlignedWhateverTheBatch) {
  const auto unaligned = [](std::int64_t batch) {
    const std::vector<StepKernel> kernels =
        step_kernels(execute(Workload::zoo("vit_b_16", batch).graph(), DeviceKind::gpu));
    return std::count_if(kernels.begin(), kernels.end(), [](const StepKernel& kernel) { return !kernel.aligned; });
  };
  EXPECT_EQ(unaligned(7), unaligned(8));  // 197 words a picture; all widths are multiples of 8
}

/// A list of tensors that takes several kernels (docs/guides/counting.md): all of them take time, one is dispatched.
TEST(StepKernels, EveryKernelOfAnOptimizersListsIsThere) {
  Workload workload = Workload::zoo("vgg11", 2);
  workload.optimizer_impl = OptimizerImpl::foreach;
  const ExecutedStep step = execute(workload.graph(), DeviceKind::gpu);
  std::size_t executed = 0, kernels = 0, further = 0;
  for (const Op& op : step.graph().ops()) executed += op.phase == Phase::optimizer && op.kind == OpKind::add ? 1 : 0;
  for (const StepKernel& kernel : step_kernels(step)) {
    if (step.graph().ops()[kernel.op].phase != Phase::optimizer || kernel.kind != OpKind::add) continue;
    ++kernels;
    further += kernel.dispatched ? 0 : 1;
  }
  EXPECT_GT(further, 0U);
  EXPECT_EQ(kernels, executed);
}

TEST(StepKernels, AConvolutionIsAProductInEachDirection) {
  // torchvision's ResNet-50: its second convolution is 1x1, 64 to 64 channels, on 56 x 56 pixels.
  const OpGraph written = Workload::zoo("resnet50", 4).graph();
  const ExecutedStep executed = execute(written, DeviceKind::gpu);
  const OpGraph& step = executed.graph();
  const std::vector<StepKernel> kernels = step_kernels(executed);
  double flops = 0;
  std::size_t dispatched = 0;
  for (const StepKernel& kernel : kernels) {
    flops += kernel.flops;
    dispatched += kernel.dispatched ? 1 : 0;
    if (kernel.group == StepGroup::conv_forward || kernel.group == StepGroup::conv_weight) {
      EXPECT_NEAR(kernel.flops, 2 * kernel.batch * kernel.rows * kernel.width * kernel.depth, 1e-6 * kernel.flops);
    }
  }
  EXPECT_NEAR(flops, step.totals().flops, 1e-6 * flops);
  EXPECT_EQ(dispatched, written.ops().size());  // a list of tensors is one dispatch, of one kernel or more
  const auto second = std::find_if(kernels.begin() + 1, kernels.end(), [](const StepKernel& kernel) {
    return kernel.group == StepGroup::conv_forward && kernel.depth == 64;
  });
  ASSERT_NE(second, kernels.end());
  EXPECT_EQ(second->rows, 4 * 56 * 56);
  EXPECT_EQ(second->width, 64);
  EXPECT_TRUE(second->aligned);
}

/// A convolution and its backward on 5 images; `side` of the image and of the result, windows of 4 x 4.
OpGraph convolve(std::array<std::int64_t, 2> channels, std::array<std::int64_t, 2> side, const Shape& window,
                 bool transposed) {
  OpGraph step;
  const auto image = [&](std::size_t i) {
    return step.add_tensor({5, channels[i], side[i], side[i]}, DataType::f32, TensorRole::activation);
  };
  const TensorId x = image(0), y = image(1), gx = image(0), gy = image(1);
  const TensorId weight = step.add_tensor(window, DataType::f32, TensorRole::parameter);
  const TensorId gw = step.add_like(weight, TensorRole::gradient);
  step.add_op(OpKind::convolution, Phase::forward, -1, std::array{x, weight}, std::array{y}, transposed);
  step.add_op(OpKind::convolution_backward, Phase::backward, -1, std::array{gy, x, weight},
              std::array{gx, gw, no_tensor}, transposed);
  return step;
}

/// torch.nn.ConvTranspose2d: "can be seen as the gradient of Conv2d with respect to its input"; its weight is
/// [Cin, Cout / groups, height, width].
TEST(StepKernels, ATransposedConvolutionIsTheGradientOfTheInputOfAnOrdinaryOne) {
  struct Case {
    std::int64_t in, out, groups;
  };
  for (const Case& one : {Case{512, 504, 1}, Case{504, 512, 1}, Case{16, 1, 1}, Case{1, 16, 1}, Case{64, 24, 4},
                          Case{24, 64, 4}, Case{32, 32, 32}}) {
    SCOPED_TRACE(std::to_string(one.in) + " to " + std::to_string(one.out));
    const Shape window = {one.in, one.out / one.groups, 4, 4};
    const std::int64_t window_elements = window[0] * window[1] * window[2] * window[3];
    const std::vector<StepKernel> kernels =
        step_kernels(execute(convolve({one.in, one.out}, {7, 14}, window, true), DeviceKind::gpu));
    const std::vector<StepKernel> ordinary =
        step_kernels(execute(convolve({one.out, one.in}, {14, 7}, window, false), DeviceKind::gpu));
    ASSERT_EQ(kernels.size(), 3U);
    for (const std::size_t i : {0U, 1U, 2U}) {  // forward, gradient of the image, gradient of the weight
      const StepKernel &a = kernels[i], &b = ordinary[i == 2 ? 2 : 1 - i];
      EXPECT_EQ(a.flops, 2.0 * 5 * 7 * 7 * static_cast<double>(window_elements));
      EXPECT_EQ(a.grouped, one.groups > 1);
      EXPECT_EQ(a.batch, one.groups);
      EXPECT_EQ(a.group, b.group);
      EXPECT_EQ(a.flops, b.flops);
      EXPECT_EQ(a.bytes, b.bytes);
      EXPECT_EQ(a.rows, b.rows);
      EXPECT_EQ(a.width, b.width);
      EXPECT_EQ(a.depth, b.depth);
      EXPECT_EQ(a.aligned, b.aligned);
      EXPECT_EQ(a.transposed, b.transposed);
    }
    if (one.groups > 1) continue;
    EXPECT_EQ(kernels[0].group, StepGroup::conv_input);
    EXPECT_EQ(kernels[1].group, StepGroup::conv_forward);
    EXPECT_EQ(kernels[2].group, StepGroup::conv_weight);
    EXPECT_EQ(kernels[0].width, one.out);
    EXPECT_EQ(kernels[1].rows, 5 * 7 * 7);
    EXPECT_EQ(kernels[1].width, one.in);
    EXPECT_EQ(kernels[1].depth, one.out * 4 * 4);
    EXPECT_EQ(kernels[2].depth, 5 * 7 * 7);
  }
}

TEST(StepKernels, ATransposedConvolutionToFewerChannelsTakesNoLonger) {
  const auto seconds = [](std::int64_t out) {
    const OpGraph step = convolve({512, out}, {7, 14}, {512, out, 4, 4}, true);
    return OpTimeModel::standard().predict(step, DeviceCatalogue().find("T4"), Precision::fp32).device_sec;
  };
  EXPECT_LE(seconds(504), seconds(512));
  EXPECT_LE(seconds(512), seconds(520));
}

TEST(StepKernels, ATransposedConvolutionIsNoBackwardPassToTheHost) {
  const auto host_seconds = [](bool transposed) {
    const OpGraph step = convolve({16, 16}, {7, 7}, {16, 16, 4, 4}, transposed);
    return OpTimeModel::standard().predict(step, DeviceCatalogue().find("T4"), Precision::fp32).host_sec;
  };
  EXPECT_EQ(host_seconds(true), host_seconds(false));
}

TEST(StepKernels, KnowsThe3x3ConvolutionByFourierTransforms) {
  // ResNet-18, 128 channels on 28 x 28 pixels: a tile of 32 x 32 for each of 4 pictures, 32 x 17 frequencies, each with
  // 128 x 128 complex products of 4 real products and 4 sums.
  const std::vector<StepKernel> kernels = step_kernels(execute(Workload::zoo("resnet18", 4).graph(), DeviceKind::gpu));
  std::size_t seen = 0;
  for (const StepKernel& kernel : kernels) {
    EXPECT_EQ(kernel.fourier_flops > 0, kernel.three_by_three);
    if (kernel.group != StepGroup::conv_forward || kernel.rows != 4 * 28 * 28 || kernel.depth != 128 * 9) continue;
    ++seen;
    EXPECT_EQ(kernel.fourier_flops, 4.0 * 32 * 17 * 8 * 128 * 128);
    EXPECT_EQ(kernel.fourier_bytes, 4.0 * (4 * 28 * 28 * 256 + 9 * 128 * 128) + 16.0 * 32 * 17 * (4 * 256 + 128 * 128));
  }
  EXPECT_EQ(seen, 3U);
}

TEST(StepKernels, ImagesOfProductsAreCopiedToChannelsLastMemoryAndBack) {
  for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
    Workload workload = Workload::zoo("mobilenet_v2", 4);
    workload.precision = Precision::fp16;
    workload.layout = layout;
    for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu, DeviceKind::other}) {
      std::size_t seen = 0;
      for (const StepKernel& kernel : step_kernels(execute(workload.graph(), device))) {
        const bool product = kernel.group == StepGroup::conv_forward || kernel.group == StepGroup::conv_input ||
                             kernel.group == StepGroup::conv_weight;
        if (!product || layout == Layout::nhwc) {
          EXPECT_EQ(kernel.transposed, 0);
          continue;
        }
        // Its 1x1 convolution: 160 to 960 channels on 7 x 7 pixels. Both images are read and written.
        if (kernel.rows != 4 * 7 * 7 || kernel.width != 960 || kernel.depth != 160) continue;
        ++seen;
        EXPECT_EQ(kernel.transposed, 2 * 2 * (4 * 49 * (160 + 960)));
      }
      EXPECT_EQ(seen > 0, layout == Layout::nchw);
    }
  }
}

}  // namespace
}  // namespace perfpred
