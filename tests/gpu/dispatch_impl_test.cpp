// SPDX-License-Identifier: Apache-2.0
// whether a CUDA device executes what execute() says. Without one, tests that execute are skipped.
#include <gtest/gtest.h>
#include <perfpred/device.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <ATen/ATen.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <ATen/native/ConvUtils.h>
#include <ATen/native/Normalization.h>
#include <ATen/record_function.h>

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "network/layers.h"
#include "optime/step_kernels.h"
#include "torch/device/cuda_device.h"
#include "torch/device/runtime_device.h"
#include "torch/step/training_step.h"

namespace perfpred {
namespace {

std::mutex mutex;  // the backward pass has a thread of its own
std::map<std::string, std::int64_t>* executed = nullptr;

std::unique_ptr<at::ObserverContext> count_operator(const at::RecordFunction& function) {
  const std::lock_guard lock(mutex);
  if (executed != nullptr) ++(*executed)[function.name()];
  return nullptr;
}

/// Operators of the second step, by name.
std::map<std::string, std::int64_t> operators_of(const Workload& workload, c10::Device device) {
  const Network network = build_network(workload);
  std::vector<std::int64_t> shape = workload.input, labels = {workload.batch_size};
  shape.insert(shape.begin(), workload.batch_size);
  if (network.tokens) labels = shape;
  const Batch batch{
      network.tokens ? at::randint(workload.classes, shape, at::kLong).to(device) : at::randn(shape).to(device),
      at::randint(workload.classes, labels, at::kLong).to(device)};
  TrainingStep step(workload, device, {});
  step.run(batch);
  std::map<std::string, std::int64_t> counts;
  const auto handle =
      at::addGlobalCallback(at::RecordFunctionCallback(count_operator).scopes({at::RecordScope::FUNCTION}));
  {
    const std::lock_guard lock(mutex);
    executed = &counts;
  }
  step.run(batch);
  static_cast<void>(step.take_metrics());  // waits for the device
  {
    const std::lock_guard lock(mutex);
    executed = nullptr;
  }
  at::removeCallback(handle);
  return counts;
}

TEST(GpuDispatch, ExecutesTheLoweredStep) {
  if (cuda_device_count() == 0) GTEST_SKIP() << "there is no CUDA device";
  for (const char* name : {"vgg11", "convnext_tiny", "vit_b_32", "transformer:layers=2,hidden=64,heads=4,vocab=50",
                           "lstm:layers=2,hidden=64,vocab=50"}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      Workload workload = Workload::zoo(name, 4);
      workload.precision = precision;
      SCOPED_TRACE(workload.key());
      const OpGraph step = execute(workload.graph(), DeviceKind::gpu).graph();
      std::map<std::string, std::int64_t> counts = operators_of(workload, runtime_device("cuda"));
      EXPECT_EQ(counts["aten::native_dropout"], step.totals(OpKind::native_dropout).ops);
      EXPECT_EQ(counts["aten::native_dropout_backward"], step.totals(OpKind::native_dropout_backward).ops);
      std::int64_t with_bias = 0;  // in the convolution's own kernel
      for (const Op& op : step.ops()) {
        with_bias += op.kind == OpKind::convolution && step.inputs(op).size() == 3 ? 1 : 0;
      }
      EXPECT_EQ(counts["aten::_conv_depthwise2d"], with_bias);
      EXPECT_EQ(counts["aten::cudnn_convolution"], step.totals(OpKind::convolution).ops - with_bias);
      EXPECT_EQ(counts["aten::_cudnn_rnn_backward"], step.totals(OpKind::rnn_backward).ops);
      // Half types have two fused kernels, and LibTorch prefers cuDNN's on Hopper (sdp_utils.cpp).
      std::int64_t forward = 0, backward = 0;
      for (const char* kernel : {"efficient", "flash", "cudnn"}) {
        if ((std::string(kernel) == "efficient") != (precision == Precision::fp32)) continue;
        const std::string attention = "aten::_scaled_dot_product_" + std::string(kernel) + "_attention";
        forward += counts[attention];
        backward += counts[attention + "_backward"];
      }
      EXPECT_EQ(forward, step.totals(OpKind::attention).ops);
      EXPECT_EQ(backward, step.totals(OpKind::attention_backward).ops);
    }
  }
}

/// A tensor that LibTorch takes for one of a CUDA device, without memory.
at::Tensor seen_on_cuda(at::IntArrayRef sizes, at::ScalarType type, at::MemoryFormat format) {
  const at::Tensor model = at::empty(sizes, at::device(at::kMeta).dtype(type).memory_format(format));
  at::Tensor made = at::detail::make_tensor<c10::TensorImpl>(
      c10::Storage(c10::Storage::use_byte_size_t(), 0, c10::DataPtr(nullptr, c10::Device(at::kCUDA, 0)), nullptr,
                   false),
      c10::DispatchKeySet(c10::DispatchKey::CUDA), model.dtype());
  made.unsafeGetTensorImpl()->set_sizes_and_strides(model.sizes(), model.strides());
  return made;
}

TEST(GpuDispatch, AddsDepthwiseBiasesWhereCudnnConvolves) {
  if (!at::detail::getCUDAHooks().compiledWithCuDNN()) GTEST_SKIP() << "LibTorch has no cuDNN";
  for (const DataType type : {DataType::f32, DataType::bf16, DataType::f64}) {
    for (const bool channels_last : {false, true}) {
      SCOPED_TRACE(std::string(to_string(type)) + (channels_last ? ", channels-last" : ""));
      const at::ScalarType scalars = type == DataType::f32   ? at::kFloat
                                     : type == DataType::f64 ? at::kDouble
                                                             : at::kBFloat16;
      const auto format = channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous;
      const at::native::ConvBackend backend = at::native::select_conv_backend(
          seen_on_cuda({2, 16, 8, 8}, scalars, format),
          seen_on_cuda({16, 1, 7, 7}, scalars, at::MemoryFormat::Contiguous), std::nullopt,
          c10::fromIntArrayRefSlow({1, 1}), c10::fromIntArrayRefSlow({3, 3}), c10::fromIntArrayRefSlow({1, 1}), false,
          c10::fromIntArrayRefSlow({0, 0}), 16, std::nullopt);

      OpGraph step;
      const TensorId stored =
          step.add_tensor(channels_last ? Shape{2, 8, 8, 16} : Shape{2, 16, 8, 8}, type, TensorRole::input);
      const TensorId image = channels_last ? step.add_view(stored, {2, 16, 8, 8}) : stored;
      const TensorId weight = step.add_tensor({16, 1, 7, 7}, type, TensorRole::parameter);
      const TensorId bias = step.add_tensor({16}, type, TensorRole::parameter);
      const TensorId result = step.add_tensor({2, 16, 8, 8}, type, TensorRole::activation);
      step.add_op(OpKind::convolution, Phase::forward, -1, std::array{image, weight, bias}, std::array{result});
      const bool added = execute(step, DeviceKind::gpu).graph().totals(OpKind::add).ops == 1;
      EXPECT_EQ(added, backend == at::native::ConvBackend::Cudnn);
    }
  }
}

TEST(GpuDispatch, NormalisesBf16WithoutCudnn) {
  if (!at::detail::getCUDAHooks().compiledWithCuDNN()) GTEST_SKIP() << "LibTorch has no cuDNN";
  for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::bf16}) {
    Workload workload = Workload::zoo("resnet18", 2);
    workload.precision = precision;
    const std::vector<StepKernel> kernels = step_kernels(execute(workload.graph(), DeviceKind::gpu));
    const auto norm = std::find_if(kernels.begin(), kernels.end(),
                                   [](const StepKernel& kernel) { return kernel.group == StepGroup::batch_norm; });
    ASSERT_NE(norm, kernels.end());
    const at::ScalarType scalars = precision == Precision::fp32   ? at::kFloat
                                   : precision == Precision::fp16 ? at::kHalf
                                                                  : at::kBFloat16;
    const auto format = at::MemoryFormat::Contiguous;
    const at::Tensor channels = seen_on_cuda({64}, at::kFloat, format);
    const at::native::BatchNormBackend backend = at::native::_select_batch_norm_backend(
        seen_on_cuda({2, 64, 112, 112}, scalars, format), channels, channels, channels, channels, true, 1e-5);
    EXPECT_EQ(norm->by_library, backend == at::native::BatchNormBackend::Cudnn) << to_string(precision);
  }
}

}  // namespace
}  // namespace perfpred
