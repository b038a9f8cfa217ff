// SPDX-License-Identifier: Apache-2.0
// Traced steps: of networks of the zoo, and of modules of others.
#include <perfpred/device.h>
#include <perfpred/op_rule_registry.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/nn/module.h>
#include <torch/types.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "../refusal.h"
#include "zoo_steps.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

TEST(StepTracer, AgreesWithTheAnalyticGraphForEveryNetworkOfTheZoo) {
  for (const std::string_view name : zoo_networks()) {
    SCOPED_TRACE(name);
    const Workload network = Workload::zoo(name, 2);
    expect_equal(step_of(network, Optimizer::adam, Precision::fp32), traced(network, Optimizer::adam));
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphForOneSample) {  // where some copies are views
  for (const std::string_view name : zoo_networks()) {
    SCOPED_TRACE(name);
    const Workload network = Workload::zoo(name, 1);
    expect_equal(step_of(network, Optimizer::sgd, Precision::fp32), traced(network, Optimizer::sgd));
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphForTheCifarFamily) {
  for (int depth = 1; depth <= 5; ++depth) {
    SCOPED_TRACE(depth);
    const Workload network = Workload::cifar_cnn(depth, 16, 32);
    expect_equal(step_of(network, Optimizer::adam, Precision::fp32), traced(network, Optimizer::adam));
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphForEveryOptimizer) {
  const Workload network = Workload::zoo("resnet18", 4);
  for (const Optimizer optimizer : {Optimizer::none, Optimizer::sgd, Optimizer::nesterov, Optimizer::adam,
                                    Optimizer::adamw, Optimizer::adagrad, Optimizer::adadelta, Optimizer::rmsprop}) {
    SCOPED_TRACE(to_string(optimizer));
    expect_equal(step_of(network, optimizer, Precision::fp32), traced(network, optimizer));
    expect_equal(step_of(network, optimizer, Precision::fp16), traced(network, optimizer, Precision::fp16));
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphInDoublePrecision) {
  const Workload network = Workload::zoo("resnet18", 4);
  expect_equal(step_of(network, Optimizer::sgd, Precision::fp64), traced(network, Optimizer::sgd, Precision::fp64));
}

TEST(StepTracer, AgreesWithTheAnalyticGraphInMixedPrecision) {
  for (const std::string_view name : zoo_networks()) {
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      SCOPED_TRACE(std::string(name) + " in " + std::string(to_string(precision)));
      const Workload network = Workload::zoo(name, 2);
      expect_equal(step_of(network, Optimizer::sgd, precision), traced(network, Optimizer::sgd, precision));
    }
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphInChannelsLast) {  // where flattening an image may copy it
  std::vector<Workload> jobs = {Workload::cifar_cnn(2, 1, 2), Workload::cifar_cnn(1, 1, 2),
                                Workload::cifar_cnn(5, 4, 2)};  // one channel, one pixel: no copy
  for (const std::string_view name : zoo_networks()) jobs.push_back(Workload::zoo(name, 2));
  int copying = 0;
  for (Workload& job : jobs) {
    job.optimizer = Optimizer::sgd;
    for (const Precision precision : {Precision::fp32, Precision::bf16}) {
      SCOPED_TRACE(job.network + " in " + std::string(to_string(precision)));
      job.precision = precision;
      job.layout = Layout::nchw;
      const std::int64_t copies = job.graph().totals(OpKind::copy).ops;
      job.layout = Layout::nhwc;
      const OpGraph step = job.graph();
      expect_equal(step, traced(job, Optimizer::sgd, precision));
      copying += step.totals(OpKind::copy).ops > copies ? 1 : 0;
    }
  }
  EXPECT_EQ(copying, 2 * (1 + 8 + 1));  // a small CNN, VGG, AlexNet
}

TEST(StepTracer, AgreesWithTheAnalyticGraphOfWrittenOutAttention) {
  for (const char* name : {"vit_b_32", "bert_base", "transformer:layers=2,hidden=32,heads=4,vocab=50"}) {
    for (const Precision precision : {Precision::fp32, Precision::fp16}) {
      SCOPED_TRACE(std::string(name) + " in " + std::string(to_string(precision)));
      for (const std::int64_t batch : {1, 2}) {
        Workload workload = Workload::zoo(name, batch);
        workload.attention = Attention::eager;
        const OpGraph analytic = step_of(workload, Optimizer::sgd, precision);
        EXPECT_EQ(analytic.totals(OpKind::attention).ops, 0);
        expect_equal(analytic, traced(workload, Optimizer::sgd, precision));
      }
    }
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphOnEveryDevice) {  // dropout, biases, attention and lists are recognised
  for (const char* name :
       {"vgg11", "convnext_tiny", "efficientnet_b0", "vit_b_32", "transformer:layers=2,hidden=32,heads=4,vocab=50"}) {
    for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::fp64}) {
      const Workload network = Workload::zoo(name, 2);
      const OpGraph analytic = step_of(network, Optimizer::adam, precision);
      const OpGraph trace = traced(network, Optimizer::adam, precision);
      for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
        SCOPED_TRACE(fmt::format("{} in {} on {}", name, to_string(precision), to_string(device)));
        expect_equal(execute(analytic, device).graph(), execute(trace, device).graph());
      }
    }
  }
}

TEST(StepTracer, GradientsOfBiasesAreGradients) {
  const Workload network = Workload::zoo("alexnet", 16);
  const auto gradients = [](const OpGraph& step) {
    return estimate_memory(execute(step, DeviceKind::gpu), TrainingJob()).gradients;
  };
  EXPECT_EQ(gradients(traced(network, Optimizer::adam)), gradients(step_of(network, Optimizer::adam)));
}

TEST(StepTracer, GivesTheSameStepAgain) {
  const Workload network = Workload::zoo("mobilenet_v2", 2);
  const InputSpec input = input_of(network);
  StepTracer tracer = StepTracer::network(network);
  const OpGraph first = tracer.trace({&input, 1}, Optimizer::nesterov);
  expect_equal(first, tracer.trace({&input, 1}, Optimizer::nesterov));
}

// ---- Modules of others ----

/// One weight, and an operator that LibTorch does not have.
struct Custom : torch::nn::Module {
  Custom() : weight(register_parameter("weight", torch::empty({16, 8}))) {}
  at::Tensor forward(const at::Tensor& x) {
    static const auto twice = c10::Dispatcher::singleton()
                                  .findSchemaOrThrow("perfpred_test::twice", "")
                                  .typed<at::Tensor(const at::Tensor&)>();
    return at::linear(twice.call(x), weight);
  }
  at::Tensor weight;
};

ModuleToTrace make_custom() {
  load_operators(PERFPRED_TEST_OPERATORS);  // again is not an error
  auto module = std::make_shared<Custom>();
  EXPECT_TRUE(module->weight.is_meta());
  return {module,
          [module = module.get()](const std::vector<at::Tensor>& inputs) { return module->forward(inputs.at(0)); }};
}

TEST(StepTracer, CountsTheBytesOfUnknownOperatorsUntilTheirRuleIsRegistered) {
  StepTracer tracer(make_custom);
  EXPECT_EQ(tracer.params(), 128);
  const InputSpec input{{4, 8}, DataType::f32};
  const OpGraph before = tracer.trace({&input, 1}, Optimizer::sgd);
  ASSERT_EQ(before.totals(OpKind::unknown).ops, 1);
  EXPECT_EQ(before.name(before.ops()[0]), "perfpred_test::twice");
  EXPECT_EQ(before.totals(OpKind::unknown).bytes_read, 4 * 8 * 4);
  EXPECT_EQ(before.totals(OpKind::unknown).bytes_written, 4 * 8 * 4);

  register_op(
      "perfpred_test::twice", [](auto inputs, auto) { return 3.0 * static_cast<double>(inputs[0].numel()); },
      [](auto inputs, auto outputs) { return 8.0 * static_cast<double>(inputs[0].numel() + outputs[0].numel()); });
  const OpGraph after = tracer.trace({&input, 1}, Optimizer::sgd);
  EXPECT_EQ(after.totals(OpKind::unknown).ops, 0);
  EXPECT_EQ(after.totals(OpKind::custom).flops, 3 * 4 * 8);
  EXPECT_EQ(after.totals(OpKind::custom).bytes(), 8 * 2 * 4 * 8);
  EXPECT_THAT(testing::refusal([] { register_op("twice", {}, {}); }), HasSubstr("like mylib::attention"));
}

/// A step of `forward`, with one weight of the shape.
OpGraph step_of_function(const std::vector<std::int64_t>& weight, const std::vector<std::int64_t>& input,
                         at::Tensor (*forward)(const at::Tensor& x, const at::Tensor& weight)) {
  StepTracer tracer([&] {
    auto module = std::make_shared<torch::nn::Module>("Net");
    const at::Tensor parameter = module->register_parameter("weight", torch::empty(weight));
    return ModuleToTrace{module, [parameter, forward](const std::vector<at::Tensor>& inputs) {
                           return forward(inputs.at(0), parameter);
                         }};
  });
  const InputSpec spec{input, DataType::f32};
  return tracer.trace({&spec, 1}, Optimizer::sgd);
}

TEST(StepTracer, CountsTransposedConvolutions) {
  const OpGraph step = step_of_function({6, 3, 3, 3}, {2, 6, 8, 8}, [](const at::Tensor& x, const at::Tensor& weight) {
    const at::Tensor y = at::conv_transpose2d(x, weight, {}, 2, 0, 0, 2);
    return at::conv_transpose2d(y, weight, {}, 1, 0, 0, 2).mean({2, 3});
  });
  const double first = 2.0 * (2 * 6 * 8 * 8) * (3 * 3 * 3);
  const double second = 2.0 * (2 * 6 * 17 * 17) * (3 * 3 * 3);
  EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, first + second);
  EXPECT_EQ(step.totals(Phase::backward).conv_matmul_flops, first + 2 * second);
}

TEST(StepTracer, HasAttentionAsOneOperator) {
  const OpGraph step = step_of_function({6, 27}, {2, 3, 8, 4}, [](const at::Tensor& x, const at::Tensor& weight) {
    return at::scaled_dot_product_attention(x * weight.sum(), x, x, {}, 0.1, true).flatten(1);
  });
  constexpr double product = 2.0 * 2 * 3 * 8 * 8 * 4;
  EXPECT_EQ(step.totals(OpKind::attention).flops, 2 * product / 2);  // causal
  EXPECT_EQ(step.totals(OpKind::attention_backward).flops, 5 * product / 2);
  EXPECT_EQ(step.totals(OpKind::unknown).ops, 0);
}

TEST(StepTracer, CountsAllProductsOfASum) {
  const OpGraph step = step_of_function({6, 27}, {16, 8, 8}, [](const at::Tensor& x, const at::Tensor& weight) {
    return at::addbmm(x.select(0, 0), x, x) * weight.sum();
  });
  EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, 2.0 * 16 * 8 * 8 * 8);
}

TEST(StepTracer, ComputesWithAllElementsOfWhatIsExpanded) {  // as the gradient of a sum is
  const OpGraph images =
      step_of_function({6, 3, 3, 3}, {2, 3, 8, 8}, [](const at::Tensor& x, const at::Tensor& weight) {
        return at::conv2d(x, weight, {}, 1, 1).sum({2, 3});
      });
  EXPECT_EQ(images.totals(Phase::backward).conv_matmul_flops, 2.0 * 2 * 6 * 64 * 27);  // the weight's

  const OpGraph vectors = step_of_function({6, 27}, {4, 6}, [](const at::Tensor& x, const at::Tensor& weight) {
    return at::mm(at::mm(x, weight), weight.t()).sum(1, true).expand({4, 5});
  });
  constexpr double product = 2.0 * 4 * 6 * 27;
  EXPECT_EQ(vectors.totals(Phase::forward).conv_matmul_flops, 2 * product);
  EXPECT_EQ(vectors.totals(Phase::backward).conv_matmul_flops, 3 * product);  // x gets no gradient
}

TEST(StepTracer, RefusesALoopThatDoesNotEnd) {
  EXPECT_THAT(
      testing::refusal([] {
        (void)step_of_function({6, 6}, {4, 6}, [](const at::Tensor& x, const at::Tensor& weight) {
          at::Tensor y = x;
          while (y.sum().gt(0).item<bool>()) y = y * weight.sum();
          return y;
        });
      }),
      AllOf(HasSubstr("the forward pass executes more than 150000 operators"), ::testing::Not(HasSubstr("\n"))));
}

TEST(StepTracer, NamesTheConvolutionWhoseInputsDoNotFit) {
  EXPECT_THAT(testing::refusal([] {
                (void)step_of_function({6, 3, 3, 3}, {2, 4, 8, 8}, [](const at::Tensor& x, const at::Tensor& weight) {
                  return at::conv2d(x, weight, {}, 1, 1).mean({2, 3});
                });
              }),
              AllOf(HasSubstr("aten::convolution(2x4x8x8, 6x3x3x3)"), HasSubstr("4 channels")));
}

TEST(StepTracer, NamesTheOperatorWhoseInputsDoNotFit) {
  StepTracer tracer([] {
    auto module = std::make_shared<Custom>();
    return ModuleToTrace{module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
                           return at::linear(inputs.at(0), module->weight);
                         }};
  });
  const InputSpec wrong{{4, 9}, DataType::f32};
  EXPECT_THAT(testing::refusal([&] {
                (void)tracer.trace({&wrong, 1}, Optimizer::sgd);
              }),
              AllOf(HasSubstr("aten::mm(4x9, 8x16)"), HasSubstr("cannot be multiplied")));
  const InputSpec right{{4, 8}, DataType::f32};
  EXPECT_EQ(tracer.trace({&right, 1}, Optimizer::sgd).totals(Phase::forward).flops, 2 * 4 * 8 * 16);
}

}  // namespace
}  // namespace perfpred
