// SPDX-License-Identifier: Apache-2.0
// perfpred-trace as a user runs it.
#include <perfpred/device.h>
#include <perfpred/executed_step.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "spawn.h"

namespace perfpred {
namespace {

using testing::Finished;
using ::testing::HasSubstr;

class TraceProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::program("trace").empty()) GTEST_SKIP() << "perfpred-trace is not built: this build has no LibTorch";
  }
  Finished run(std::vector<std::string> options) const {
    options.insert(options.begin(), testing::program("trace"));
    return testing::spawn(options);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(TraceProgram, CountsWhatTheAnalyticGraphCounts) {
  Workload workload = Workload::zoo("resnet18", 4);
  workload.optimizer = Optimizer::nesterov;
  const OpGraph step = execute(workload.graph(), DeviceKind::gpu).graph();
  const std::string ops = folder_.file("ops.csv");
  const auto json = json_of(run({"--network", "ResNet18", "--batch-size", "4", "--optimizer", "nesterov", "--json",
                                 "--ops", ops, "--device", "T4"}));
  EXPECT_EQ(json.at("network"), "resnet18");
  EXPECT_EQ(json.at("params"), 11'689'512);
  EXPECT_EQ(json.at("flops"), step.totals().flops);
  EXPECT_EQ(json.at("bytes"), step.totals().bytes());
  EXPECT_EQ(json.at("phases").at("backward").at("ops"), step.totals(Phase::backward).ops);
  EXPECT_EQ(json.at("kinds").at("convolution").at("flops"), step.totals(OpKind::convolution).flops);
  EXPECT_TRUE(json.at("unknown_ops").empty());
  EXPECT_GT(json.at("memory").at("peak_bytes"), 3 * 4 * 11'689'512);
  EXPECT_TRUE(json.at("device").at("fits"));
  EXPECT_GT(json.at("device").at("largest_batch"), 64);
  const std::string rows = testing::slurp(ops);
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), step.totals().ops + 1);
}

TEST_F(TraceProgram, WritesTheTablesOfInspect) {
  std::vector<std::string> options = {"--networks", "alexnet,gpt2", "--batch-sizes", "1,2", "--precision", "bf16"};
  const auto tables_of = [&](const std::string& name) {
    std::vector<std::string> command = {testing::program(name), "--tables", folder_.file(name)};
    command.insert(command.end(), options.begin(), options.end());
    const Finished finished = testing::spawn(command);
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return testing::slurp(folder_.file(name) + "/models.csv");
  };
  const std::string traced = tables_of("trace");
  EXPECT_EQ(traced, tables_of("inspect"));
  EXPECT_EQ(std::count(traced.begin(), traced.end(), '\n'), 3);
}

TEST_F(TraceProgram, RefusesOptionsWithoutEffect) {
  for (const auto& [options, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--network", "gpt2", "--optimizer-impl", "foreach"}, "not expected: --optimizer-impl foreach"},
           {{"--pt2", "net.pt2", "--attention", "eager"}, "--attention is for --network"}}) {
    const Finished finished = run(options);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_THAT(finished.err, HasSubstr(message));
  }
}

TEST_F(TraceProgram, RefusesWhatIsNoExportedProgram) {
  const std::string text = folder_.write("net.pt2", "weights\n");
  for (const auto& [options, message] : std::vector<std::pair<std::vector<std::string>, std::string>>{
           {{"--pt2", text}, "net.pt2: is not a file of torch.export.save()"},
           {{"--pt2", text, "--network", "resnet18"}, "--pt2 excludes --network"},
           {{"--pt2", text, "--library", text}, "net.pt2: cannot be loaded: "}}) {
    const Finished finished = run(options);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_TRUE(finished.out.empty());
    EXPECT_THAT(finished.err, HasSubstr(message));
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1);
  }
}

TEST_F(TraceProgram, SaysWhatIsMissing) {
  EXPECT_THAT(run({}).err, HasSubstr("--pt2 is missing"));
  EXPECT_THAT(run({"--tables", folder_.file("t")}).err, HasSubstr("no networks are given"));
}

}  // namespace
}  // namespace perfpred
