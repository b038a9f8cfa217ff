// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <gtest/gtest.h>

#include <array>
#include <string_view>
#include <vector>

#include "step/layer_rules.h"
#include "step/op_traits.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

TEST(OpGraph, ForwardFlopsAreTheTextbooks) {
  // GFLOP of one 224x224 image, convolutions and matrix products.
  const auto forward = [](const char* network) {
    return Workload::zoo(network, 1).graph().totals(Phase::forward).conv_matmul_flops / 1e9;
  };
  EXPECT_NEAR(forward("resnet50"), 8.18, 0.005);
  EXPECT_NEAR(forward("vgg16"), 30.94, 0.005);
  EXPECT_NEAR(forward("resnet18"), 3.63, 0.005);
}

TEST(OpGraph, BackwardAsksTwoProductsOfEachButTheFirstLayer) {
  const Workload workload = Workload::cifar_cnn(2, 16, 10);
  const OpGraph graph = workload.graph();
  const double forward = graph.totals(Phase::forward).conv_matmul_flops;
  const double first = 2.0 * 10 * 32 * 32 * 16 * 27;
  EXPECT_EQ(graph.totals(Phase::backward).conv_matmul_flops, 2 * forward - first);
}

TEST(OpGraph, CountsFollowTheRules) {
  OpGraph graph;
  const TensorId x = graph.add_tensor({2, 8, 10, 10}, DataType::f32, TensorRole::input);
  const TensorId weight = graph.add_tensor({12, 4, 3, 3}, DataType::f32, TensorRole::parameter);
  const TensorId y = graph.add_tensor({2, 12, 8, 8}, DataType::f32, TensorRole::activation);
  const std::array inputs = {x, weight};
  const Op conv = graph.add_op(OpKind::convolution, Phase::forward, -1, inputs, std::array{y});
  EXPECT_EQ(conv.flops, 2.0 * (2 * 12 * 8 * 8) * (4 * 3 * 3));  // 2 |out| Cin/groups kh kw
  EXPECT_EQ(conv.bytes_read, 4 * (2 * 8 * 100 + 12 * 4 * 9));
  EXPECT_EQ(conv.bytes_written, 4 * 2 * 12 * 64);

  const TensorId rows = graph.add_tensor({1000, 64}, DataType::f16, TensorRole::parameter);
  const TensorId indices = graph.add_tensor({7}, DataType::i64, TensorRole::input);
  const TensorId chosen = graph.add_tensor({7, 64}, DataType::f16, TensorRole::activation);
  const Op embedding =
      graph.add_op(OpKind::embedding, Phase::forward, -1, std::array{rows, indices}, std::array{chosen});
  EXPECT_EQ(embedding.flops, 0);
  EXPECT_EQ(embedding.bytes_read, 7 * 64 * 2 + 7 * 8);  // the chosen rows only
  const TensorId summed = graph.add_tensor({2, 64}, DataType::f16, TensorRole::activation);
  const Op bags = graph.add_op(OpKind::embedding, Phase::forward, -1, std::array{rows, indices}, std::array{summed});
  EXPECT_EQ(bags.bytes_read, 7 * 64 * 2 + 7 * 8);  // two bags of seven rows

  const TensorId filled = graph.add_tensor({5, 5}, DataType::f64, TensorRole::activation);
  const Op fill = graph.add_op(OpKind::fill, Phase::forward, -1, std::array{filled}, std::array{filled});
  EXPECT_EQ(fill.bytes_read, 0);
  EXPECT_EQ(fill.bytes_written, 200);

  const Op squared = graph.add_op(OpKind::addcmul, Phase::optimizer, -1, std::array{filled, y, y}, std::array{filled});
  EXPECT_EQ(squared.bytes_read, 200 + 4 * 2 * 12 * 64);  // an operand given twice is read once
}

TEST(OpGraph, ATransposedConvolutionMultipliesEachElementOfItsImage) {
  OpGraph graph;
  const TensorId x = graph.add_tensor({2, 8, 5, 5}, DataType::f32, TensorRole::activation);
  const TensorId weight = graph.add_tensor({8, 6, 2, 2}, DataType::f32, TensorRole::parameter);  // two groups
  const TensorId y = graph.add_tensor({2, 12, 10, 10}, DataType::f32, TensorRole::activation);
  const double forward = 2.0 * (2 * 8 * 5 * 5) * (6 * 2 * 2);
  EXPECT_EQ(graph.add_op(OpKind::convolution, Phase::forward, -1, std::array{x, weight}, std::array{y}, true).flops,
            forward);
  const Op backward = graph.add_op(OpKind::convolution_backward, Phase::backward, -1, std::array{y, x, weight},
                                   std::array{x, weight, no_tensor}, true);
  EXPECT_EQ(backward.flops, 2 * forward);
}

TEST(OpGraph, ProductsAreTwoMnk) {
  OpGraph graph;
  const TensorId a = graph.add_tensor({3, 5, 7}, DataType::f32, TensorRole::activation);
  const TensorId b = graph.add_tensor({3, 7, 11}, DataType::f32, TensorRole::activation);
  const TensorId c = graph.add_tensor({3, 5, 11}, DataType::f32, TensorRole::activation);
  EXPECT_EQ(graph.add_op(OpKind::bmm, Phase::forward, -1, std::array{a, b}, std::array{c}).flops, 2.0 * 3 * 5 * 7 * 11);
}

TEST(OpGraph, ASumOfProductsIsOfEachMatrix) {
  OpGraph graph;  // addbmm
  const TensorId sum = graph.add_tensor({5, 11}, DataType::f32, TensorRole::activation);
  const TensorId a = graph.add_tensor({3, 5, 7}, DataType::f32, TensorRole::activation);
  const TensorId b = graph.add_tensor({3, 7, 11}, DataType::f32, TensorRole::activation);
  EXPECT_EQ(graph.add_op(OpKind::baddbmm, Phase::forward, -1, std::array{sum, a, b}, std::array{sum}).flops,
            2.0 * 3 * 5 * 7 * 11);
}

/// Keys and values with fewer heads than queries, as in Llama; one operator and its backward.
TEST(OpGraph, AttentionIsTwoProductsForwardAndFiveBackward) {
  constexpr std::int64_t batch = 2, heads = 6, groups = 3, queries = 5, keys = 7, width = 4;
  OpGraph graph;
  const TensorId q = graph.add_tensor({batch, heads, queries, width}, DataType::bf16, TensorRole::activation);
  const TensorId k = graph.add_tensor({batch, groups, keys, width}, DataType::bf16, TensorRole::activation);
  const TensorId v = graph.add_like(k, TensorRole::activation), o = graph.add_like(q, TensorRole::activation);
  const TensorId sums = graph.add_tensor({batch, heads, queries}, DataType::f32, TensorRole::activation);
  const TensorId mask = graph.add_tensor({queries, keys}, DataType::u8, TensorRole::buffer);
  constexpr double product = 2.0 * batch * heads * queries * keys * width;
  constexpr std::int64_t q_bytes = 2 * batch * heads * queries * width, k_bytes = 2 * batch * groups * keys * width;
  constexpr std::int64_t sum_bytes = 4 * batch * heads * queries;

  const Op forward = graph.add_op(OpKind::attention, Phase::forward, -1, std::array{q, k, v}, std::array{o, sums});
  EXPECT_EQ(forward.flops, 2 * product);
  EXPECT_EQ(forward.bytes_read, q_bytes + 2 * k_bytes);
  EXPECT_EQ(forward.bytes_written, q_bytes + sum_bytes);
  const Op masked = graph.add_op(OpKind::attention, Phase::forward, -1, std::array{q, k, v, mask}, std::array{o, sums});
  EXPECT_EQ(masked.flops, forward.flops);
  EXPECT_EQ(masked.bytes_read, forward.bytes_read + queries * keys);
  const Op backward = graph.add_op(OpKind::attention_backward, Phase::backward, -1, std::array{o, q, k, v, o, sums},
                                   std::array{q, k, v});
  EXPECT_EQ(backward.flops, 5 * product);
  const Op causal =
      graph.add_op(OpKind::attention, Phase::forward, -1, std::array{q, k, v}, std::array{o, sums}, false, true);
  EXPECT_EQ(causal.flops, product);
  EXPECT_EQ(graph.totals().conv_matmul_flops, graph.totals().flops);
}

/// Operands of an RNN of `layers` layers and `directions` directions, as cuDNN takes them.
struct MadeRnn {
  std::int64_t positions = 7, batch = 3, input = 5, hidden = 6;
  OpGraph graph;
  std::vector<TensorId> read, weights;
  TensorId outputs = no_tensor, state = no_tensor;

  MadeRnn(std::int64_t gates, std::int64_t layers, std::int64_t directions, bool lstm) {
    const auto made = [&](const Shape& shape) {
      return graph.add_tensor(shape, DataType::f32, TensorRole::activation);
    };
    read.push_back(made({positions, batch, input}));
    for (std::int64_t i = 0; i < layers * directions; ++i) {
      const std::int64_t rows = gates * hidden;
      for (const Shape& shape :
           {Shape{rows, i < directions ? input : directions * hidden}, Shape{rows, hidden}, Shape{rows}, Shape{rows}}) {
        weights.push_back(made(shape));
      }
    }
    read.insert(read.end(), weights.begin(), weights.end());
    state = made({layers * directions, batch, hidden});
    read.push_back(state);
    if (lstm) read.push_back(made({layers * directions, batch, hidden}));
    outputs = made({positions, batch, directions * hidden});
  }
};

/// 2 B S G h (in + h) a layer and direction; the equations of torch.nn.LSTM, GRU and RNN for the cells.
TEST(OpGraph, ARecurrentNetworkMultipliesEachWeightOnceForEachPosition) {
  struct Expected {
    std::int64_t gates;
    double cell, cell_backward;  // FLOPs for each element of the hidden state
  };
  for (const auto& [gates, cell, cell_backward] : {Expected{4, 13, 12}, Expected{3, 11, 10}, Expected{1, 2, 1}}) {
    SCOPED_TRACE(gates);
    MadeRnn rnn(gates, 2, 2, gates == 4);
    const auto h = static_cast<double>(rnn.hidden), in = static_cast<double>(rnn.input);
    const auto positions = static_cast<double>(rnn.positions * rnn.batch);
    const double products = 2 * positions * static_cast<double>(gates) * h * (2 * (in + h) + 2 * (2 * h + h));
    const Op forward =
        rnn.graph.add_op(OpKind::rnn, Phase::forward, -1, rnn.read, std::array{rnn.outputs, rnn.state, rnn.state});
    EXPECT_EQ(forward.flops, products + cell * positions * 4 * h);
    EXPECT_EQ(rnn.graph.totals().conv_matmul_flops, products);
    std::int64_t bytes = 0;
    for (const TensorId id : rnn.read) bytes += rnn.graph.bytes(id);
    EXPECT_EQ(forward.bytes_read, bytes);
    std::vector<TensorId> read = rnn.read, gradients = {rnn.read[0]};
    read.push_back(rnn.outputs);
    gradients.insert(gradients.end(), rnn.weights.begin(), rnn.weights.end());
    const Op backward = rnn.graph.add_op(OpKind::rnn_backward, Phase::backward, -1, read, gradients);
    EXPECT_EQ(backward.flops, 2 * products + cell_backward * positions * 4 * h);
    EXPECT_EQ(rnn.graph.totals().conv_matmul_flops, 3 * products);
  }
}

TEST(OpGraph, DropoutInOneKernelWritesAByteForEachElement) {
  OpGraph graph;
  const TensorId x = graph.add_tensor({8, 16}, DataType::f16, TensorRole::activation);
  const TensorId y = graph.add_like(x, TensorRole::activation);
  const TensorId kept = graph.add_tensor({8, 16}, DataType::u8, TensorRole::activation);
  const Op op = graph.add_op(OpKind::native_dropout, Phase::forward, -1, std::array{x}, std::array{y, kept});
  EXPECT_EQ(op.flops, 8 * 16);
  EXPECT_EQ(op.bytes_read, 2 * 8 * 16);
  EXPECT_EQ(op.bytes_written, 3 * 8 * 16);
}

TEST(OpGraph, EveryOptimizerUpdatesEveryParameter) {
  struct Expected {
    Optimizer optimizer;
    std::int64_t ops;
    std::int64_t flops;      // of each parameter
    std::int64_t histories;  // state, in copies of the parameters
  };
  constexpr std::int64_t tensors = 62;
  for (const auto& [optimizer, ops, flops, histories] :
       {Expected{Optimizer::none, 0, 0, 0}, Expected{Optimizer::sgd, 1, 1, 0}, Expected{Optimizer::nesterov, 1, 4, 1},
        Expected{Optimizer::adam, 1, 8, 2}, Expected{Optimizer::adamw, 1, 9, 2}, Expected{Optimizer::adagrad, 1, 4, 1},
        Expected{Optimizer::rmsprop, 5 * tensors, 5, 1}, Expected{Optimizer::adadelta, 11 * tensors, 11, 2}}) {
    SCOPED_TRACE(to_string(optimizer));
    Workload workload = Workload::zoo("resnet18", 2);
    workload.optimizer = optimizer;
    const OpGraph graph = workload.graph();
    const std::int64_t counter = optimizer == Optimizer::none ? 0 : 1;  // of steps
    EXPECT_EQ(graph.totals(Phase::optimizer).ops, ops + counter);
    EXPECT_EQ(graph.totals(Phase::optimizer).flops, static_cast<double>(flops * graph.params() + counter));
    std::int64_t state = 0;
    for (const Tensor& tensor : graph.tensors()) {
      if (tensor.role == TensorRole::optimizer_state) state += tensor.bytes;
    }
    EXPECT_EQ(state, histories * 4 * graph.params() + 4 * counter);
  }
}

TEST(OpGraph, AFusedUpdateReadsAndWritesEverythingOnce) {
  Workload workload = Workload::zoo("resnet18", 2);
  const OpTotals adam = workload.graph().totals(OpKind::fused_adam);
  EXPECT_EQ(adam.bytes_read, 4 * 4 * workload.params() + 4);  // parameters, gradients, two moments; the counter
  EXPECT_EQ(adam.bytes_written, 3 * 4 * workload.params());
  workload.optimizer = Optimizer::sgd;
  const OpTotals sgd = workload.graph().totals(OpKind::fused_sgd);
  EXPECT_EQ(sgd.bytes_read, 2 * 4 * workload.params());
  EXPECT_EQ(sgd.bytes_written, 4 * workload.params());
}

TEST(OpGraph, HalfPrecisionWithSmallExponentsScalesItsGradients) {
  Workload workload = Workload::zoo("resnet18", 2);
  workload.precision = Precision::bf16;
  const OpGraph plain = workload.graph();
  EXPECT_EQ(plain.totals(OpKind::unscale_gradients).ops, 0);
  workload.precision = Precision::fp16;
  const OpGraph scaled = workload.graph();
  const OpTotals unscale = scaled.totals(OpKind::unscale_gradients);
  EXPECT_EQ(unscale.ops, 1);
  EXPECT_EQ(unscale.flops, static_cast<double>(workload.params() + 1));
  EXPECT_EQ(unscale.bytes(), 2 * 4 * workload.params() + 3 * 4);
  // The loss and its gradient are multiplied; the flag is cleared, the factor inverted; steps not taken are not
  // counted.
  EXPECT_EQ(scaled.totals(Phase::backward).ops, plain.totals(Phase::backward).ops + 2 + 3);
  EXPECT_EQ(scaled.totals(Phase::optimizer).ops, plain.totals(Phase::optimizer).ops + 2);
}

TEST(OpGraph, HalfPrecisionHalvesTheBytesOfConvolutions) {
  Workload workload = Workload::zoo("vgg11", 2);
  const OpTotals full = workload.graph().totals(OpKind::convolution);
  for (const Precision precision : {Precision::bf16, Precision::fp16}) {
    workload.precision = precision;
    const OpGraph graph = workload.graph();
    EXPECT_EQ(graph.totals(OpKind::convolution).bytes(), full.bytes() / 2);
    EXPECT_EQ(graph.totals(OpKind::convolution).flops, full.flops);
  }
  workload.precision = Precision::fp64;
  EXPECT_EQ(workload.graph().totals(OpKind::convolution).bytes(), 2 * full.bytes());
}

TEST(OpGraph, ScalesWithTheBatch) {
  const OpGraph one = Workload::zoo("googlenet", 1).graph();
  const OpGraph eight = Workload::zoo("googlenet", 8).graph();
  EXPECT_EQ(eight.ops().size(), one.ops().size());
  EXPECT_EQ(eight.totals(Phase::forward).conv_matmul_flops, 8 * one.totals(Phase::forward).conv_matmul_flops);
  EXPECT_EQ(eight.totals(Phase::optimizer).bytes(), one.totals(Phase::optimizer).bytes());
}

/// A network of two parallel linear layers; only the second one leads to the loss.
TEST(TrainingStep, AParameterThatTheLossDoesNotDependOnIsRefused) {
  Network network;
  network.name = "fork";
  const auto linear = [](std::uint32_t first_input) {
    Layer layer;
    layer.kind = LayerKind::linear;
    layer.first_input = first_input;
    layer.input_count = 1;
    layer.in_channels = layer.out_channels = 4;
    layer.output = {2, 4};
    return layer;
  };
  Layer input;
  input.output = {2, 4};
  network.layers = {input, linear(0), linear(1)};
  network.edges = {0, 1};  // one after the other
  EXPECT_EQ(training_step(network, {Optimizer::adam, Precision::fp32}).totals(OpKind::fused_adam).ops, 1);
  network.edges = {0, 0};
  EXPECT_THROW(static_cast<void>(training_step(network, {Optimizer::adam, Precision::fp32})), Error);
}

TEST(OpGraph, GradientsMeetWhereANetworkForks) {
  // A residual block without projection adds twice: forward once, backward once where both gradients meet.
  const OpGraph graph = Workload::zoo("resnet18", 1).graph();
  EXPECT_EQ(graph.totals(OpKind::add).ops, 8 + 8 + 20 + 1);  // sums, meetings, batch counters, Adam's counter
}

TEST(Shape, RefusesWhatIsNoShape) {
  EXPECT_THROW(Shape({-1}), InputError);
  EXPECT_THROW(static_cast<void>(Shape({std::int64_t{1} << 40, std::int64_t{1} << 40}).numel()), InputError);
  EXPECT_EQ(Shape({}).numel(), 1);
  EXPECT_EQ(Shape({2, 3, 4}).text(), "2x3x4");
}

}  // namespace
TEST(OpTraits, EachNameOfLibTorchHasOneKind) {
  EXPECT_EQ(kind_of_name("_convolution"), OpKind::convolution);
  EXPECT_EQ(kind_of_name("addbmm"), OpKind::baddbmm);
  EXPECT_EQ(kind_of_name("_scaled_dot_product_flash_attention_for_cpu_backward"), OpKind::attention_backward);
  EXPECT_EQ(kind_of_name("zeros_like"), OpKind::fill);
  EXPECT_EQ(kind_of_name("relu"), OpKind::relu);
  EXPECT_EQ(kind_of_name("abs"), OpKind::other);  // the first and the last of a list's words
  EXPECT_EQ(kind_of_name("lcm"), OpKind::other);
  for (const std::string_view name : {"", " ", "zeros_lik", "eros_like", "unknown", "other"}) {
    EXPECT_EQ(kind_of_name(name), OpKind::unknown) << name;
    EXPECT_FALSE(computes_nothing(name)) << name;
  }
  EXPECT_TRUE(computes_nothing("empty"));
  EXPECT_TRUE(computes_nothing("transpose"));
}

TEST(LayerRules, EveryKindOfLayerHasItsOwn) {
  for (std::size_t i = 0; i < layer_kinds; ++i) EXPECT_EQ(rule_of(static_cast<LayerKind>(i)).kind, LayerKind(i));
}

}  // namespace perfpred
