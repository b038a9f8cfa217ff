// SPDX-License-Identifier: Apache-2.0
// The programs on steps that perfpred.capture recorded.
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>
#include <perfpred/time_regressor.h>

#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../sample_rows.h"
#include "../sample_step.h"
#include "spawn.h"

namespace perfpred {
namespace {

using nlohmann::json;
using ::testing::AllOf;
using testing::answer;
using testing::batch;
using testing::expect_refusal;
using testing::Finished;
using ::testing::HasSubstr;
using testing::inputs;
using testing::linear_step;
using ::testing::Not;
using testing::outputs;
using testing::program;
using testing::spawn;
using testing::TemporaryFolder;

class CapturedStep : public ::testing::Test {
 protected:
  TemporaryFolder folder_;
  std::string file_ = folder_.write("step.json", linear_step().dump());
  std::string name_ = StepFile(file_).name();
};

TEST_F(CapturedStep, IsInspectedAtItsBatchSizeAndAtOthers) {
  const json captured = answer({program("inspect"), "--step", file_});
  EXPECT_EQ(captured["network"], name_);
  EXPECT_EQ(captured["batch_size"], batch);
  EXPECT_EQ(captured["params"], inputs * outputs);
  EXPECT_EQ(captured["conv_matmul_flops"], 4.0 * batch * inputs * outputs);
  EXPECT_EQ(captured["unknown_ops"], json::parse(R"([{"name": "mylib::unheard_of", "count": 1}])"));
  const json larger = answer({program("inspect"), "--step", file_, "--batch-size", "100", "--device", "T4"});
  EXPECT_EQ(larger["conv_matmul_flops"], 400.0 * inputs * outputs);
  EXPECT_TRUE(larger["device"]["fits"]);
  EXPECT_GT(larger["device"]["largest_batch"], 1000);
}

TEST_F(CapturedStep, IsPredictedWithTheShareOfItsUnknownOperators) {
  const double bytes = answer({program("inspect"), "--step", file_})["bytes"];
  const double share = 4.0 * inputs * outputs / bytes;  // of the unknown one, which reads the weight
  const std::vector<std::string> predict = {program("predict"), "--step", file_, "--device", "T4"};
  const json predicted = answer(predict);
  EXPECT_EQ(predicted["reason"], "unknown_op");
  EXPECT_DOUBLE_EQ(predicted["unknown_bytes"].get<double>(), share);
  EXPECT_THAT(spawn(predict).out, HasSubstr(fmt::format("unknown operators move {:.1f} % of the bytes", 100 * share)));

  json custom = linear_step();
  custom["ops"][4]["flops"] = 100;  // its author's count: it is known
  const json counted =
      answer({program("predict"), "--step", folder_.write("custom.json", custom.dump()), "--device", "T4"});
  EXPECT_EQ(counted["unknown_bytes"], 0);
  EXPECT_NE(counted["provenance"], "bytes");
  const auto width = [](const json& one) {
    return one["step_sec"]["p95"].get<double>() / one["step_sec"]["p05"].get<double>();
  };
  EXPECT_LT(width(counted), width(predicted));

  json known = linear_step();
  known["ops"].erase(4);
  const std::vector<std::string> without = {program("predict"), "--step", folder_.write("known.json", known.dump()),
                                            "--device", "T4"};
  EXPECT_EQ(answer(without)["unknown_bytes"], 0);
  EXPECT_THAT(spawn(without).out, Not(HasSubstr("unknown operators")));
}

/// Words of 7 positions a sample, whose embedding is the first operator.
json step_of_words(std::int64_t samples) {
  json step = linear_step();
  const auto tensor = [](std::vector<std::int64_t> sizes, std::vector<std::int64_t> strides, const char* type,
                         std::size_t storage, const char* role) {
    std::vector<std::int64_t> growth(sizes.size(), 0);
    growth[0] = 1;
    return json{{"sizes", sizes}, {"strides", strides}, {"growth", growth},
                {"dtype", type},  {"storage", storage}, {"role", role}};
  };
  const std::size_t storage = step["storages"].size(), first = step["tensors"].size();
  step["storages"].push_back({{"bytes", 8 * samples * 7}});
  step["storages"].push_back({{"bytes", 4 * samples * 7 * outputs}});
  step["tensors"].push_back(tensor({samples, 7}, {7, 1}, "int64", storage, "input"));
  step["tensors"].push_back(
      tensor({samples, 7, outputs}, {7 * outputs, outputs, 1}, "float32", storage + 1, "activation"));
  const json embedding = {
      {"name", "aten::embedding"}, {"inputs", {std::size_t{1}, first}}, {"outputs", {first + 1}}, {"phase", "forward"}};
  step["ops"].insert(step["ops"].begin(), embedding);
  return step;
}

TEST_F(CapturedStep, OfWordsHasTokens) {
  const std::string words = folder_.write("words.json", step_of_words(batch).dump());
  const std::vector<std::string> predict = {program("predict"), "--step", words, "--device", "T4"};
  const json one = answer(predict);
  EXPECT_DOUBLE_EQ(one["tokens_per_sec"]["p50"].get<double>(), 7 * one["images_per_sec"]["p50"].get<double>());
  EXPECT_DOUBLE_EQ(one["tokens_per_sec"]["p50"].get<double>() * one["step_sec"]["p50"].get<double>(), 7.0 * batch);
  EXPECT_EQ(one["total_sec"], nullptr);
  std::vector<std::string> of_tokens = predict;
  of_tokens.insert(of_tokens.end(), {"--train-tokens", "70000"});
  const json all = answer(of_tokens);
  EXPECT_THAT(all["key"].get<std::string>(), HasSubstr(";train_images=10000;"));
  EXPECT_NEAR(all["total_sec"]["p50"].get<double>(), 10000.0 / batch * one["step_sec"]["p50"].get<double>(),
              1e-6 * all["total_sec"]["p50"].get<double>());
  EXPECT_EQ(answer({program("predict"), "--step", file_, "--device", "T4"})["tokens_per_sec"], nullptr);
  expect_refusal(spawn({program("predict"), "--step", file_, "--device", "T4", "--train-tokens", "5"}), 2,
                 "train_tokens is for networks of");
}

/// The kernels in Triton of liger-kernel and trl, on tensors as perfpred.capture records them.
TEST_F(CapturedStep, KernelsOfLigerAndTrlAreKnown) {
  for (const char* kernel :
       {"_rms_norm_forward_kernel", "_rms_norm_backward_kernel", "_swiglu_forward_kernel", "_swiglu_backward_kernel",
        "liger_cross_entropy_kernel", "_forward_kernel", "_backward_kernel", "_triton_rope"}) {
    json step = linear_step();
    step["ops"][4] = {{"name", std::string("triton::") + kernel},
                      {"inputs", {2, 3}},
                      {"outputs", json::array()},
                      {"phase", "optimizer"}};
    const std::string file = folder_.write("kernel.json", step.dump());
    const json counted = answer({program("inspect"), "--step", file});
    EXPECT_EQ(counted["unknown_ops"], json::array()) << kernel;
    EXPECT_GT(counted["phases"]["optimizer"]["flops"], 3 * batch * outputs) << kernel;
    EXPECT_EQ(answer({program("predict"), "--step", file, "--device", "T4"})["unknown_bytes"], 0) << kernel;
  }
}

TEST_F(CapturedStep, IsANetworkOfAFolder) {
  std::filesystem::copy_file(file_, folder_.file(name_.substr(5) + ".json"));
  const json by_name =
      answer({program("inspect"), "--network", name_, "--batch-size", "100", "--graphs", folder_.path()});
  EXPECT_EQ(by_name["conv_matmul_flops"], 400.0 * inputs * outputs);
}

TEST_F(CapturedStep, IsInspectedByNameInThePrecisionThatWasCaptured) {
  json half = linear_step();
  half["precision"] = "fp16";
  const std::string file = folder_.write("half.json", half.dump());
  const std::string name = StepFile(file).name();
  std::filesystem::copy_file(file, folder_.file(name.substr(5) + ".json"));
  const std::vector<std::string> on = {"--batch-size", "100", "--device", "A100-80GB-PCIe"};
  std::vector<std::string> by_file = {program("inspect"), "--step", file},
                           by_name = {program("inspect"), "--network", name, "--graphs", folder_.path()};
  by_file.insert(by_file.end(), on.begin(), on.end());
  by_name.insert(by_name.end(), on.begin(), on.end());
  EXPECT_EQ(answer(by_name), answer(by_file));
}

TEST_F(CapturedStep, IsPredictedInSecondsAStep) {
  std::vector<AggregateRow> rows;
  for (const std::int64_t size : {16, 32, 64, 128, 256, 512}) {
    Workload workload = Workload::zoo("squeezenet1_1", size, {3, 64, 64});
    workload.train_images = 1024;
    rows.push_back(testing::row_of(
        workload, workload.graph().totals().flops * static_cast<double>(workload.steps_per_epoch()) / 1e12));
  }
  const std::string model = folder_.file("model.json");
  TimeRegressor::fit(rows).save(model);
  json known = linear_step();
  known["ops"].erase(4);
  const std::string file = folder_.write("known.json", known.dump());
  const json step = answer({program("predict"), "--model", model, "--step", file});
  EXPECT_TRUE(step["time_sec"].is_null());
  EXPECT_GT(step["step_sec"]["p50"], 0);
  EXPECT_FALSE(step["in_domain"]);
  // Nobody said what a sample is, how many an epoch has, and which optimizer was captured.
  EXPECT_THAT(step["key"].get<std::string>(),
              ::testing::StartsWith("network=" + StepFile(file).name() + ";depth=;base_filters=;batch_size=8;input=;" +
                                    "classes=;train_images=;optimizer=;precision=fp32;"));
  EXPECT_DOUBLE_EQ(step["images_per_sec"]["p50"].get<double>(), batch / step["step_sec"]["p50"].get<double>());
  const Finished text = spawn({program("predict"), "--model", model, "--step", file});
  EXPECT_THAT(text.out, AllOf(HasSubstr(" samples/s "), HasSubstr(";input=;classes=;train_images=;optimizer=;")));
  const Finished lines =
      spawn({program("predict"), "--model", model, "--step", file, "--jsonl"}, "{}\n{\"train_images\": 8000}\n");
  const auto end = lines.out.find('\n');
  const json line = json::parse(lines.out.substr(0, end)), with_epoch = json::parse(lines.out.substr(end));
  EXPECT_EQ(line["key"], step["key"]);
  EXPECT_TRUE(line["time_sec"].is_null());
  EXPECT_EQ(step["left_out"], json::array({"epoch, total and price: train_images is not stated"}));
  expect_refusal(spawn({program("predict"), "--model", model, "--step", file, "--budget-sec", "9"}), 2,
                 "--budget-sec needs train_images: network " + StepFile(file).name() + " has no data");
  const Finished refused = spawn({program("predict"), "--model", model, "--step", file, "--precision", "bf16"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, HasSubstr("precision is given; a step file has its own"));
  EXPECT_EQ(spawn({program("predict"), "--model", model, "--step", file, "--sweep", "optimizer=sgd,adam"}).exit_code,
            2);
  const json epoch = answer({program("predict"), "--model", model, "--step", file, "--train-images", "8000"});
  EXPECT_DOUBLE_EQ(epoch["time_sec"]["p50"].get<double>(), 1000 * epoch["step_sec"]["p50"].get<double>());
  EXPECT_THAT(epoch["key"].get<std::string>(), HasSubstr(";input=;classes=;train_images=8000;optimizer=;"));
  EXPECT_EQ(with_epoch, epoch);
  // Of fewer samples than a step has, a share of it is taken; the step is what it was.
  const json on_t4 = answer({program("predict"), "--step", file, "--device", "T4"}),
             few = answer({program("predict"), "--step", file, "--device", "T4", "--train-images", "4"});
  EXPECT_DOUBLE_EQ(few["step_sec"]["p50"].get<double>(), on_t4["step_sec"]["p50"].get<double>());
  EXPECT_DOUBLE_EQ(few["time_sec"]["p50"].get<double>(), on_t4["step_sec"]["p50"].get<double>() / 2);
  const std::string table = folder_.file("predictions.csv");
  answer({program("predict"), "--model", model, "--step", file, "--train-images", "8000", "--out", table});
  EXPECT_THAT(testing::slurp(table), HasSubstr(",,,8,,,8000,,fp32,"));

  // A step that accumulates the gradients of four batches trains on four times as many samples.
  known["batches"] = 4;
  known["precision"] = "bf16";
  const std::string accumulating = folder_.write("accumulating.json", known.dump());
  const json four = answer({program("predict"), "--model", model, "--step", accumulating, "--train-images", "8000"});
  EXPECT_DOUBLE_EQ(four["time_sec"]["p50"].get<double>(), 250 * four["step_sec"]["p50"].get<double>());
  const json one_step = answer({program("predict"), "--model", model, "--step", accumulating});
  for (const json* job : {&four, &one_step}) {
    EXPECT_DOUBLE_EQ((*job)["images_per_sec"]["p50"].get<double>(),
                     4 * batch / (*job)["step_sec"]["p50"].get<double>());
  }
  std::filesystem::copy_file(accumulating, folder_.file(StepFile(accumulating).name().substr(5) + ".json"));
  EXPECT_EQ(answer({program("predict"), "--model", model, "--graphs", folder_.path(), "--network",
                    StepFile(accumulating).name(), "--batch-size", "8"}),
            one_step);  // in the precision that was captured
  for (const char* program_name : {"predict", "inspect"}) {
    const Finished other =
        spawn({program(program_name), "--graphs", folder_.path(), "--network", StepFile(accumulating).name(),
               "--batch-size", "8", "--precision", "fp16", "--device", "T4"});
    EXPECT_EQ(other.exit_code, 2);
    EXPECT_THAT(other.err, HasSubstr(" was captured in bf16, not in fp16"));
  }

  // Named by its hash, it is no better known.
  const std::string name = StepFile(file).name();
  std::filesystem::copy_file(file, folder_.file(name.substr(5) + ".json"));
  const std::vector<std::string> named = {program("predict"), "--model", model, "--graphs", folder_.path()};
  const auto with = [&named](std::vector<std::string> more) {
    more.insert(more.begin(), named.begin(), named.end());
    return more;
  };
  EXPECT_EQ(answer(with({"--network", name, "--batch-size", "8"})), step);
  const std::string rows_file = folder_.write("c.csv", "network,batch_size\n" + name + ",8\n");
  json in_table = answer(with({"--configs", rows_file}))[0];
  for (const char* quantile : {"p05", "p50", "p95"})
    EXPECT_EQ(in_table["step_sec"][quantile], step["step_sec"][quantile]);
  EXPECT_TRUE(in_table["time_sec"].is_null());
  answer(with({"--configs", rows_file, "--out", table}));
  EXPECT_THAT(testing::slurp(table), HasSubstr(",,,8,,,,,fp32,"));  // no number of samples that nobody stated
  EXPECT_EQ(answer(with({"--configs", rows_file, "--train-images", "8000"})), json::array({epoch}));
  const std::string stated =
      folder_.write("stated.csv", "network,batch_size,train_images,input\n" + name + ",8,8000,3x64x64\n");
  expect_refusal(spawn(with({"--configs", stated})), 2, "stated.csv:2: input is given; a captured step has its own");
  answer(with({"--configs", rows_file, "--train-images", "8000", "--out", table}));
  EXPECT_THAT(testing::slurp(table), HasSubstr(",,,8,,,8000,,fp32,"));
}

TEST_F(CapturedStep, OfAModelsOwnRowsNeedsNoFolder) {
  json known = linear_step();
  known["ops"].erase(4);
  const std::string file = folder_.write("known.json", known.dump());
  add_graphs(file);
  std::vector<AggregateRow> rows;
  for (const std::int64_t size : {16, 32, 64, 128, 256, 512}) {
    Workload workload;
    workload.network = StepFile(file).name();
    workload.batch_size = size;
    workload.train_images = 1024;
    workload.device = "T4";
    workload.precision = Precision::fp32;
    rows.push_back(testing::row_of(workload, 1 + 1e-5 * static_cast<double>(size)));
  }
  const std::string model = folder_.file("model.json");
  TimeRegressor::fit(rows).save(model);
  const json by_step = answer({program("predict"), "--model", model, "--step", file, "--batch-size", "48"});
  EXPECT_TRUE(by_step["in_domain"]) << by_step;
  EXPECT_THAT(by_step["key"].get<std::string>(), HasSubstr(";train_images=1024;"));  // that of the rows
  EXPECT_NEAR(by_step["time_sec"]["p50"], 1, 0.1);                                   // of an epoch, as in the rows
  EXPECT_EQ(answer({program("predict"), "--model", model, "--graphs", file, "--network", StepFile(file).name(),
                    "--batch-size", "48"}),
            by_step);
}

TEST_F(CapturedStep, RulesThatMatchNoOperatorAreNamed) {
  const std::string rules = folder_.write(
      "rules.txt", "mylib::unheard_of flops = in0\nmylib::unheard flops = in0\nmylib::attention flops = in0\n");
  const Finished some = spawn({program("inspect"), "--step", file_, "--op-rules", rules});
  EXPECT_EQ(some.exit_code, 0);
  EXPECT_EQ(some.err, "--op-rules: mylib::attention, mylib::unheard matched no operator\n");
  const std::string right = folder_.write("right.txt", "mylib::unheard_of flops = in0\n");
  EXPECT_EQ(spawn({program("inspect"), "--step", file_, "--op-rules", right}).err, "");
}

/// An A100 has 19.5 TFLOP/s on its vector units (NVIDIA A100 data sheet).
TEST_F(CapturedStep, ARuleChangesTheTime) {
  const auto step_sec = [&](const char* rule) {
    const std::string rules = folder_.write("rules.txt", rule);
    const json step = answer({program("predict"), "--step", file_, "--device", "A100-SXM4-80GB", "--op-rules", rules});
    const json peak = answer({program("inspect"), "--step", file_, "--device", "A100-SXM4-80GB", "--op-rules", rules});
    const double sec = step["step_sec"]["p50"];
    EXPECT_GE(sec, peak["device"]["time_at_peak_sec"].get<double>()) << rule;
    return sec;
  };
  const double idle = step_sec("mylib::unheard_of flops = 0\n");
  EXPECT_NEAR(step_sec("mylib::unheard_of flops = 19500000000000\n"), idle + 1, 0.02);
  EXPECT_GT(step_sec("mylib::unheard_of product flops = 19500000000000\n"), idle);  // it has no result: a sum
}

TEST_F(CapturedStep, OptionsWithoutEffectAndWrongFilesAreRefused) {
  const auto refused = [&](const std::vector<std::string>& arguments, const char* message) {
    const Finished finished = spawn(arguments);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_EQ(finished.out, "");
    EXPECT_THAT(finished.err, HasSubstr(message));
    EXPECT_EQ(finished.err.find('\n'), finished.err.size() - 1);
  };
  refused({program("inspect"), "--step", file_, "--optimizer", "sgd"}, "--optimizer is for --network");
  refused({program("inspect"), "--step", file_, "--network", "resnet18"}, "--network excludes --step");
  refused({program("inspect"), "--step", folder_.file("nowhere.json")}, "nowhere.json: No such file");
  refused({program("inspect"), "--step", folder_.write("bad.json", "{}")}, "bad.json: format is missing");
  refused({program("inspect"), "--network", name_}, "its graph is not in a folder");
  refused({program("inspect"), "--network", name_, "--graphs", folder_.file("nowhere")}, "is not a folder");
}

}  // namespace
}  // namespace perfpred
