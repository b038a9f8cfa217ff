// SPDX-License-Identifier: Apache-2.0
// Losses against closed forms, as they are traced, and networks that return theirs; types of elements in traces.
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/torch/net_trainer.h>
#include <perfpred/torch/trace.h>

#include <gmock/gmock.h>
#include <torch/fft.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cmath>
#include <memory>
#include <string>
#include <vector>

#include "../refusal.h"
#include "../temporary_folder.h"
#include "small_training.h"
#include "torch/step/loss.h"

namespace perfpred {
namespace {

using at::Tensor;
using ::testing::Contains;
using ::testing::HasSubstr;
using ::testing::Not;

double value(const Loss& loss, const Tensor& logits, const Tensor& targets) {
  return loss_of(loss, logits, targets).item<double>();
}

TEST(Losses, AreThoseOfTheirEquations) {
  const Tensor zeros = torch::zeros({2, 4});
  const Tensor classes = torch::tensor({1, 3});
  EXPECT_NEAR(value({}, zeros, classes), std::log(4), 1e-6);
  EXPECT_NEAR(value({LossKind::cross_entropy, true}, zeros, classes), 2 * std::log(4), 1e-6);
  EXPECT_NEAR(value({LossKind::mse}, zeros, classes), 1.0 / 4, 1e-6);  // one of four numbers is off by 1
  EXPECT_NEAR(value({LossKind::mse, true}, zeros, classes), 2, 1e-6);
  EXPECT_NEAR(value({LossKind::bce_with_logits}, zeros, classes), std::log(2), 1e-6);
  EXPECT_NEAR(value({LossKind::bce_with_logits, true}, zeros, classes), 8 * std::log(2), 1e-6);

  // Probabilities 3/4 and 1/4; a fifth of the target's goes to both classes.
  const Tensor logits = torch::tensor({{std::log(3.0F), 0.0F}});
  const Tensor first = torch::tensor({0});
  EXPECT_NEAR(value({LossKind::cross_entropy, false, 0.2}, logits, first), -0.9 * std::log(0.75) - 0.1 * std::log(0.25),
              1e-6);
  EXPECT_NEAR(value({LossKind::mse, true, 0.2}, torch::zeros({1, 2}), first), 0.9 * 0.9 + 0.1 * 0.1, 1e-6);
  EXPECT_NEAR(value({LossKind::bce_with_logits, true, 0.2}, logits, first),
              -0.9 * std::log(0.75) - 0.1 * std::log(0.25) + std::log(2), 1e-6);  // sigmoid(ln 3) = 3/4

  const Tensor words = torch::zeros({2, 5, 4});
  EXPECT_NEAR(value({LossKind::mse}, words, torch::ones({2, 5}, torch::kLong)), 1.0 / 4, 1e-6);
  EXPECT_NEAR(value({LossKind::mse}, zeros, torch::full({2, 4}, 3.0)), 9, 1e-6);  // numbers, not classes
  EXPECT_THAT(testing::refusal([] { (void)parse_loss_kind("hinge"); }), HasSubstr("cross_entropy, mse"));
  EXPECT_EQ(parse_loss_kind("bce_with_logits"), LossKind::bce_with_logits);
}

/// A linear layer, and what `after` makes of its result.
ModuleToTrace linear_then(Tensor (*after)(const Tensor&)) {
  struct Linear : torch::nn::Module {
    Tensor weight = register_parameter("weight", torch::empty({16, 8}));
  };
  auto module = std::make_shared<Linear>();
  return {module, [module = module.get(), after](const std::vector<Tensor>& inputs) {
            return after(at::linear(inputs.at(0), module->weight));
          }};
}

OpGraph traced(Tensor (*after)(const Tensor&), const Loss& loss, Precision precision = Precision::fp32) {
  StepTracer tracer([&] { return linear_then(after); }, precision);
  const InputSpec input{{4, 8}, DataType::f32};
  return tracer.trace({&input, 1}, Optimizer::sgd, loss);
}

Tensor same(const Tensor& x) { return x; }

std::vector<std::string> names(const OpGraph& step, Phase phase) {
  std::vector<std::string> all;
  for (const Op& op : step.ops()) {
    if (op.phase == phase) all.emplace_back(step.name(op));
  }
  return all;
}

TEST(Losses, AreTracedAsLibTorchExecutesThem) {
  const OpGraph mse = traced(same, {LossKind::mse});
  EXPECT_THAT(names(mse, Phase::loss), ::testing::ElementsAre("mse_loss"));
  EXPECT_EQ(mse.totals(Phase::loss).bytes_read, 2 * 4 * 16 * 4);
  EXPECT_THAT(names(mse, Phase::backward), Contains("mse_loss_backward"));

  // max(-x, 0) + log(exp(-max) + exp(-x - max)) of PyTorch is log_sigmoid: (1 - y) x - log_sigmoid(x), then the mean.
  const OpGraph bce = traced(same, {LossKind::bce_with_logits});
  EXPECT_THAT(names(bce, Phase::loss), Contains(HasSubstr("log_sigmoid")));
  EXPECT_EQ(bce.totals(OpKind::unknown).ops, 0) << ::testing::PrintToString(names(bce, Phase::loss));

  const OpGraph plain = traced(same, {}), smooth = traced(same, {LossKind::cross_entropy, false, 0.1});
  EXPECT_THAT(names(plain, Phase::loss), ::testing::ElementsAre("log_softmax", "nll_loss"));
  EXPECT_THAT(names(smooth, Phase::loss), Contains("sum"));  // of all classes' logarithms
  EXPECT_EQ(smooth.totals(OpKind::unknown).ops, 0);
  for (const LossKind kind : {LossKind::cross_entropy, LossKind::mse}) {  // a sum does not divide
    EXPECT_EQ(traced(same, {kind, true}).totals(Phase::forward).flops, plain.totals(Phase::forward).flops);
    EXPECT_EQ(names(traced(same, {kind, true}), Phase::loss), names(traced(same, {kind}), Phase::loss));
  }
  // CUDA computes these losses in single precision: a copy of the logits before.
  EXPECT_THAT(names(traced(same, {LossKind::mse}, Precision::bf16), Phase::loss), Contains("copy"));
}

TEST(Losses, OfTheNetworkItselfAreTaken) {
  const auto own = [](const Tensor& x) { return x.square().sum(); };
  const OpGraph step = traced(own, {});
  EXPECT_THAT(names(step, Phase::loss), ::testing::IsEmpty());
  EXPECT_EQ(step.totals(Phase::backward).conv_matmul_flops, 2.0 * 4 * 8 * 16);
  EXPECT_THAT(testing::refusal([&] { (void)traced(own, {LossKind::mse}); }), HasSubstr("returns a loss itself"));
  const OpGraph one_each = traced([](const Tensor& x) { return x.sum(1); }, {LossKind::cross_entropy, true});
  EXPECT_THAT(names(one_each, Phase::loss), ::testing::ElementsAre("sum"));
}

TEST(Types, OfAllKindsAreTraced) {
  const OpGraph complex =
      traced([](const Tensor& x) { return at::real(at::fft_ifft(at::fft_fft(x))).square().sum(); }, {});
  bool has_complex = false;
  for (const auto& tensor : complex.tensors())
    has_complex |= tensor.type == DataType::c64 && tensor.bytes == 4 * 16 * 8;
  EXPECT_TRUE(has_complex);
  struct Case {
    at::ScalarType type;
    DataType counted;
    std::int64_t bytes;
  };
  static at::ScalarType type;  // of the conversion inside
  for (const Case& one : {Case{at::kShort, DataType::i16, 2}, Case{at::kFloat8_e4m3fn, DataType::f8, 1},
                          Case{at::kFloat8_e5m2, DataType::f8, 1}, Case{at::kComplexDouble, DataType::c128, 16}}) {
    type = one.type;
    const OpGraph step =
        traced([](const Tensor& x) { return (x + at::real(x.detach().to(type).to(at::kFloat))).sum(); }, {});
    bool found = false;
    for (const Op& op : step.ops()) {
      if (op.kind != OpKind::copy || step.outputs(op).empty()) continue;
      const auto& result = step.tensors()[step.outputs(op)[0]];
      found |= result.type == one.counted && op.bytes_written == 4 * 16 * one.bytes;
    }
    EXPECT_TRUE(found) << to_string(one.counted);
  }
}

TEST(Losses, AreLearnt) {
  for (const LossKind kind : {LossKind::mse, LossKind::bce_with_logits}) {
    TrainNetOptions options = testing::small(3, "");
    options.loss.kind = kind;
    const TrainNetResult result = testing::run(options);
    EXPECT_LT(result.epochs.back().train_loss, result.epochs.front().train_loss) << to_string(kind);
  }
}

}  // namespace
}  // namespace perfpred
