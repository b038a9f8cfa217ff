// SPDX-License-Identifier: Apache-2.0
// Step files that are written from steps, against the steps; rules of operators from text files.
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>
#include <perfpred/op_rule_registry.h>
#include <perfpred/step_file.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <vector>

#include "refusal.h"
#include "sample_step.h"
#include "temporary_folder.h"
#include "tools/workload_sweep.h"

namespace perfpred {
namespace {

using nlohmann::json;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

void expect_same(const OpGraph& read, const OpGraph& step) {
  EXPECT_EQ(read.params(), step.params());
  EXPECT_EQ(read.activation_bytes(), step.activation_bytes());
  ASSERT_EQ(read.ops().size(), step.ops().size());
  for (std::size_t i = 0; i < step.ops().size(); ++i) {
    const Op &a = read.ops()[i], &b = step.ops()[i];
    ASSERT_EQ(read.name(a), step.name(b)) << i;
    EXPECT_EQ(a.kind, b.kind);
    EXPECT_EQ(a.phase, b.phase);
    EXPECT_EQ(a.type, b.type);
    EXPECT_EQ(a.transposed, b.transposed);
    EXPECT_EQ(read.layer_name(a), step.layer_name(b));
    EXPECT_NEAR(a.flops, b.flops, 1e-9 * b.flops) << step.name(b);
    EXPECT_EQ(a.cell_flops, b.cell_flops);
    EXPECT_EQ(a.bytes_read, b.bytes_read) << step.name(b);
    EXPECT_EQ(a.bytes_written, b.bytes_written) << step.name(b);
  }
  for (const bool caching : {false, true}) {
    TrainingJob job;
    job.caching_allocator = caching;
    EXPECT_EQ(estimate_memory(execute(read, DeviceKind::other), job).peak_bytes,
              estimate_memory(execute(step, DeviceKind::other), job).peak_bytes);
  }
}

TEST(WrittenStep, IsReadAsItWasAtEveryBatchSize) {
  const TemporaryFolder folder;
  struct Case {
    Workload workload;
    Optimizer optimizer;
    Precision precision;
  };
  const std::vector<Case> cases = {
      {Workload::zoo("resnet18", 2, {3, 64, 64}), Optimizer::adam, Precision::fp32},
      {Workload::zoo("mobilenet_v3_small", 2, {3, 64, 64}), Optimizer::rmsprop, Precision::fp16},
      {Workload::zoo("vit_b_32", 2), Optimizer::nesterov, Precision::bf16},
      {Workload::zoo("gpt2", 2, {16}), Optimizer::adamw, Precision::fp64},
      {Workload::zoo("lstm:layers=2,hidden=20,vocab=50", 2), Optimizer::sgd, Precision::fp32},
      {Workload::cifar_cnn(2, 8, 2), Optimizer::none, Precision::fp32}};
  for (const Case& one : cases) {
    SCOPED_TRACE(one.workload.network);
    Workload workload = one.workload;
    workload.optimizer = one.optimizer;
    workload.precision = one.precision;
    const auto step = [&](std::int64_t batch) {
      workload.batch_size = batch;
      return workload.graph();
    };
    const std::string path = folder.file("step.json");
    write_step(path, workload.precision, {2, 6}, step);
    const StepFile file(path);
    EXPECT_EQ(file.precision(), workload.precision);
    EXPECT_EQ(file.batch_size(), 2);
    for (const std::int64_t batch : {2, 6, 11}) {
      SCOPED_TRACE(batch);
      expect_same(file.graph(batch), step(batch));
      for (const DeviceKind kind : {DeviceKind::gpu, DeviceKind::cpu})
        expect_same(execute(file.graph(batch), kind).graph(), execute(step(batch), kind).graph());
    }
  }
}

TEST(WrittenStep, OfOneBatchSizeAnswersForThat) {
  const TemporaryFolder folder;
  const OpGraph step = Workload::cifar_cnn(1, 4, 8).graph();
  const std::string path = folder.file("step.json");
  write_step(path, Precision::fp32, {8}, [&](std::int64_t) { return step; });
  expect_same(StepFile(path).graph(8), step);
  EXPECT_THAT(testing::refusal([&] { (void)StepFile(path).graph(9); }), HasSubstr("was captured at batch size 8"));
}

TEST(WrittenStep, KeepsWhenMemoryIsGivenBack) {
  const TemporaryFolder folder;
  const OpGraph step = StepFile(folder.write("captured.json", testing::linear_step().dump())).graph(8);
  ASSERT_FALSE(step.frees().empty());
  const std::string path = folder.file("written.json");
  write_step(path, Precision::fp32, {8}, [&](std::int64_t) { return step; });
  expect_same(StepFile(path).graph(8), step);
}

TEST(WrittenStep, KeepsCountsThatTheOperandsDoNotTell) {
  const TemporaryFolder folder;
  json own = testing::linear_step();
  own["ops"][0].update({{"flops", 1000}, {"flops_growth", 10}, {"bytes", 4000}});  // a product
  own["ops"][1].update({{"flops", 7}, {"bytes", 11}, {"bytes_growth", 2}});        // a fill
  own["ops"][3]["flops"] = 1;                                                      // on lists
  own["ops"][4]["bytes"] = 5;                                                      // unknown
  const StepFile captured(folder.write("captured.json", own.dump()));
  const std::string path = folder.file("written.json");
  write_step(path, Precision::fp32, {8, 16}, [&](std::int64_t size) { return captured.graph(size); });
  for (const std::int64_t size : {8, 16, 20}) expect_same(StepFile(path).graph(size), captured.graph(size));
  EXPECT_EQ(StepFile(path).graph(20).ops()[0].flops, 1120);
}

TEST(WrittenStep, KeepsViewsThatReadTheirMemoryAsAnotherType) {
  const TemporaryFolder folder;
  const auto turn = [](std::int64_t size) {  // as torch.view_as_complex() is used, and torch.view_as_real() behind it
    OpGraph step;
    const TensorId pairs = step.add_tensor({size, 4, 2}, DataType::f32, TensorRole::input);
    const TensorId angles = step.add_view(pairs, {size, 4}, DataType::c64);
    const TensorId turned = step.add_tensor({size, 4}, DataType::c64, TensorRole::activation);
    step.add_op(OpKind::mul, Phase::forward, -1, std::vector{angles}, std::vector{turned});
    const TensorId real = step.add_view(turned, {size, 4, 2}, DataType::f32);
    step.add_op(OpKind::mul, Phase::loss, -1, std::vector{real},
                std::vector{step.add_like(real, TensorRole::temporary)});
    return step;
  };
  const OpGraph step = turn(8);
  for (const Op& op : step.ops()) {
    EXPECT_EQ(op.bytes_read, 8 * 4 * 2 * 4);
    EXPECT_EQ(op.bytes_written, 8 * 4 * 2 * 4);
  }
  EXPECT_EQ(step.ops()[0].type, DataType::c64);
  EXPECT_EQ(step.ops()[1].type, DataType::f32);
  const std::string path = folder.file("step.json");
  write_step(path, Precision::fp32, {8, 16}, turn);
  for (const std::int64_t size : {8, 16, 20}) expect_same(StepFile(path).graph(size), turn(size));
  expect_same(execute(step, DeviceKind::gpu).graph(), step);
}

TEST(WrittenStep, KeepsThatAConvolutionIsTransposed) {
  const TemporaryFolder folder;
  const auto convolve = [](std::int64_t size) {
    OpGraph step;
    const TensorId x = step.add_tensor({size, 8, 5, 5}, DataType::f32, TensorRole::input);
    const TensorId weight = step.add_tensor({8, 6, 3, 3}, DataType::f32, TensorRole::parameter);
    const TensorId y = step.add_tensor({size, 6, 7, 7}, DataType::f32, TensorRole::activation);
    step.add_op(OpKind::convolution, Phase::forward, -1, std::array{x, weight}, std::array{y}, true);
    return step;
  };
  const std::string path = folder.file("step.json");
  write_step(path, Precision::fp32, {8, 16}, convolve);
  EXPECT_TRUE(StepFile(path).graph(8).ops()[0].transposed);
  for (const std::int64_t size : {8, 16, 20}) expect_same(StepFile(path).graph(size), convolve(size));
}

TEST(WrittenStep, RefusesStepsOfTwoNetworks) {
  const TemporaryFolder folder;
  const auto refused = [&](const OpGraph& one, std::int64_t other_batch, const OpGraph& other) {
    return testing::refusal([&] {
      write_step(folder.file("step.json"), Precision::fp32, {8, other_batch},
                 [&](std::int64_t batch) { return batch == 8 ? one : other; });
    });
  };
  const OpGraph small = Workload::cifar_cnn(1, 4, 8).graph();
  EXPECT_THAT(refused(small, 16, Workload::cifar_cnn(2, 4, 16).graph()), HasSubstr("differ in"));
  EXPECT_THAT(refused(small, 11, Workload::cifar_cnn(1, 4, 16).graph()), HasSubstr("not linear in the batch"));
  EXPECT_THAT(refused(small, 8, small), HasSubstr("the same batch size"));
}

TEST(WrittenStep, AnswersOnlyForWhatWasTraced) {
  const TemporaryFolder folder;
  const auto step = [](std::int64_t batch) { return Workload::cifar_cnn(1, 4, batch).graph(); };
  write_step(folder.file("step.json"), Precision::fp32, {8, 16}, step);
  const StepFile captured = add_graph(folder.file("step.json"));
  const Workload traced = with_network(std::vector{Workload::zoo("resnet18", 32)}, captured.name());
  EXPECT_EQ(traced.graph().params(), step(8).params());
  const auto refused = [&](const char* field, const char* value) {
    return testing::refusal([&] { (void)with_field(traced, field, value).graph(); });
  };
  EXPECT_THAT(refused("attention", "eager"), HasSubstr("attention eager has no effect"));
  EXPECT_THAT(refused("optimizer_impl", "foreach"), HasSubstr("optimizer_impl foreach has no effect"));

  const std::vector bases = {Workload::cifar_cnn(1, 4, 8)};
  for (const char* field : {"input", "classes", "optimizer"}) {
    const std::string value = field_text(bases[0], field);
    EXPECT_EQ(testing::refusal([&] {
                (void)sweep_workloads(bases, {{"network", {captured.name()}}, {field, {value}}});
              }),
              std::string(field) + " is given; a captured step has its own");
    (void)fill_workload(bases, {{field, {value}}}, {{"network", {captured.name()}}}).graph();  // of all requests
  }
}

TEST(WrittenStep, CountsThatNoOperatorHasAreRefused) {
  const TemporaryFolder folder;
  for (const json& wrong : std::vector<json>{-1, "many", nullptr, json::array({1})}) {
    for (const char* key : {"flops", "bytes"}) {
      json step = testing::linear_step();
      step["ops"][0][key] = wrong;
      EXPECT_THAT(testing::refusal([&] { (void)StepFile(folder.write("step.json", step.dump())); }),
                  HasSubstr(std::string("ops[0]: ") + key));
    }
  }
  json shrinking = testing::linear_step();
  shrinking["ops"][0]["flops"] = 100;
  shrinking["ops"][0]["flops_growth"] = 10;
  const StepFile file(folder.write("step.json", shrinking.dump()));
  EXPECT_EQ(file.graph(10).ops()[0].flops, 120);
  shrinking["ops"][0]["flops_growth"] = -100;
  EXPECT_THAT(testing::refusal([&] { (void)StepFile(folder.write("step.json", shrinking.dump())).graph(10); }),
              HasSubstr("the batch is too small"));
}

// ---- Rules of operators ----

class OpRules : public ::testing::Test {
 protected:
  /// The operator "mylib::NAME" of the sample step by these rules: it reads a matrix of 3 x 5 and writes one of 8 x 5.
  Op counted(const std::string& name, const std::string& rules) {
    register_ops(folder_.write("rules.txt", rules));
    json step = testing::linear_step();
    step["ops"][4]["name"] = "mylib::" + name;
    step["ops"][4]["outputs"] = {2};
    const OpGraph graph = StepFile(folder_.write("step.json", step.dump())).graph(testing::batch);
    EXPECT_EQ(graph.name(graph.ops()[4]), "mylib::" + name);
    return graph.ops()[4];
  }

  std::string refused(const std::string& rules) {
    return testing::refusal([&] { register_ops(folder_.write("rules.txt", rules)); });
  }

  TemporaryFolder folder_;
};

TEST(WrittenStep, RefusesAnEmptyFunction) {
  const TemporaryFolder folder;
  EXPECT_THROW(write_step(folder.file("step.json"), Precision::fp32, {1}, nullptr), InputError);
  EXPECT_EQ(folder.entries(), 0U);
}

TEST_F(OpRules, MayHaveAnyNumberOfTerms) {
  constexpr int terms = 300'000;
  std::string sum = "1", product = "in0";
  for (int i = 1; i < terms; ++i) {
    sum += "+1";
    product += "*1";
  }
  EXPECT_EQ(counted("summed", "mylib::summed flops = " + sum).flops, terms);
  EXPECT_EQ(counted("multiplied", "mylib::multiplied flops = " + product).flops, 15);
}

TEST_F(OpRules, AreArithmeticOfElementsAndSizes) {
  const Op op = counted("mixed",
                        "# a comment\n\n"
                        "  mylib::mixed flops = 2*in0*in0[-1] + (out0[0] - 1.5e1/5) / 2 bytes=4*(in0 + out0)\r\n"
                        "mylib::other  flops = 1");
  EXPECT_EQ(op.kind, OpKind::custom);
  EXPECT_EQ(op.flops, 2 * 15 * 5 + (8 - 3) / 2.0);
  EXPECT_EQ(op.bytes_written, 4 * 40);
  EXPECT_EQ(op.bytes_read, 4 * 15);
  const Op without_bytes = counted("plain", "mylib::plain flops = 10 - 4 - 3\n");  // from the left
  EXPECT_EQ(without_bytes.flops, 3);
  EXPECT_EQ(without_bytes.bytes_written, 4 * 40);
  EXPECT_EQ(without_bytes.bytes_read, 4 * 15);
}

TEST_F(OpRules, OfAProgramAreRefusedWhereTheyGiveNoCount) {
  EXPECT_THAT(testing::refusal([] { register_op("mylib::odd", nullptr); }), HasSubstr("mylib::odd"));
  for (const char* name : {"::odd", "mylib::", "odd"}) {
    EXPECT_EQ(testing::refusal([&] { register_op(name, [](const auto&...) { return 1.0; }); }),
              "\"" + std::string(name) + "\" is not an operator's name like mylib::attention");
  }
  const auto count = [](double number) {
    return [number](std::span<const Shape>, std::span<const Shape>) { return number; };
  };
  for (const double odd : {-1.0, std::nan(""), HUGE_VAL, 1e30}) {
    (void)counted("odd", "mylib::odd flops = 1");
    const StepFile file(folder_.file("step.json"));
    register_op("mylib::odd", count(odd));
    EXPECT_THAT(testing::refusal([&] { (void)file.graph(testing::batch); }), HasSubstr("not between 0 and 1e+18"))
        << odd;
    register_op("mylib::odd", count(1), count(odd));
    EXPECT_THAT(testing::refusal([&] { (void)file.graph(testing::batch); }), HasSubstr("not between 0 and 1e+18"))
        << odd;
  }
}

TEST_F(OpRules, SayWhereTheyAreWrong) {
  struct Wrong {
    const char* rule;
    const char* message;
  };
  for (const Wrong& wrong : std::vector<Wrong>{{"attention flops = 1", "\"attention\" is not an operator's name"},
                                               {"mylib::a", "flops = ... is expected at the end"},
                                               {"mylib::a flops 1", "= is expected at \"1\""},
                                               {"mylib::a flops = ", "a number, in0, out0 or ( is expected at the end"},
                                               {"mylib::a flops = (1", ") is expected at the end"},
                                               {"mylib::a flops = 1 +* 2", "at \"* 2\""},
                                               {"mylib::a flops = in", "a small number is expected"},
                                               {"mylib::a flops = in0[", "a small number is expected"},
                                               {"mylib::a flops = in0[-0]", "an axis, as [0] or [-1]"},
                                               {"mylib::a flops = 1 speed = 2", "is expected at \"speed = 2\""},
                                               {"mylib::a flops = nan", "at \"nan\""},
                                               {"mylib::a flops = 1 bytes = 1 2", "at \"2\""}}) {
    const std::string message = refused(std::string("# rules\n") + wrong.rule + "\n");
    EXPECT_THAT(message, HasSubstr("rules.txt:2: ")) << wrong.rule;
    EXPECT_THAT(message, HasSubstr(wrong.message)) << wrong.rule;
  }
  EXPECT_THAT(refused("mylib::a flops = 1\nmylib::a flops = 2"),
              HasSubstr("rules.txt:2: mylib::a has a rule in line 1"));
  EXPECT_THAT(refused("mylib::a flops = " + std::string(200, '(')), HasSubstr("a shallower expression"));
}

TEST_F(OpRules, SayWhatAnOperatorDoesNotHave) {
  EXPECT_THAT(testing::refusal([&] { (void)counted("lacks", "mylib::lacks flops = in1"); }),
              HasSubstr("rules.txt:1: mylib::lacks has no in1, but 1 inputs"));
  EXPECT_THAT(testing::refusal([&] { (void)counted("flat", "mylib::flat flops = in0[2]"); }),
              HasSubstr("in0 of mylib::flat has no axis 2"));
  EXPECT_THAT(testing::refusal([&] { (void)counted("less", "mylib::less flops = 1 - in0"); }),
              HasSubstr("mylib::less would count -14"));
  EXPECT_THAT(testing::refusal([&] { (void)counted("none", "mylib::none flops = 1 / (in0[0] - 3)"); }),
              HasSubstr("mylib::none would count inf"));
}

}  // namespace
}  // namespace perfpred
