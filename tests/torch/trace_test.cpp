// SPDX-License-Identifier: Apache-2.0
// Networks of the zoo as modules, and traced steps: of modules, of the zoo, of TorchScript files.
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/network.h>
#include <perfpred/torch/net_trainer.h>
#include <perfpred/torch/network_module.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <ATen/Functions.h>
#include <ATen/Parallel.h>
#include <ATen/record_function.h>
#include <caffe2/serialize/inline_container.h>
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/library.h>
#include <torch/optim/adam.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <fstream>
#include <map>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "../temporary_folder.h"
#include "torch/device/memory_peak.h"
#include "torch/files/checkpoint.h"
#include "torch/train/loss.h"
#include "torch/train/trainable_network.h"
#include "torch/train/training_step.h"
#include "zoo_steps.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string message_of(const std::function<void()>& call) {
  try {
    call();
  } catch (const InputError& error) {
    return error.what();
  }
  return "nothing was thrown";
}

TEST(StepTracer, AgreesWithTheAnalyticGraphForEveryNetworkOfTheZoo) {
  for (const std::string_view name : zoo_networks()) {
    SCOPED_TRACE(name);
    const Network network = build_network(Workload::zoo(name, 2));
    expect_equal(training_step(network, Optimizer::adam, Precision::fp32), traced(network, Optimizer::adam));
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphForOneSample) {  // where some copies are views
  for (const std::string_view name : zoo_networks()) {
    SCOPED_TRACE(name);
    const Network network = build_network(Workload::zoo(name, 1));
    expect_equal(training_step(network, Optimizer::sgd, Precision::fp32), traced(network, Optimizer::sgd));
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphForTheCifarFamily) {
  for (int depth = 1; depth <= 5; ++depth) {
    SCOPED_TRACE(depth);
    const Network network = build_network(Workload::cifar_cnn(depth, 16, 32));
    expect_equal(training_step(network, Optimizer::adam, Precision::fp32), traced(network, Optimizer::adam));
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphForEveryOptimizer) {
  const Network network = build_network(Workload::zoo("resnet18", 4));
  for (const Optimizer optimizer : {Optimizer::none, Optimizer::sgd, Optimizer::nesterov, Optimizer::adam,
                                    Optimizer::adamw, Optimizer::adagrad, Optimizer::adadelta, Optimizer::rmsprop}) {
    SCOPED_TRACE(to_string(optimizer));
    expect_equal(training_step(network, optimizer, Precision::fp32), traced(network, optimizer));
    expect_equal(training_step(network, optimizer, Precision::fp16), traced(network, optimizer, Precision::fp16));
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphInDoublePrecision) {
  const Network network = build_network(Workload::zoo("resnet18", 4));
  expect_equal(training_step(network, Optimizer::sgd, Precision::fp64),
               traced(network, Optimizer::sgd, Precision::fp64));
}

TEST(StepTracer, AgreesWithTheAnalyticGraphInMixedPrecision) {
  for (const std::string_view name : zoo_networks()) {
    for (const Precision precision : {Precision::bf16, Precision::fp16}) {
      SCOPED_TRACE(std::string(name) + " in " + std::string(to_string(precision)));
      const Network network = build_network(Workload::zoo(name, 2));
      expect_equal(training_step(network, Optimizer::sgd, precision), traced(network, Optimizer::sgd, precision));
    }
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphOfWrittenOutAttention) {
  for (const char* name : {"vit_b_32", "bert_base", "transformer:layers=2,hidden=32,heads=4,vocab=50"}) {
    for (const Precision precision : {Precision::fp32, Precision::fp16}) {
      SCOPED_TRACE(std::string(name) + " in " + std::string(to_string(precision)));
      for (const std::int64_t batch : {1, 2}) {
        Workload workload = Workload::zoo(name, batch);
        workload.attention = Attention::eager;
        const Network network = build_network(workload);
        const OpGraph analytic = training_step(network, Optimizer::sgd, precision);
        EXPECT_EQ(analytic.totals(OpKind::attention).ops, 0);
        expect_equal(analytic, traced(network, Optimizer::sgd, precision));
      }
    }
  }
}

TEST(StepTracer, AgreesWithTheAnalyticGraphOnEveryDevice) {  // dropout, biases, attention and lists are recognised
  for (const char* name :
       {"vgg11", "convnext_tiny", "efficientnet_b0", "vit_b_32", "transformer:layers=2,hidden=32,heads=4,vocab=50"}) {
    for (const Precision precision : {Precision::fp32, Precision::fp16, Precision::fp64}) {
      const Network network = build_network(Workload::zoo(name, 2));
      const OpGraph analytic = training_step(network, Optimizer::adam, precision);
      const OpGraph trace = traced(network, Optimizer::adam, precision);
      for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
        SCOPED_TRACE(fmt::format("{} in {} on {}", name, to_string(precision), to_string(device)));
        expect_equal(lower(analytic, device), lower(trace, device));
      }
    }
  }
}

TEST(StepTracer, GivesTheSameStepAgain) {
  const Network network = build_network(Workload::zoo("mobilenet_v2", 2));
  const InputSpec input = input_of(network);
  StepTracer tracer = StepTracer::network(network, Precision::fp32);
  const OpGraph first = tracer.trace({&input, 1}, Optimizer::nesterov);
  expect_equal(first, tracer.trace({&input, 1}, Optimizer::nesterov));
}

// ---- Modules of others ----

at::Tensor twice(const at::Tensor& x) { return x * 2; }

TORCH_LIBRARY(perfpred_test, library) {
  library.def("twice(Tensor x) -> Tensor");
  library.impl("twice", c10::DispatchKey::CPU, TORCH_FN(twice));
}

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
  EXPECT_THAT(message_of([] { register_op("twice", {}, {}); }), HasSubstr("namespace"));
}

TEST(StepTracer, NamesTheOperatorWhoseInputsDoNotFit) {
  StepTracer tracer([] {
    auto module = std::make_shared<Custom>();
    return ModuleToTrace{module, [module = module.get()](const std::vector<at::Tensor>& inputs) {
                           return at::linear(inputs.at(0), module->weight);
                         }};
  });
  const InputSpec wrong{{4, 9}, DataType::f32};
  EXPECT_THAT(message_of([&] {
                (void)tracer.trace({&wrong, 1}, Optimizer::sgd);
              }),
              AllOf(HasSubstr("aten::mm(4x9, 8x16)"), HasSubstr("cannot be multiplied")));
  const InputSpec right{{4, 8}, DataType::f32};
  EXPECT_EQ(tracer.trace({&right, 1}, Optimizer::sgd).totals(Phase::forward).flops, 2 * 4 * 8 * 16);
}

// ---- TorchScript ----

std::string save_torchscript(const testing::TemporaryFolder& folder, const std::string& source) {
  torch::jit::Module module("Net");
  module.register_parameter("weight", torch::ones({6, 3, 3, 3}, torch::requires_grad()), false);
  module.register_attribute("training", c10::BoolType::get(), true);
  module.define(source);
  module.save(folder.file("net.pt"));
  return folder.file("net.pt");
}

constexpr const char* network_source = R"(
def forward(self, x):
    y = torch.relu(torch.conv2d(x, self.weight, None, [1, 1], [1, 1]))
    if self.training:
        y = y * torch.ones([1], device=y.device)
    return y.mean([2, 3])
)";

TEST(TorchScript, IsTracedFromItsFile) {
  const testing::TemporaryFolder folder;
  StepTracer tracer = StepTracer::torchscript(save_torchscript(folder, network_source));
  EXPECT_EQ(tracer.params(), 6 * 27);
  const InputSpec input{{2, 3, 8, 8}, DataType::f32};
  const OpGraph step = tracer.trace({&input, 1}, Optimizer::adam);
  const double convolution = 2.0 * 2 * 6 * 64 * 27;
  EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, convolution);
  EXPECT_EQ(step.totals(Phase::backward).conv_matmul_flops, convolution);  // the input gets no gradient
  EXPECT_EQ(step.totals(OpKind::unknown).ops, 0);
  EXPECT_EQ(step.totals(Phase::optimizer).ops, 2);  // the count of steps, and the update
}

TEST(TorchScript, CountsTransposedConvolutions) {
  const testing::TemporaryFolder folder;
  StepTracer tracer = StepTracer::torchscript(save_torchscript(folder, R"(
def forward(self, x):
    y = torch.conv_transpose2d(x, self.weight, None, [2, 2], [0, 0], [0, 0], 2)
    y = torch.conv_transpose2d(y, self.weight, None, [1, 1], [0, 0], [0, 0], 2)
    return y.mean([2, 3])
)"));
  const InputSpec input{{2, 6, 8, 8}, DataType::f32};
  const OpGraph step = tracer.trace({&input, 1}, Optimizer::sgd);
  const double first = 2.0 * (2 * 6 * 8 * 8) * (3 * 3 * 3);
  const double second = 2.0 * (2 * 6 * 17 * 17) * (3 * 3 * 3);
  EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, first + second);
  EXPECT_EQ(step.totals(Phase::backward).conv_matmul_flops, first + 2 * second);
}

TEST(TorchScript, HasItsAttentionAsOneOperator) {
  const testing::TemporaryFolder folder;
  StepTracer tracer = StepTracer::torchscript(save_torchscript(folder, R"(
def forward(self, x):
    q = x * self.weight.sum()
    return torch.scaled_dot_product_attention(q, x, x, None, 0.1, True).flatten(1)
)"));
  const InputSpec input{{2, 3, 8, 4}, DataType::f32};
  const OpGraph step = tracer.trace({&input, 1}, Optimizer::sgd);
  constexpr double product = 2.0 * 2 * 3 * 8 * 8 * 4;
  EXPECT_EQ(step.totals(OpKind::attention).flops, 2 * product / 2);  // causal
  EXPECT_EQ(step.totals(OpKind::attention_backward).flops, 5 * product / 2);
  EXPECT_EQ(step.totals(OpKind::unknown).ops, 0);
}

TEST(TorchScript, CountsAllProductsOfASum) {
  const testing::TemporaryFolder folder;
  StepTracer tracer = StepTracer::torchscript(save_torchscript(folder, R"(
def forward(self, x):
    return torch.addbmm(x[0], x, x) * self.weight.sum()
)"));
  const InputSpec input{{16, 8, 8}, DataType::f32};
  EXPECT_EQ(tracer.trace({&input, 1}, Optimizer::sgd).totals(Phase::forward).conv_matmul_flops, 2.0 * 16 * 8 * 8 * 8);
}

TEST(TorchScript, ComputesWithAllElementsOfWhatIsExpanded) {  // as the gradient of a sum is
  const testing::TemporaryFolder folder;
  StepTracer images = StepTracer::torchscript(save_torchscript(folder, R"(
def forward(self, x):
    return torch.conv2d(x, self.weight, None, [1, 1], [1, 1]).sum([2, 3])
)"));
  const InputSpec image{{2, 3, 8, 8}, DataType::f32};
  EXPECT_EQ(images.trace({&image, 1}, Optimizer::sgd).totals(Phase::backward).conv_matmul_flops,
            2.0 * 2 * 6 * 64 * 27);  // the weight's

  StepTracer vectors = StepTracer::torchscript(save_torchscript(folder, R"(
def forward(self, x):
    weight = self.weight.flatten(1)
    return torch.mm(torch.mm(x, weight), weight.t()).sum(1, True).expand(4, 5)
)"));
  const InputSpec vector{{4, 6}, DataType::f32};
  const OpGraph step = vectors.trace({&vector, 1}, Optimizer::sgd);
  constexpr double product = 2.0 * 4 * 6 * 27;
  EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, 2 * product);
  EXPECT_EQ(step.totals(Phase::backward).conv_matmul_flops, 3 * product);  // x gets no gradient
}

TEST(TorchScript, FindsTensorsInWhatAModuleHolds) {
  torch::jit::Module module("Net");
  const at::Tensor weight = torch::ones({6, 5}, torch::requires_grad());
  module.register_parameter("weight", weight, false);
  const auto tensor = c10::TensorType::get();
  const auto list = c10::ListType::create(tensor);
  const c10::List<at::Tensor> tensors({weight});
  module.register_attribute("list", list, tensors);
  module.register_attribute("again", list, tensors);
  c10::List<c10::List<at::Tensor>> nested;
  nested.push_back(c10::List<at::Tensor>({weight}));
  module.register_attribute("nested", c10::ListType::create(list), nested);
  module.register_attribute("pair", c10::TupleType::create({tensor, list}),
                            c10::ivalue::Tuple::create(weight, c10::List<at::Tensor>({weight})));
  c10::Dict<std::string, at::Tensor> dict;
  dict.insert("w", weight);
  module.register_attribute("dict", c10::DictType::create(c10::StringType::get(), tensor), dict);
  module.define(R"(
def forward(self, x):
    y = torch.mm(x, self.weight) + torch.mm(x, self.list[0]) + torch.mm(x, self.again[0])
    y = y + torch.mm(x, self.nested[0][0]) + torch.mm(x, self.pair[0]) + torch.mm(x, self.pair[1][0])
    return y + torch.mm(x, self.dict["w"])
)");
  const testing::TemporaryFolder folder;
  module.save(folder.file("net.pt"));
  StepTracer tracer = StepTracer::torchscript(folder.file("net.pt"), Precision::fp64);
  EXPECT_EQ(tracer.params(), 6 * 5);
  const InputSpec input{{4, 6}, DataType::f64};
  const OpGraph step = tracer.trace({&input, 1}, Optimizer::sgd);
  constexpr double product = 2.0 * 4 * 6 * 5;
  EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, 7 * product);
  EXPECT_EQ(step.totals(Phase::backward).conv_matmul_flops, 7 * product);  // all of them are the parameter
}

TEST(TorchScript, RefusesALoopThatDoesNotEnd) {
  const testing::TemporaryFolder folder;
  StepTracer tracer = StepTracer::torchscript(save_torchscript(folder, R"(
def forward(self, x):
    while bool(x.sum() > 0):
        x = x * self.weight.sum()
    return x
)"));
  const InputSpec input{{4, 6}, DataType::f32};
  EXPECT_THAT(message_of([&] {
                (void)tracer.trace({&input, 1}, Optimizer::sgd);
              }),
              AllOf(HasSubstr("more than 500000 operators"), ::testing::Not(HasSubstr("\n"))));
}

TEST(TorchScript, IsNamedByItsSha256) {  // FIPS 180-2, appendix B, and the empty message
  const testing::TemporaryFolder folder;
  const auto name_of = [&](const std::string& bytes) { return torchscript_name(folder.write("x.pt", bytes)); };
  EXPECT_EQ(name_of(""), "torchscript:e3b0c44298fc");
  EXPECT_EQ(name_of("abc"), "torchscript:ba7816bf8f01");
  EXPECT_EQ(name_of("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"), "torchscript:248d6a61d206");
  EXPECT_EQ(name_of(std::string(1'000'000, 'a')), "torchscript:cdc76e5c9914");
}

TEST(TorchScript, NamesTheOperatorWhoseInputsDoNotFit) {
  const testing::TemporaryFolder folder;
  StepTracer tracer = StepTracer::torchscript(save_torchscript(folder, network_source));
  const InputSpec wrong{{2, 4, 8, 8}, DataType::f32};
  EXPECT_THAT(message_of([&] {
                (void)tracer.trace({&wrong, 1}, Optimizer::adam);
              }),
              AllOf(HasSubstr("aten::convolution(2x4x8x8, 6x3x3x3)"), HasSubstr("4 channels")));
}

TEST(TorchScript, WhatCannotBeTrainedIsSaidWithItsFile) {
  const testing::TemporaryFolder folder;
  const auto refusal_of = [&](const std::string& source, std::int64_t classes) {
    const std::string path = save_torchscript(folder, source);
    Workload workload = Workload::cifar_cnn(1, 1, 2);
    workload.classes = classes;
    std::string text = message_of([&] {
      (void)load_torchscript(path, workload, c10::kCPU)->forward(torch::ones({2, 3, 8, 8}), {});
    });
    return text.rfind(path + ": ", 0) == 0 ? text.substr(path.size() + 2) : text;
  };
  EXPECT_EQ(refusal_of(network_source, 7), "has 6 outputs for 7 classes");
  EXPECT_THAT(refusal_of("def forward(self, x):\n    return x.mean([2, 3])\n", 3), HasSubstr("is it frozen?"));
  EXPECT_THAT(refusal_of("def forward(self, x):\n    return x, x\n", 3), HasSubstr("one tensor of logits"));
  EXPECT_THAT(refusal_of("def forward(self, x):\n    return torch.mm(x, x)\n", 3),
              AllOf(HasSubstr("RuntimeError: self must be a matrix"), ::testing::Not(HasSubstr("\n"))));
}

TEST(TorchScript, ADeviceThatIsLostLeavesTheLastCheckpoint) {
  const testing::TemporaryFolder folder;
  TrainNetOptions options;
  options.torchscript = save_torchscript(folder, R"(
def forward(self, x):
    if self.training:
        steps = self.weight.detach()[0, 0, 0, 0]
        steps.add_(1)
        assert int(steps) <= 1 + 5, "CUDA error: unspecified launch failure"
    return torch.conv2d(x, self.weight).mean([2, 3])
)");
  options.input = "3x8x8";
  options.classes = 5;
  options.train_images = 64;
  options.batch_size = 16;
  options.epochs = 3;
  options.learning_rate = 0;
  options.device = "cpu";
  options.out_dir = folder.file("out");
  options.log_file = folder.file("log.csv");
  std::string last_line;
  EXPECT_THROW((void)train_net(
                   options, [&](const std::string& line) { last_line = line; }, [] { return false; }),
               DeviceError);
  EXPECT_EQ(last_line, "failed after step 1 of 4 in epoch 2 of 3; last.pt is from before that");
  EXPECT_EQ(load_checkpoint(options.out_dir + "/last.pt").progress.find("\"step\""), std::string::npos);
  const std::string log = testing::slurp(options.log_file);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1 + 5);
}

TEST(TorchScript, RefusesOtherFiles) {
  const testing::TemporaryFolder folder;
  const std::string text = folder.write("net.pt", "not a network\n");
  EXPECT_THAT(message_of([&] { (void)StepTracer::torchscript(text); }),
              AllOf(HasSubstr(text + ": not a TorchScript file"), ::testing::Not(HasSubstr("\n"))));
  EXPECT_THAT(message_of([&] { (void)StepTracer::torchscript(folder.file("none.pt")); }), HasSubstr("none.pt"));
}

TEST(TorchScript, RefusesAFutureVersion) {
  const testing::TemporaryFolder folder;
  const std::string file = folder.file("future.pt");
  {
    caffe2::serialize::PyTorchStreamWriter writer(file);
    writer.setMinVersion(1000);
    writer.writeRecord("constants.pkl", "x", 1);
    writer.writeEndOfFile();
  }
  EXPECT_THAT(message_of([&] { (void)StepTracer::torchscript(file); }),
              AllOf(HasSubstr("future.pt: written by a newer PyTorch"), HasSubstr("1000")));
}

// Files made by tests/torch/export_torchscript.py (scripts/torchscript_networks.sh), FLOPs by torch.utils.flop_counter.
TEST(TorchScript, HasTheFlopsThatPyTorchCounts) {
  const char* folder = std::getenv("PERFPRED_TORCHSCRIPT_DIR");
  if (folder == nullptr)
    GTEST_SKIP() << "PERFPRED_TORCHSCRIPT_DIR is not set (scripts/torchscript_networks.sh fills it)";
  std::ifstream table(std::string(folder) + "/networks.csv");
  std::string line;
  std::getline(table, line);
  ASSERT_EQ(line, "network,input,type,params,forward_flops,backward_flops");
  int networks = 0;
  while (std::getline(table, line)) {
    SCOPED_TRACE(line);
    std::istringstream fields(line);
    std::string name, shape, type, params, forward, backward;
    for (std::string* field : {&name, &shape, &type, &params, &forward, &backward}) std::getline(fields, *field, ',');
    StepTracer tracer = StepTracer::torchscript(std::string(folder) + "/" + name + ".pt");
    EXPECT_EQ(tracer.params(), std::stoll(params));
    const InputSpec input{parse_shape(shape), type == "i64" ? DataType::i64 : DataType::f32};
    const OpGraph step = tracer.trace({&input, 1}, Optimizer::adam);
    EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, std::stod(forward));
    EXPECT_EQ(step.totals(Phase::backward).conv_matmul_flops, std::stod(backward));
    EXPECT_EQ(step.totals(OpKind::unknown).ops, 0);
    ++networks;
  }
  EXPECT_GE(networks, 20);
}

// ---- The zoo's networks as modules ----

TEST(NetworkModule, HasTheParametersOfItsWorkload) {
  ModuleOptions options;
  options.device = at::kMeta;
  for (int depth = 1; depth <= 5; ++depth) {
    for (int base = 1; base <= 128; ++base) {
      const Workload workload = Workload::cifar_cnn(depth, base, 8);
      const NetworkModule module(build_network(workload), options);
      std::int64_t params = 0;
      for (const at::Tensor& parameter : module.parameters()) params += parameter.numel();
      ASSERT_EQ(params, workload.params()) << "depth " << depth << ", base_filters " << base;
    }
  }
}

TEST(NetworkModule, NamesParametersAsTorchvisionDoes) {
  ModuleOptions options;
  options.device = at::kMeta;
  const NetworkModule module(build_network(Workload::zoo("resnet18", 1)), options);
  const auto parameters = module.named_parameters();
  EXPECT_TRUE(parameters.contains("conv1.weight"));
  EXPECT_TRUE(parameters.contains("layer2.0.downsample.0.weight"));
  EXPECT_TRUE(parameters.contains("layer4.1.bn2.bias"));
  EXPECT_TRUE(parameters.contains("fc.bias"));
  EXPECT_TRUE(module.named_buffers().contains("layer1.0.bn1.running_var"));
}

TEST(NetworkModule, StartsFromItsSeed) {
  const Network network = build_network(Workload::cifar_cnn(1, 4, 2));
  const auto first = [&](std::uint64_t seed) {
    ModuleOptions options;
    options.seed = seed;
    return NetworkModule(network, options).parameters().at(0);
  };
  EXPECT_TRUE(at::equal(first(1), first(1)));
  EXPECT_FALSE(at::equal(first(1), first(2)));
}

TEST(NetworkModule, RefusesAnotherShape) {
  NetworkModule module(build_network(Workload::cifar_cnn(1, 4, 2)));
  EXPECT_THAT(message_of([&] {
                (void)module.forward(torch::zeros({2, 3, 16, 16}));
              }),
              AllOf(HasSubstr("3x32x32"), HasSubstr("2x3x16x16")));
}

TEST(NetworkModule, LearnsItsBatch) {
  at::set_num_threads(1);  // others' work makes OpenMP's threads wait for each other
  at::manual_seed(0);
  Workload small = Workload::zoo("shufflenet_v2_x0_5", 8, {3, 64, 64});
  small.classes = 10;
  const Workload jobs[] = {Workload::cifar_cnn(2, 8, 8), small,
                           Workload::zoo("transformer:layers=2,hidden=32,heads=4,vocab=50", 4, {16})};
  for (const Workload& workload : jobs) {
    for (const Layout layout : {Layout::nchw, Layout::nhwc}) {
      SCOPED_TRACE(workload.network);
      const Network network = build_network(workload);
      ModuleOptions options;
      options.layout = layout;
      NetworkModule module(network, options);
      torch::optim::Adam adam(module.parameters(), torch::optim::AdamOptions(3e-3));
      const at::Tensor batch = batch_of(network);
      const at::Tensor labels = labels_of(network);
      std::vector<double> losses;
      for (int step = 0; step < 12; ++step) {
        adam.zero_grad();
        const at::Tensor loss = loss_of({}, module.forward(batch), labels);
        loss.backward();
        adam.step();
        losses.push_back(loss.item<double>());
      }
      EXPECT_LT(losses.back(), 0.9 * losses.front());
    }
  }
}

// ---- Training ----

std::map<std::string, int>* executed = nullptr;  // operators by name

std::unique_ptr<at::ObserverContext> count_operator(const at::RecordFunction& function) {
  if (executed != nullptr) ++(*executed)[function.name()];
  return nullptr;
}

TEST(TrainingStep, ExecutesTheUpdateThatIsCounted) {
  at::set_num_threads(1);
  const std::pair<OpKind, const char*> names[] = {
      {OpKind::fused_sgd, "aten::_fused_sgd_"},
      {OpKind::fused_momentum, "aten::_fused_sgd_"},
      {OpKind::fused_adam, "aten::_fused_adam_"},
      {OpKind::fused_adamw, "aten::_fused_adamw_"},
      {OpKind::fused_adagrad, "aten::_fused_adagrad_"},
      {OpKind::update_scale, "aten::_amp_update_scale_"},
      {OpKind::unscale_gradients, "aten::_amp_foreach_non_finite_check_and_unscale_"},
      {OpKind::sub, "aten::sub_"},
      {OpKind::addcmul, "aten::addcmul_"},
      {OpKind::sqrt, "aten::sqrt"}};
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_operator).scopes({at::RecordScope::FUNCTION}));
  for (const Optimizer optimizer : {Optimizer::none, Optimizer::sgd, Optimizer::nesterov, Optimizer::adam,
                                    Optimizer::adamw, Optimizer::adagrad, Optimizer::rmsprop}) {
    for (const Precision precision : {Precision::fp32, Precision::fp16}) {
      SCOPED_TRACE(std::string(to_string(optimizer)) + " in " + std::string(to_string(precision)));
      Workload workload = Workload::cifar_cnn(1, 4, 2);
      workload.optimizer = optimizer;
      workload.precision = precision;
      TrainingStep step(workload, at::kCPU, {});
      const Network network = build_network(workload);
      const Batch batch{batch_of(network), labels_of(network)};
      step.run(batch);
      std::map<std::string, int> counts, expected;
      executed = &counts;
      step.run(batch);
      executed = nullptr;
      const OpGraph graph = workload.graph();
      for (const auto& [kind, name] : names) expected[name] += static_cast<int>(graph.totals(kind).ops);
      for (const auto& [name, count] : expected) EXPECT_EQ(counts[name], count) << name;
    }
  }
  at::removeCallback(handle);
}

// ---- Memory ----

/// The table of words has two gradients, of the embedding and of the head, which are added.
TEST(MemoryEstimate, IsWhatTiedWeightsPeakAt) {
  at::set_num_threads(1);
  Workload workload = Workload::zoo("transformer:layers=1,hidden=64,heads=4,vocab=20000", 1, {8});
  workload.optimizer = Optimizer::sgd;
  TrainingJob job;
  job.threads = job.loader_batches = 1;
  const auto measured = static_cast<double>(measured_peak(workload));
  for (const OpGraph& step : {workload.graph(), traced(build_network(workload), Optimizer::sgd)}) {
    EXPECT_NEAR(static_cast<double>(estimate_memory(step, job).peak_bytes) / measured, 1, 0.02);
  }
}

/// A CPU's fused attention has no dropout, so that the decoder's is written out; the ViT's is not.
TEST(MemoryEstimate, IsWhatTransformersPeakAt) {
  at::set_num_threads(1);
  TrainingJob job;
  job.threads = job.loader_batches = 1;
  for (const std::int64_t batch : {1, 4}) {
    for (const Workload& workload : {Workload::zoo("transformer:layers=3,hidden=64,heads=8,vocab=100", batch, {256}),
                                     Workload::zoo("vit_b_32", batch)}) {
      SCOPED_TRACE(workload.key());
      const OpGraph step = lower(workload.graph(), DeviceKind::cpu);
      const auto estimate = static_cast<double>(estimate_memory(step, job).peak_bytes);
      EXPECT_NEAR(estimate / static_cast<double>(measured_peak(workload)), 1, 0.02);
    }
  }
}

TEST(MemoryEstimate, IsWhatCpuTensorsPeakAt) {
  at::set_num_threads(1);
  std::vector<std::string> names = {"alexnet",   "cifar_resnet18",     "densenet121",
                                    "googlenet", "mnasnet0_5",         "mobilenet_v2",
                                    "resnet18",  "shufflenet_v2_x0_5", "squeezenet1_1"};
  // 1: every CNN of the zoo (half an hour, 12 GB); else those whose names begin so.
  const char* all = std::getenv("PERFPRED_MEASURE_ALL");
  if (all != nullptr) {
    names.clear();
    for (const std::string_view name : zoo_networks()) {
      const bool asked = std::string_view(all) == "1" || name.starts_with(all);
      if (asked && !build_network(Workload::zoo(name, 1)).tokens) names.emplace_back(name);
    }
  }
  for (const std::string& name : names) {
    const Workload usual = Workload::zoo(name, 1);
    const bool fixed = usual.input.at(1) < 64 || name.starts_with("vit_");  // by position embeddings
    for (const std::int64_t batch : {2, 6}) {
      const Workload workload = fixed ? Workload::zoo(name, batch) : Workload::zoo(name, batch, {3, 96, 96});
      TrainingJob job;
      job.threads = job.loader_batches = 1;
      const MemoryEstimate memory = estimate_memory(workload.graph(), job);
      const auto estimate = static_cast<double>(memory.peak_bytes);
      const auto measured = static_cast<double>(measured_peak(workload));
      EXPECT_NEAR(estimate / measured, 1, 0.02) << name << ", batch " << batch;
      int refused = 0;
      for (int hundredth = -100; hundredth < 100; ++hundredth) {  // of an octave beyond what was needed
        Device device;
        device.mem_gb = measured / 1e9 * std::exp2(hundredth / 100.0);
        const bool enough = hundredth >= 0, fits = memory.fits(device);
        EXPECT_TRUE(enough || !fits) << name << ", batch " << batch << ", " << hundredth;
        if (enough && !fits) ++refused;
      }
      EXPECT_LE(refused, 10) << name << ", batch " << batch;
      if (all != nullptr) {
        std::printf("| %s | %d | %.1f | %.1f | %+.2f %% |\n", name.c_str(), static_cast<int>(batch), measured / 1e6,
                    estimate / 1e6, 100 * (estimate / measured - 1));
      }
    }
  }
}

}  // namespace
}  // namespace perfpred
