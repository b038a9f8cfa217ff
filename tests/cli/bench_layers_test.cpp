// SPDX-License-Identifier: Apache-2.0
// Layers measured, and a device probed, as a user does it.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred {
namespace {

using nlohmann::json;
using testing::expect_refusal;
using testing::Finished;
using ::testing::HasSubstr;
using testing::program;
using testing::slurp;
using testing::spawn;

class Layers : public ::testing::Test {
 protected:
  void SetUp() override {
    if (program("bench-layers").empty()) GTEST_SKIP() << "perfpred-bench-layers is not built";
  }

  [[nodiscard]] std::vector<std::string> bench(std::vector<std::string> more) const {
    std::vector<std::string> command = {program("bench-layers"),
                                        "--device",
                                        "cpu",
                                        "--iter-warmup",
                                        "1",
                                        "--iter-benchmark",
                                        "10",
                                        "--out",
                                        folder_.file("layers.csv"),
                                        "--range",
                                        "linear.in_features=1:64"};
    command.insert(command.end(), more.begin(), more.end());
    return command;
  }
  [[nodiscard]] std::string rows() const { return slurp(folder_.file("layers.csv")); }

  /// Whatever else this machine does meanwhile.
  void take_disturbed_as_ok() {
    std::string text = rows();
    for (std::size_t at = text.find(",untrusted,"); at != std::string::npos; at = text.find(",untrusted,")) {
      text.replace(at, 11, ",ok,");
    }
    folder_.write("layers.csv", text);
  }

  testing::TemporaryFolder folder_;
};

TEST_F(Layers, ASecondStartGoesOnWhereTheFirstEnded) {
  const json document = json_of(spawn(bench({"--layer", "linear", "--num", "2", "--json"})));
  EXPECT_EQ(document.at("done"), 2);
  EXPECT_EQ(document.at("rows").size(), 2U);
  const json& row = document.at("rows").at(0);
  for (const char* column : {"layer", "batch_size", "in_features", "out_features", "bias", "activation", "optimizer",
                             "input_gradient", "forward_ms", "backward_ms", "optimizer_ms", "host_ms", "low_ms",
                             "high_ms", "device", "precision", "outcome", "min_ms", "max_ms"}) {
    EXPECT_TRUE(row.contains(column)) << column;
  }
  EXPECT_THAT(rows(),
              HasSubstr(",forward_ms,backward_ms,optimizer_ms,host_ms,low_ms,high_ms,device,precision,outcome"));
  take_disturbed_as_ok();
  const std::string before = rows();
  const Finished second = spawn(bench({"--layer", "linear", "--num", "3", "--json"}));
  EXPECT_EQ(json_of(second).at("skipped"), 2);
  EXPECT_EQ(json_of(second).at("done"), 1);
  EXPECT_THAT(second.err, HasSubstr("2 there already"));
  EXPECT_EQ(rows().rfind(before, 0), 0U);
}

TEST_F(Layers, ALayerThatDoesNotFitTheMemoryIsARow) {
  const Finished finished =
      spawn(bench({"--layer", "linear", "--num", "1", "--range", "linear.seq_len=9000000000:9000000000"}));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(rows(), HasSubstr(",oom,"));
}

TEST_F(Layers, WrongInputIsOneLine) {
  expect_refusal(spawn(bench({"--layer", "dense"})), 2, "dense");
  expect_refusal(spawn(bench({"--layer", "linear,linear", "--num", "1"})), 2, "twice");
  expect_refusal(spawn(bench({"--shapes", "square"})), 2, "square");
  expect_refusal(spawn(bench({"--network", "resnet18"})), 2, "--shapes zoo");
  expect_refusal(spawn(bench({"--shapes", "zoo", "--network", "resnet81"})), 2, "resnet81");
  expect_refusal(spawn(bench({"--leave-out", "resnet81"})), 2, "resnet81");
  expect_refusal(spawn(bench({"--num", "0"})), 2, "--num");
  expect_refusal(spawn(bench({"--backprop-ratio", "1.5"})), 2, "backprop");
  expect_refusal(spawn(bench({"--precision", "tf32", "--layer", "linear", "--num", "1"})), 2, "tf32");
  expect_refusal(spawn(bench({"--range", "linear.heads=1:2"})), 2, "heads");
  expect_refusal(spawn(bench({"--range", "conv2d.groups=2:2"})), 2, "no range");
  expect_refusal(spawn(bench({"--range", "linear.seq_len=1:2", "--layer", "conv2d"})), 2, "--layer leaves out");
  expect_refusal(spawn(bench({"--range", "linear.seq_len=1:2", "--shapes", "zoo"})), 2,
                 "the batch_size alone is drawn");
  expect_refusal(spawn(bench({"--backprop-ratio", "0", "--optimizer", "adam"})), 2, "--optimizer is for");
  expect_refusal(spawn(bench({"--backprop-ratio", "0", "--first-layer"})), 2, "--first-layer is for");
  folder_.write("layers.csv", "a,b\n1,2\n");
  expect_refusal(spawn(bench({"--layer", "linear", "--num", "1"})), 2, "layers.csv");
  EXPECT_EQ(rows(), "a,b\n1,2\n");
}

TEST_F(Layers, AProbeTeachesAModelThisDevice) {
  const std::string model = folder_.file("here.json");
  const json said =
      json_of(spawn({program("probe"), "--device", "cpu", "--budget-sec", "30", "--network", "squeezenet1_1",
                     "--batch-size", "1", "--out", model, "--json", "--layers-out", folder_.file("layers.csv")}));
  const std::string table = slurp(folder_.file("layers.csv"));
  EXPECT_EQ(std::count(table.begin(), table.end(), '\n'), said.at("layers").get<int>() + 1);
  EXPECT_EQ(said.at("budget_sec"), 30);
  EXPECT_GT(said.at("used_sec"), 0);
  EXPECT_GT(said.at("layers"), 0);
  EXPECT_GT(said.at("host").at("forward_sec"), 0);
  EXPECT_GT(said.at("bytes_per_sec"), 0);
  for (const std::string& device : {said.at("device").get<std::string>(), std::string("cpu")}) {
    const Finished predicted = spawn({program("predict"), "--model", model, "--network", "resnet50", "--batch-size",
                                      "2", "--device", device, "--json"});
    EXPECT_EQ(json_of(predicted).at("provenance"), "probe");
    EXPECT_EQ(json_of(predicted).at("in_domain"), true);
  }
}

TEST_F(Layers, AProbeWithoutTimeForALayerIsRefused) {
  const std::string model = folder_.file("here.json");
  expect_refusal(spawn({program("probe"), "--device", "cpu", "--budget-sec", "0.01", "--out", model}), 2,
                 "the probe is empty");
  EXPECT_EQ(slurp(model), "");
  expect_refusal(spawn({program("probe"), "--device", "cpu", "--budget-sec", "-1"}), 2, "--budget-sec");
  expect_refusal(spawn({program("probe"), "--device", "cpu", "--network", "resnet81"}), 2, "resnet81");
  expect_refusal(spawn({program("probe"), "--device", "cpu", "--out", folder_.file("none/here.json")}), 2, "none");
  expect_refusal(spawn({program("probe"), "--device", "cpu", "--out", model, "--layers-out", model}), 2, "same file");
  expect_refusal(
      spawn({program("probe"), "--device", "cpu", "--out", model, "--layers-out", folder_.write("t", "a\n1\n")}), 2,
      "not a table of layers");
  expect_refusal(spawn({program("probe"), "--device", "cpu", "--model", folder_.write("m.json", "{}")}), 2, "m.json");
}

TEST_F(Layers, AnOpModelIsFittedOnLayers) {
  const Finished refused = spawn({program("train"), "--kind", "ops", "--layers", folder_.file("none.csv")});
  expect_refusal(refused, 2, "none.csv");
  ASSERT_EQ(
      spawn(bench({"--layer", "linear,elementwise", "--num", "12", "--range", "elementwise.seq_len=1:8"})).exit_code,
      0);
  take_disturbed_as_ok();
  const std::string model = folder_.file("ops.json");
  const Finished trained =
      spawn({program("train"), "--kind", "ops", "--layers", folder_.file("layers.csv"), "--out", model, "--json"});
  ASSERT_EQ(trained.exit_code, 0) << trained.err;
  const Finished predicted = spawn(
      {program("predict"), "--model", model, "--network", "vgg11", "--batch-size", "2", "--device", "cpu", "--json"});
  EXPECT_EQ(predicted.exit_code, 0) << predicted.err;

  const std::string own = folder_.write("own.csv", "name,fp32_tflops,mem_bw_gbs\nMy Card,10,300\n");
  expect_refusal(spawn({program("train"), "--kind", "ops", "--ops-dir", folder_.path(), "--device-file", own}), 2,
                 "--layers");
  EXPECT_EQ(spawn({program("train"), "--kind", "ops", "--layers", folder_.file("layers.csv"), "--device-file", own})
                .exit_code,
            0);
}

}  // namespace
}  // namespace perfpred
