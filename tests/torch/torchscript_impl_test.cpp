// SPDX-License-Identifier: Apache-2.0
// TorchScript files: traced, trained, refused.
#include <perfpred/error.h>
#include <perfpred/torch/net_trainer.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <caffe2/serialize/inline_container.h>
#include <gmock/gmock.h>
#include <torch/csrc/jit/api/module.h>
#include <torch/types.h>

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>

#include "../refusal.h"
#include "../temporary_folder.h"
#include "torch/files/checkpoint.h"
#include "torch/network/trainable_network.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

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
  EXPECT_THAT(testing::refusal([&] {
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
  EXPECT_THAT(testing::refusal([&] {
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
    std::string text = testing::refusal([&] {
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
  EXPECT_THROW((void)train_net(options, [&](const std::string& line) { last_line = line; }), DeviceError);
  EXPECT_EQ(last_line, "failed after step 1 of 4 in epoch 2 of 3; last.pt is from before that");
  EXPECT_EQ(load_checkpoint(options.out_dir + "/last.pt").progress.find("\"step\""), std::string::npos);
  const std::string log = testing::slurp(options.log_file);
  EXPECT_EQ(std::count(log.begin(), log.end(), '\n'), 1 + 5);
}

TEST(TorchScript, RefusesOtherFiles) {
  const testing::TemporaryFolder folder;
  const std::string text = folder.write("net.pt", "not a network\n");
  EXPECT_THAT(testing::refusal([&] { (void)StepTracer::torchscript(text); }),
              AllOf(HasSubstr(text + ": not a TorchScript file"), ::testing::Not(HasSubstr("\n"))));
  EXPECT_THAT(testing::refusal([&] { (void)StepTracer::torchscript(folder.file("none.pt")); }), HasSubstr("none.pt"));
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
  EXPECT_THAT(testing::refusal([&] { (void)StepTracer::torchscript(file); }),
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
    // A fused attention multiplies queries and keys again: five products in place of four.
    const double again = 0.2 * step.totals(OpKind::attention_backward).conv_matmul_flops;
    const double ours = step.totals(Phase::backward).conv_matmul_flops - again;
    if (step.totals(OpKind::rnn_backward).ops == 0) {
      EXPECT_EQ(ours, std::stod(backward));
    } else {  // cuDNN computes the gradients of the first layer's input and of the initial states, too
      EXPECT_GE(ours, std::stod(backward));
      EXPECT_EQ(ours, 2 * std::stod(forward));
    }
    EXPECT_EQ(step.totals(OpKind::unknown).ops, 0);
    ++networks;
  }
  EXPECT_GE(networks, 20);
}

}  // namespace
}  // namespace perfpred
