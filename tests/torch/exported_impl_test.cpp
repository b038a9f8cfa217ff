// SPDX-License-Identifier: Apache-2.0
// Files of torch.export.save() against what PyTorch computed with the networks that they were exported from
// (export_pt2.py).
#include <perfpred/run_recorder.h>
#include <perfpred/torch/collector.h>
#include <perfpred/torch/exported_network.h>
#include <perfpred/torch/net_trainer.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <torch/types.h>

#include <cstdlib>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../cli/spawn.h"
#include "../refusal.h"
#include "../temporary_folder.h"
#include "small_training.h"
#include "torch/exported/exported_module.h"
#include "torch/files/torch_file.h"

namespace perfpred {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using ::testing::HasSubstr;

class ExportedByPyTorch : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::getenv("PERFPRED_PT2_DIR") == nullptr) {
      GTEST_SKIP() << "PERFPRED_PT2_DIR is not set: no Python with torch made the files (tests/torch/export_pt2.py)";
    }
  }
  static std::string path(const std::string& name) { return std::string(std::getenv("PERFPRED_PT2_DIR")) + "/" + name; }

  /// Values of one kind, "input" or "gradient", by what follows the point.
  static std::map<std::string, at::Tensor> recorded(const std::string& name, const std::string& kind) {
    std::map<std::string, at::Tensor> values;
    const SavedValue file = read_torch_file(path(name + ".pt"));
    for (const auto& [key, value] : std::get<SavedValue::Dictionary>(file.is)) {
      if (key.rfind(kind + ".", 0) == 0) values[key.substr(kind.size() + 1)] = std::get<at::Tensor>(value.is);
    }
    return values;
  }
  static std::vector<at::Tensor> inputs_of(const std::string& name) {
    std::vector<at::Tensor> inputs;
    for (const auto& [number, tensor] : recorded(name, "input")) inputs.push_back(tensor);
    return inputs;
  }

  static void expect_close(const at::Tensor& actual, const at::Tensor& expected, const std::string& what) {
    ASSERT_EQ(actual.sizes(), expected.sizes()) << what;
    ASSERT_EQ(actual.scalar_type(), expected.scalar_type()) << what;
    EXPECT_TRUE(torch::allclose(actual.to(torch::kDouble), expected.to(torch::kDouble), 1e-5, 1e-6))
        << what << " differs by " << (actual - expected).abs().max().item<double>();
  }

  /// One step of the file's network gives the outputs, gradients and buffers that the module's own step gave.
  static void expect_the_modules_step(const std::string& name) {
    SCOPED_TRACE(name);
    ExportedModule module(path(name + ".pt2"), {});
    at::manual_seed(7);
    const std::vector<at::Tensor> outputs = module.forward(inputs_of(name));
    at::Tensor loss = torch::zeros({});
    for (const at::Tensor& output : outputs) loss = loss + output.to(torch::kFloat).square().sum();
    loss.backward();
    const auto expected = recorded(name, "output");
    ASSERT_EQ(outputs.size(), expected.size());
    for (const auto& [number, tensor] : expected) expect_close(outputs.at(std::stoul(number)), tensor, "output");
    const auto gradients = recorded(name, "gradient");
    EXPECT_EQ(module.parameters().size(), gradients.size());
    for (const auto& [parameter, tensor] : module.parameters()) {
      ASSERT_EQ(gradients.count(parameter), 1) << parameter;
      expect_close(tensor.grad(), gradients.at(parameter), parameter);
    }
    const auto buffers = recorded(name, "buffer");
    for (const auto& [buffer, tensor] : module.buffers()) expect_close(tensor, buffers.at(buffer), buffer);
  }
};

TEST_F(ExportedByPyTorch, ComputesWhatTheModuleComputes) {
  for (const char* name : {"cnn", "fixed", "evaluated", "frozen", "transformer", "autocast", "shapes"}) {
    expect_the_modules_step(name);
  }
}

/// Decomposed, batch normalisation gives new values of its buffers as outputs of the graph, which are copied back.
TEST_F(ExportedByPyTorch, DecomposedBatchNormalisationKeepsItsStatistics) {
  ExportedModule module(path("decomposed.pt2"), {});
  (void)module.forward(inputs_of("decomposed"));
  const auto buffers = recorded("decomposed", "buffer");
  int compared = 0;
  for (const auto& [buffer, tensor] : module.buffers()) {
    if (buffer.rfind("features.1.", 0) != 0) continue;  // before the dropout, whose random numbers may differ
    expect_close(tensor, buffers.at(buffer), buffer);
    ++compared;
  }
  EXPECT_EQ(compared, 3);  // mean, variance, count of batches
}

TEST_F(ExportedByPyTorch, TiedWeightsAreOneParameter) {
  const ExportedModule module(path("transformer.pt2"), {});
  for (const auto& [name, tensor] : module.parameters()) EXPECT_NE(name, "head.weight");
  EXPECT_EQ(StepTracer::pt2(path("transformer.pt2")).params(),
            50 * 16 + (48 * 16 + 48) + (16 * 16 + 16) + (32 * 16 + 32) + (16 * 32 + 16) + 4 * 16);
}

TEST_F(ExportedByPyTorch, EvaluatesATrainingExport) {
  ExportedModule trained(path("cnn.pt2"), {});
  ExportedModule frozen(path("evaluated.pt2"), {});  // the same weights and statistics
  trained.train(false);
  const torch::NoGradGuard no_grad;
  const auto inputs = inputs_of("cnn");
  const at::Tensor first = trained.forward(inputs).front();
  expect_close(first, frozen.forward(inputs).front(), "output");
  expect_close(trained.forward(inputs).front(), first, "the second evaluation");
  for (const auto& [name, tensor] : trained.buffers()) {
    EXPECT_EQ(name.find("num_batches") != std::string::npos && tensor.item<std::int64_t>() != 0, false) << name;
  }
}

TEST_F(ExportedByPyTorch, SaysWhatDoesNotTrain) {
  EXPECT_EQ(StepTracer::pt2(path("cnn.pt2")).note(), "");
  EXPECT_THAT(StepTracer::pt2(path("evaluated.pt2")).note(),
              AllOf(HasSubstr("2 batch normalisations use stored statistics, 1 dropouts drop nothing"),
                    HasSubstr("model.train()")));
  EXPECT_THAT(StepTracer::pt2(path("frozen.pt2")).note(), HasSubstr("2 batch normalisations"));
}

TEST_F(ExportedByPyTorch, IsTraced) {
  StepTracer tracer = StepTracer::pt2(path("cnn.pt2"));
  ASSERT_EQ(tracer.inputs().size(), 1U);
  EXPECT_EQ(tracer.inputs()[0].shape, (std::vector<std::int64_t>{4, 3, 8, 8}));
  const InputSpec input{{6, 3, 8, 8}};
  const OpGraph step = tracer.trace({&input, 1}, Optimizer::adam);
  // 2 |out| (inputs of one output), of two convolutions and a linear layer; the first has no gradient of its input
  const double first = 2.0 * 6 * 8 * 64 * 27;
  const double others = 2.0 * 6 * 16 * 16 * 36 + 2.0 * 6 * 10 * 16;
  EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, first + others);
  EXPECT_EQ(step.totals(Phase::backward).conv_matmul_flops, first + 2 * others);
  EXPECT_EQ(step.totals(OpKind::unknown).ops, 0);
  EXPECT_EQ(step.totals(OpKind::batch_norm).ops, 2);
}

TEST_F(ExportedByPyTorch, AttentionIsOneOperator) {
  StepTracer tracer = StepTracer::pt2(path("transformer.pt2"));
  const InputSpec input{{8, 32}};  // words by the file's own type
  const OpGraph step = tracer.trace({&input, 1}, Optimizer::adam);
  EXPECT_EQ(step.totals(OpKind::attention).ops, 1);
  EXPECT_EQ(step.totals(OpKind::attention).flops, 4.0 * 8 * 4 * 32 * 32 * 4);
  EXPECT_EQ(step.totals(OpKind::unknown).ops, 0);
}

TEST_F(ExportedByPyTorch, AutocastInsideIsTracedInHalfPrecision) {
  StepTracer tracer = StepTracer::pt2(path("autocast.pt2"));
  const InputSpec input{{5, 12}};
  std::map<DataType, int> products;
  const OpGraph step = tracer.trace({&input, 1}, Optimizer::sgd);
  for (const Op& op : step.ops()) {
    if (op.phase == Phase::forward && (op.kind == OpKind::addmm || op.kind == OpKind::mm)) ++products[op.type];
  }
  EXPECT_EQ(products, (std::map<DataType, int>{{DataType::bf16, 2}, {DataType::f32, 1}}));
}

TEST_F(ExportedByPyTorch, DoublePrecisionIsDoubleThroughout) {
  ExportedModule module(path("shapes.pt2"), {at::kCPU, true});
  auto inputs = inputs_of("shapes");
  inputs[0] = inputs[0].to(torch::kDouble);
  for (const at::Tensor& output : module.forward(inputs)) EXPECT_EQ(output.scalar_type(), torch::kDouble);
}

TEST_F(ExportedByPyTorch, SizesThatMayNotVaryAreRefused) {
  ExportedModule fixed(path("fixed.pt2"), {});
  EXPECT_THAT(testing::refusal([&] {
                (void)fixed.forward({torch::ones({8, 3, 8, 8})});
              }),
              AllOf(HasSubstr("fixed.pt2: input x: 4x3x8x8 does not take 8x3x8x8"), HasSubstr("dynamic_shapes")));
  ExportedModule dynamic(path("shapes.pt2"), {});
  const auto call = [&](std::vector<std::int64_t> x, std::vector<std::int64_t> mask) {
    return testing::refusal([&] { (void)dynamic.forward({torch::ones(x), torch::ones(mask, torch::kBool)}); });
  };
  EXPECT_EQ(call({2, 5, 6}, {2, 5, 6}), "");
  EXPECT_THAT(call({2, 5, 6}, {2, 4, 6}), HasSubstr("sizes that have to be equal are not"));
  EXPECT_THAT(call({65, 5, 6}, {65, 5, 6}), HasSubstr("axis 0 was exported for 2 to 64"));
  EXPECT_THAT(call({2, 5}, {2, 5, 6}), HasSubstr("another number of axes"));
  EXPECT_THAT(testing::refusal([&] {
                (void)dynamic.forward({torch::ones({2, 5, 6})});
              }),
              HasSubstr("takes 2 inputs (x: ?x?x6, mask: ?x?x6), not 1"));
}

TEST_F(ExportedByPyTorch, IsTrained) {
  TrainNetOptions options;
  options.pt2 = path("cnn.pt2");
  options.classes = 3;
  options.train_images = 1600;
  options.batch_size = 16;
  options.epochs = 8;
  options.learning_rate = 0.2;
  options.device = "cpu";
  options.threads = 1;
  const TrainNetResult result = train_net(options);
  ASSERT_EQ(result.epochs.size(), 8U);
  EXPECT_LT(result.epochs.back().train_loss, 0.85 * result.epochs.front().train_loss);
  EXPECT_GT(*result.test_acc, 0.5);  // a third by chance; evaluated without dropout, with stored statistics
}

TEST_F(ExportedByPyTorch, ALossOfTheNetworkItselfIsTrainedOn) {
  TrainNetOptions options = testing::small(2, "");
  options.network.clear();
  options.input.clear();
  options.pt2 = path("logits.pt2");
  const TrainNetResult of_logits = testing::run(options);
  options.pt2 = path("loss.pt2");  // the same weights, and the cross entropy
  std::vector<std::string> lines;
  const TrainNetResult of_loss = testing::run(options, &lines);
  ASSERT_EQ(of_loss.epochs.size(), of_logits.epochs.size());
  for (std::size_t i = 0; i < of_loss.epochs.size(); ++i) {
    EXPECT_NEAR(of_loss.epochs[i].train_loss, of_logits.epochs[i].train_loss, 1e-5);
    EXPECT_NEAR(of_loss.epochs[i].val_loss, of_logits.epochs[i].val_loss, 1e-5);
    EXPECT_TRUE(of_logits.epochs[i].val_acc);
    EXPECT_FALSE(of_loss.epochs[i].train_acc || of_loss.epochs[i].val_acc);
  }
  EXPECT_TRUE(of_loss.test_loss);
  EXPECT_FALSE(of_loss.test_acc);
  EXPECT_FALSE(testing::said(lines, "accuracy"));
  options.loss.kind = LossKind::mse;
  EXPECT_THAT(testing::refusal([&] { (void)testing::run(options); }), HasSubstr("returns a loss itself"));
  options.loss = {};
  options.pt2 = path("no_loss.pt2");
  EXPECT_THAT(testing::refusal([&] { (void)testing::run(options); }), HasSubstr("no_loss.pt2: takes 2 inputs"));
}

TEST_F(ExportedByPyTorch, IsCollected) {
  const testing::TemporaryFolder folder;
  CollectOptions options;
  options.pt2 = path("cnn.pt2");
  options.device = "cpu";
  options.threads = 1;
  options.epochs = 2;
  options.runs_csv = folder.file("runs.csv");
  Workload workload = pt2_workload(options.pt2);
  EXPECT_EQ(workload.network, pt2_name(options.pt2));
  EXPECT_EQ(workload.input, (std::vector<std::int64_t>{3, 8, 8}));
  EXPECT_EQ(workload.classes, 10);
  workload.batch_size = 16;
  workload.train_images = 128;
  Collector collector(options);
  const auto result = collector.collect({&workload, 1});
  ASSERT_EQ(result.done, 1);
  const auto rows = RunRecorder(options.runs_csv).runs();
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_EQ(rows[0].workload.network, pt2_name(options.pt2));
  EXPECT_EQ(rows[0].params, StepTracer::pt2(options.pt2).params());
  workload.network = "pt2:000000000000";
  EXPECT_THAT(testing::refusal([&] { (void)collector.placed(workload); }), HasSubstr("pt2:000000000000"));
}

/// From a file of torch.export to predictions and plans, by the programs as a user runs them.
TEST_F(ExportedByPyTorch, IsPredictedAndPlannedByItsName) {
  const testing::TemporaryFolder folder;
  const auto run = [&](std::vector<std::string> arguments) {
    arguments.front() = testing::program(arguments.front());
    arguments.push_back("--json");
    const testing::Finished finished = testing::spawn(arguments);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return json::parse(finished.out, nullptr, false);
  };
  const std::string runs = folder.file("runs.csv"), rows = folder.file("runs_agg.csv"),
                    model = folder.file("model.json"), graphs = folder.file("graphs"),
                    network = pt2_name(path("cnn.pt2"));
  EXPECT_EQ(run({"collect", "--pt2", path("cnn.pt2"), "--batch-size", "8,16,24,32,48", "--optimizer", "adam,sgd",
                 "--epochs", "2", "--train-images", "96", "--threads", "1", "--device", "cpu", "--out", runs,
                 "--log-dir", folder.file("logs")})["done"],
            10);
  run({"aggregate", "--runs", runs, "--out", rows, "--rejected", folder.file("rejected.csv")});
  run({"train", "--runs-agg", rows, "--graphs", graphs, "--test-fraction", "0", "--val-fraction", "0", "--out", model});
  const std::vector<std::string> asked = {"predict",      "--model", model,      "--network", network,
                                          "--batch-size", "40",      "--graphs", graphs};
  EXPECT_GT(run(asked)["time_sec"]["p50"], 0);
  const json plan = run({"plan", "--runs-agg", rows, "--budget-sec", "1000", "--epochs", "2", "--time-source",
                         "predicted", "--model", model, "--value", "thr", "--graphs", graphs});
  EXPECT_EQ(plan["n"], 10);
  const json step =
      run({"inspect", "--network", network, "--batch-size", "40", "--optimizer", "sgd", "--graphs", graphs});
  const json traced = run({"trace", "--pt2", path("cnn.pt2"), "--batch-size", "40", "--optimizer", "sgd"});
  for (const char* what : {"params", "flops", "bytes", "memory", "phases", "kinds"})
    EXPECT_EQ(step[what], traced[what]);
  testing::expect_refusal(
      testing::spawn({testing::program("predict"), "--model", model, "--network", network, "--batch-size", "40"}), 2,
      network);
}

// ---- Networks of torchvision ----

TEST(Exported, TorchvisionsNetworksAreCountedAsTheZoos) {
  const char* folder = std::getenv("PERFPRED_TORCHVISION_DIR");
  if (folder == nullptr)
    GTEST_SKIP() << "PERFPRED_TORCHVISION_DIR is not set (tests/torch/export_pt2.py FOLDER --torchvision fills it)";
  for (const char* name : {"resnet18", "vit_b_16", "mobilenet_v3_large"}) {
    SCOPED_TRACE(name);
    const Workload workload = Workload::zoo(name, 8);
    StepTracer tracer = StepTracer::pt2(std::string(folder) + "/" + name + ".pt2");
    EXPECT_EQ(tracer.params(), workload.params());
    const InputSpec input{{8, 3, 224, 224}};
    const OpGraph step = tracer.trace({&input, 1}, workload.optimizer);
    const OpGraph zoo = workload.graph();
    for (const Phase phase : {Phase::forward, Phase::backward, Phase::optimizer}) {
      EXPECT_EQ(step.totals(phase).conv_matmul_flops, zoo.totals(phase).conv_matmul_flops);
    }
    EXPECT_NEAR(step.totals().flops / zoo.totals().flops, 1, 0.001);
    EXPECT_EQ(step.totals(OpKind::unknown).ops, 0);
  }
}

}  // namespace
}  // namespace perfpred
