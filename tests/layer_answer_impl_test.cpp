// SPDX-License-Identifier: Apache-2.0
// Single layers: their text, what they do, and what they take.
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/op_time_model.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "evaluate/layer_study.h"
#include "optime/layers/layer_step.h"
#include "optime/op_model_state.h"
#include "refusal.h"
#include "step/step_builder.h"
#include "temporary_folder.h"
#include "tools/layer_answer.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using testing::refusal;
using testing::TemporaryFolder;

LayerCase layer_of(const std::string& text, std::int64_t batch, Optimizer optimizer = Optimizer::none) {
  LayerCase layer = parse_layer(text);
  layer.batch_size = batch;
  layer.optimizer = optimizer;
  return layer;
}

double flops(const std::string& text, Phase phase) {
  return layer_work(layer_of(text, 4), DeviceKind::gpu).phases[phase].conv_matmul_flops;
}

TEST(LayerText, HasTheColumnsNamesAndShortOnes) {
  const LayerCase layer = parse_layer("conv2d:in=64,out=128,kernel=3,size=56,padding=same,stride=2,bias=0");
  EXPECT_EQ(layer, parse_layer("conv2d:out_channels=128,image_size=56,in_channels=64,kernel_size=3,bias=0,stride=2,"
                               "padding=same,groups=1"));
  EXPECT_EQ(layer.type, LayerType::conv2d);
  EXPECT_EQ(std::vector({layer.in, layer.out, layer.kernel_size, layer.image_size, layer.stride}),
            std::vector<std::int64_t>({64, 128, 3, 56, 2}));
  EXPECT_EQ(layer.padding, same_padding);
  EXPECT_FALSE(layer.bias);
  EXPECT_EQ(parse_layer("attention:num_kv_heads=2,heads=8,seq=16,in=64").num_kv_heads, 2);
  EXPECT_EQ(parse_layer("attention:num_kv_heads=8,heads=8,seq=16,in=64").num_kv_heads, 0);
  EXPECT_EQ(parse_layer("rnn:variant=gru,in=8,out=16,seq=4").variant, "gru");
  for (const char* kind : {"lstm", "gru"}) {
    const std::string sizes = "in=8,out=16,seq=4", name = kind;
    EXPECT_EQ(parse_layer(name + ":" + sizes), parse_layer("rnn:variant=" + name + "," + sizes));
  }
}

TEST(LayerText, IsReadAsItIsWritten) {
  for (const char* text :
       {"conv2d:in=3,out=8,kernel=3,size=32,activation=relu", "linear:in=8,out=16", "rnn:in=8,out=16,seq=4,layers=2",
        "attention:in=64,heads=4,seq=16,variant=eager", "embedding:in=1000,out=32,seq=8", "layernorm:in=64,seq=4",
        "rmsnorm:seq=4,normalized_shape=64", "positional_encoding:in=64,seq=4", "batchnorm:in=8,size=7",
        "pooling:in=8,size=8,kernel=2,stride=2,variant=avg", "elementwise:seq=2,in=64,variant=gelu",
        "softmax:seq=2,in=64,backward=0"}) {
    const LayerCase layer = parse_layer(text);
    EXPECT_EQ(parse_layer(layer_text(layer)), layer) << text;
  }
}

TEST(LayerText, RefusalsNameTheKeys) {
  const auto said = [](const char* text) { return refusal([text] { (void)parse_layer(text); }); };
  const auto keys = AllOf(HasSubstr("in_channels (in)"), HasSubstr("kernel_size (kernel)"), HasSubstr("groups"));
  EXPECT_THAT(said("conv2d:heads=3"), AllOf(HasSubstr("\"heads=3\" is not key=value"), keys));
  EXPECT_THAT(said("conv2d:in"), keys);
  EXPECT_THAT(said("conv2d:in="), keys);
  EXPECT_THAT(said("conv2d:in=64,out=128,kernel=3"), AllOf(HasSubstr("image_size is missing"), keys));
  EXPECT_THAT(said("conv2d:in=64,in_channels=64"), HasSubstr("in_channels is given twice"));
  EXPECT_THAT(said("conv2d:in=x,out=1"), HasSubstr("in_channels \"x\" is not a positive integer"));
  EXPECT_THAT(said("linear:in=8,out=8,batch_size=4"), HasSubstr("\"batch_size=4\" is not key=value"));
  EXPECT_THAT(said("conv2d:in=3,out=4,kernel=9,size=5"), HasSubstr("kernel_size 9 is larger"));
  EXPECT_THAT(said("dense:in=3"), HasSubstr("conv2d, linear"));
  EXPECT_THAT(refusal([] {
                (void)asked_layer("linear:in=8,out=8", std::vector<SweptField>{{"classes", {"10"}}});
              }),
              HasSubstr("classes is given"));
}

// Multiplications and additions of matrix products and convolutions, with a batch of 4.
TEST(LayerWork, ForwardFlopsAreThoseOfTheTextbook) {
  EXPECT_EQ(flops("conv2d:in=64,out=128,kernel=3,size=56,padding=same", Phase::forward),
            2.0 * 4 * 128 * 56 * 56 * 64 * 9);
  EXPECT_EQ(flops("conv2d:in=64,out=128,kernel=3,size=57,stride=2,groups=8", Phase::forward),
            2.0 * 4 * 128 * 28 * 28 * (64.0 / 8) * 9);  // (57 - 3) / 2 + 1 pixels
  EXPECT_EQ(flops("linear:in=512,out=256,seq=16", Phase::forward), 2.0 * 4 * 16 * 512 * 256);
  // Projections (in: 3 d^2, out: d^2), scores and weighted values (2 s d each) of every position.
  EXPECT_EQ(flops("attention:in=64,heads=4,seq=16", Phase::forward), 2.0 * 4 * 16 * (4 * 64 * 64 + 2 * 16 * 64));
  // Four gates of an LSTM: their products with the input and with the state before.
  EXPECT_EQ(flops("rnn:in=8,out=16,seq=5", Phase::forward), 2.0 * 4 * 5 * 4 * 16 * (8 + 16));
  for (const char* text :
       {"embedding:in=1000,out=32,seq=8", "layernorm:in=64,seq=4", "softmax:in=64,seq=4",
        "positional_encoding:in=64,seq=4", "batchnorm:in=8,size=7", "pooling:in=8,size=8,kernel=2,stride=2"}) {
    EXPECT_EQ(flops(text, Phase::forward), 0) << text;
  }
}

TEST(LayerWork, TheBackwardPassHasTwoProductsOfTheForwardsSize) {
  for (const std::string text :
       {"conv2d:in=64,out=128,kernel=3,size=56,padding=same", "linear:in=512,out=256,seq=16"}) {
    EXPECT_EQ(flops(text, Phase::backward), 2 * flops(text, Phase::forward));
    EXPECT_EQ(flops(text + ",input_gradient=0", Phase::backward), flops(text, Phase::forward));
  }
}

TEST(LayerWork, ParametersAreThoseOfTorchNn) {
  const auto params = [](const char* text) { return layer_work(parse_layer(text), DeviceKind::gpu).params; };
  EXPECT_EQ(params("conv2d:in=64,out=128,kernel=3,size=56"), 64 * 128 * 9 + 128);
  EXPECT_EQ(params("linear:in=8,out=16,bias=0"), 8 * 16);
  EXPECT_EQ(params("rnn:in=8,out=16,seq=5"), 4 * 16 * (8 + 16 + 2));
  EXPECT_EQ(params("embedding:in=1000,out=32,seq=8"), 32'000);
  EXPECT_EQ(params("layernorm:in=64,seq=4"), 128);
  EXPECT_EQ(params("softmax:in=64,seq=4"), 0);
}

// The input gets its gradient from a learned layer before it, which is no part of the layer.
TEST(LayerWork, TheUpdateIsOfTheLayersOwnParameters) {
  const auto update = [](const char* text) {
    return layer_work(layer_of(text, 4, Optimizer::adam), DeviceKind::gpu).phases[Phase::optimizer];
  };
  const OpTotals norm = update("layernorm:in=64,seq=4");
  EXPECT_EQ(norm.bytes(), update("layernorm:in=64,seq=512").bytes());
  // Adam reads parameter, gradient and two moments, and writes all but the gradient; some bytes more count its steps.
  EXPECT_NEAR(static_cast<double>(norm.bytes()), 7 * 4 * 128, 64);
  EXPECT_EQ(update("softmax:in=64,seq=4").ops, 0);
}

TEST(LayerAnswer, ANetworkOfOneLayerTakesItsLayersTime) {
  const Device t4 = built_in_devices().find("T4");
  for (const std::string text :
       {"conv2d:in=64,out=128,kernel=3,size=56,padding=same", "linear:in=512,out=256,seq=16",
        "attention:in=64,heads=4,seq=16", "rnn:in=8,out=16,seq=5", "embedding:in=1000,out=32,seq=8",
        "layernorm:in=64,seq=4", "positional_encoding:in=64,seq=4", "batchnorm:in=8,size=7",
        "pooling:in=64,size=8,kernel=2,stride=2"}) {
    LayerCase layer = layer_of(text, 64, Optimizer::adam);
    layer.input_gradient = false;  // as a network's first layer
    const LayerAnswer answer = answer_layer("", layer, "T4", DeviceCatalogue());
    EXPECT_EQ(answer.device, "T4");
    ASSERT_TRUE(answer.time.forward) << text;
    EXPECT_GT(answer.time.forward->p50, 0);
    EXPECT_LT(answer.time.forward->p05, answer.time.forward->p50);
    EXPECT_LT(answer.time.forward->p50, answer.time.forward->p95);
    const Network network = network_of(layer);
    if (network.params() == 0) continue;
    // The device's times of a network are sums over operators; those of the layer are among them.
    const OpGraph step = training_step(network, {layer.optimizer, layer.precision});
    const StepTime whole = OpTimeModel::standard().predict(step, t4, layer.precision);
    double of_layer = 0, of_others = 0;  // such as the loss's
    for (const TimeTerm& term : whole.costliest) of_layer += term.sec;
    for (const Op& op : step.ops()) {
      if (op.layer >= 0 || op.phase == Phase::optimizer) continue;
      for (const TimeTerm& term : whole.costliest) of_others += term.op == step.name(op) ? term.sec : 0;
    }
    EXPECT_LE(answer.time.step.p50, whole.sec.p50) << text;
    EXPECT_GE(answer.time.step.p50, 0.999 * (of_layer - of_others)) << text;
  }
}

TEST(LayerAnswer, PartsAreThereAsTheLayerHasThem) {
  const auto answered = [](const LayerCase& layer) {
    return answer_layer("", layer, "H100-SXM5-80GB", DeviceCatalogue()).time;
  };
  LayerCase layer = layer_of("linear:in=4096,out=4096,seq=512", 16, Optimizer::adam);
  const LayerTime whole = answered(layer);
  ASSERT_TRUE(whole.forward && whole.backward && whole.optimizer);
  // Large products: the device decides, and its parts add up.
  EXPECT_NEAR(whole.forward->p50 + whole.backward->p50 + whole.optimizer->p50, whole.step.p50, 0.02 * whole.step.p50);
  EXPECT_NEAR(whole.backward->p50, 2 * whole.forward->p50, 0.5 * whole.forward->p50);
  layer.optimizer = Optimizer::none;
  EXPECT_FALSE(answered(layer).optimizer);
  layer.backward = false;
  EXPECT_FALSE(answered(layer).backward);
  EXPECT_EQ(answered(layer).step.p50, answered(layer).forward->p50);
}

TEST(LayerAnswer, SavedRegressionsOfLayersAnswer) {
  const TemporaryFolder folder;
  std::vector<LayerRow> rows;
  for (int i = 0; i < 60; ++i) {
    LayerRow row;
    row.layer = layer_of("linear:in=" + std::to_string(64 + 16 * i) + ",out=256", 1 + i % 7);
    row.device = "T4";
    row.forward_sec = 1e-6 * (1 + i);
    row.step_sec = 3e-6 * (1 + i);
    rows.push_back(row);
  }
  LayerStudyOptions options;
  options.kinds = {"linear"};
  options.ablation = options.devices = false;
  const LayerStudy study = study_layers(rows, built_in_devices(), options);
  study.models.save(folder.file("layers.json"));
  const LayerCase layer = rows[30].layer;
  const LayerAnswer answer = answer_layer(folder.file("layers.json"), layer, "T4", DeviceCatalogue());
  EXPECT_EQ(answer.time.step.p50, study.models.predict(layer, built_in_devices().find("T4")).p50);
  EXPECT_FALSE(answer.time.forward);
  EXPECT_THAT(refusal([&] {
                (void)answer_layer(folder.file("layers.json"), parse_layer("softmax:in=64,seq=4"), "T4",
                                   DeviceCatalogue());
              }),
              HasSubstr("has no layers of type softmax; it has linear"));
}

}  // namespace
}  // namespace perfpred
