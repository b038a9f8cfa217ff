// SPDX-License-Identifier: Apache-2.0
#include "torch/layers/layer_timer.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/function.h>

#include <algorithm>

#include "../refusal.h"
#include "optime/layers/layer_sampler.h"
#include "torch/layers/layer_bench.h"
#include "torch/layers/layer_module.h"

namespace perfpred {
namespace {

const c10::Device cpu(c10::kCPU);

LayerCase conv(std::int64_t pixels, std::int64_t kernel, std::int64_t stride, std::int64_t padding) {
  LayerCase layer;
  layer.type = LayerType::conv2d;
  layer.image_size = pixels;
  layer.kernel_size = kernel;
  layer.stride = stride;
  layer.padding = padding;
  layer.in = 2;
  layer.out = 3;
  return layer;
}

TEST(LayerModule, PadsAsItsDefinitionSays) {
  for (const std::int64_t pixels : {7, 8}) {
    for (std::int64_t kernel = 1; kernel <= 7; ++kernel) {
      for (std::int64_t stride = 1; stride <= 4; ++stride) {
        const auto size = [&](std::int64_t padding) {
          const LayerModule module(conv(pixels, kernel, stride, padding), cpu, 0);
          return module.forward().size(3);
        };
        EXPECT_EQ(size(same_padding), (pixels + stride - 1) / stride) << pixels << " " << kernel << " " << stride;
        EXPECT_EQ(size(0), (pixels - kernel) / stride + 1);
      }
    }
  }
  // Zeros all round; of an odd number one more to the right and below, as TensorFlow defines it.
  const LayerModule module(conv(5, 4, 1, same_padding), cpu, 0);
  const at::Tensor padded = at::constant_pad_nd(module.inputs().front(), {1, 2, 1, 2});
  const at::Tensor expected = at::conv2d(padded, module.parameters()[0], module.parameters()[1]);
  EXPECT_TRUE(at::allclose(module.forward(), expected));
}

/// Whether autograd would compute the gradient of the layer's input.
bool computes_input_gradient(const LayerCase& layer) {
  const LayerModule module(layer, cpu, 0);
  const at::Tensor output = module.forward();
  module.backward(output);
  return module.inputs().front().grad().defined();
}

TEST(LayerModule, AFirstLayerComputesNoGradientOfItsInput) {
  LayerCase layer = conv(8, 3, 1, 0);
  EXPECT_TRUE(computes_input_gradient(layer));
  {
    const LayerModule module(layer, cpu, 0);
    EXPECT_TRUE(module.forward().grad_fn()->should_compute_output(0));
  }
  layer.input_gradient = false;
  EXPECT_FALSE(computes_input_gradient(layer));
  const LayerModule module(layer, cpu, 0);
  EXPECT_FALSE(module.forward().grad_fn()->should_compute_output(0));
  EXPECT_TRUE(module.forward().grad_fn()->should_compute_output(1));  // of the weight
}

TEST(LayerModule, EveryTypeAndVariantTrainsInEveryPrecision) {
  for (std::size_t i = 0; i < layer_types; ++i) {
    SamplerOptions options;
    options.seed = 1;
    const auto type = static_cast<LayerType>(i);
    for (const LayerSize& size : form_of(type).sizes) {
      const bool low_ok = size.member == &LayerCase::in && size.low >= 1000;
      if (size.member == &LayerCase::groups) continue;
      options.ranges.push_back(std::string(to_string(type)) + "." + std::string(size.column) +
                               (low_ok                                   ? "=1000:1001"
                                : size.member == &LayerCase::kernel_size ? "=1:4"
                                                                         : "=1:9"));
    }
    for (LayerCase layer : LayerSampler(options).draw(type, 6)) {
      for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp64}) {
        SCOPED_TRACE(layer_key(layer));
        layer.precision = precision;
        const LayerModule module(layer, cpu, 0);
        const at::Tensor output = module.forward();
        if (layer.type == LayerType::conv2d || layer.type == LayerType::pooling) {
          EXPECT_EQ(output.size(2), output_pixels(layer));
        }
        if (!module.trains()) continue;
        module.backward(output);
        for (const at::Tensor& parameter : module.parameters()) EXPECT_TRUE(parameter.grad().defined());
        module.clear_gradients();
        for (const at::Tensor& parameter : module.parameters()) EXPECT_FALSE(parameter.grad().defined());
      }
    }
  }
}

LayerTiming short_timing() {
  LayerTiming timing;
  timing.warmup = 1;
  timing.steps = 10;
  return timing;
}

bool never() { return false; }

TEST(TimeLayer, TimesThePartsThatALayerHas) {
  LayerCase layer;
  layer.in = layer.out = 256;
  layer.batch_size = 32;
  layer.optimizer = Optimizer::adam;
  const LayerRow trained = time_layer(layer, cpu, short_timing(), never).value();
  EXPECT_GT(*trained.forward_sec, 0);
  EXPECT_GT(*trained.backward_sec, 0);
  EXPECT_GT(*trained.optimizer_sec, 0);
  EXPECT_LE(*trained.low_sec, *trained.step_sec);
  EXPECT_LE(*trained.step_sec, *trained.high_sec);
  EXPECT_LE(*trained.min_sec, *trained.max_sec);
  EXPECT_LE(*trained.std_sec, *trained.max_sec - *trained.min_sec);
  EXPECT_FALSE(trained.host_sec);  // a CPU's
  EXPECT_FALSE(trained.device.empty());
  layer.optimizer = Optimizer::none;
  EXPECT_FALSE(time_layer(layer, cpu, short_timing(), never)->optimizer_sec);
  layer.backward = false;
  EXPECT_FALSE(time_layer(layer, cpu, short_timing(), never)->backward_sec);
}

TEST(TimeLayer, ALayerThatDoesNotFitIsARow) {
  LayerCase layer;
  layer.batch_size = 1 << 20;
  layer.in = layer.out = 1 << 20;
  const LayerRow row = time_layer(layer, cpu, short_timing(), never).value();
  EXPECT_EQ(row.outcome, "oom");
  EXPECT_FALSE(row.step_sec);
  EXPECT_FALSE(row.note.empty());
}

TEST(TimeLayer, ReturnsNothingOnceItIsStopped) {
  int steps = 0;
  EXPECT_FALSE(time_layer({}, cpu, short_timing(), [&] { return ++steps > 3; }));  // while it warms up
  EXPECT_EQ(steps, 4);
}

TEST(LayerBench, DrawsTheSameLayersOfATypeWhateverTheOthers) {
  SamplerOptions options;
  options.seed = 3;
  const auto both = draw_layers({"conv2d", "linear"}, 4, options), alone = draw_layers({"linear"}, 4, options);
  ASSERT_EQ(both.size(), 8U);
  EXPECT_TRUE(std::equal(alone.begin(), alone.end(), both.begin() + 4));
  const auto said = [](const std::vector<std::string>& types, const SamplerOptions& of) {
    return testing::refusal([&] { (void)draw_layers(types, 1, of); });
  };
  EXPECT_EQ(said({"linear", "linear"}, options), "--layer has linear twice");
  options.ranges = {"linear.seq_len=1:2"};
  EXPECT_EQ(said({"conv2d"}, options), "range \"linear.seq_len=1:2\" is of a layer that --layer leaves out");
}

}  // namespace
}  // namespace perfpred
