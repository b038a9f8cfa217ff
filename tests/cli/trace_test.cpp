// SPDX-License-Identifier: Apache-2.0
// perfpred-trace as a user runs it, on the module of tests/torch/own_operators.cpp.
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

#ifndef PERFPRED_TEST_OPERATORS  // without LibTorch
#define PERFPRED_TEST_OPERATORS ""
#endif

class TraceProgram : public ::testing::Test {
 protected:
  void SetUp() override {
    if (testing::program("trace").empty()) GTEST_SKIP() << "perfpred-trace is not built: this build has no LibTorch";
  }
  Finished run(std::vector<std::string> options) const {
    options.insert(options.begin(), testing::program("trace"));
    return testing::spawn(options);
  }
  void expect_refused(const std::vector<std::string>& options, const std::string& message) const {
    const Finished finished = run(options);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_TRUE(finished.out.empty());
    EXPECT_THAT(finished.err, HasSubstr(message));
    EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1);
  }
  testing::TemporaryFolder folder_;
};

TEST_F(TraceProgram, CountsTheModuleOfALibrary) {
  const std::string ops = folder_.file("ops.csv");
  const auto json = json_of(run({"--library", PERFPRED_TEST_OPERATORS, "--input", "5x8", "--batch-size", "4",
                                 "--optimizer", "sgd", "--loss", "mse", "--ops", ops, "--device", "T4", "--json"}));
  constexpr double product = 2.0 * (4 * 5) * 8 * 16;  // of 20 rows of 8 with a matrix of 8x16
  EXPECT_EQ(json.at("batch_size"), 4);
  EXPECT_EQ(json.at("params"), 8 * 16);
  EXPECT_EQ(json.at("phases").at("forward").at("conv_matmul_flops"), product);
  EXPECT_EQ(json.at("phases").at("backward").at("conv_matmul_flops"), product);  // the inputs get no gradient
  EXPECT_TRUE(json.at("unknown_ops").empty());
  EXPECT_TRUE(json.at("device").at("fits"));
  EXPECT_GT(json.at("device").at("largest_batch"), 4);
  EXPECT_THAT(testing::slurp(ops), HasSubstr("forward,mm,"));
}

TEST_F(TraceProgram, WritesTablesOfSeveralBatchSizes) {
  const Finished finished = run({"--library", PERFPRED_TEST_OPERATORS, "--input", "5x8", "--precision", "bf16",
                                 "--batch-sizes", "1,2", "--tables", folder_.file("tables")});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  const std::string batches = testing::slurp(folder_.file("tables/batches.csv"));
  EXPECT_EQ(std::count(batches.begin(), batches.end(), '\n'), 3);
}

TEST_F(TraceProgram, SaysWhatCountsANetworkOfTheZoo) {
  expect_refused({"--network", "resnet18"}, "--network is not an option: perfpred-inspect counts");
  EXPECT_THAT(run({"--help"}).out, ::testing::Not(HasSubstr("--network")));
}

TEST_F(TraceProgram, RefusesWhatHasNoModule) {
  const std::string text = folder_.write("libnet.so", "weights\n");
  expect_refused({}, "--library is missing");
  expect_refused({"--library", text}, "--input is missing");
  expect_refused({"--library", text, "--input", "8"}, "libnet.so: cannot be loaded: ");
  expect_refused({"--library", PERFPRED_TEST_NVML "/libnvidia-ml.so.1", "--input", "8"}, "perfpred_make_module()");
  expect_refused({"--library", text, "--attention", "eager"}, "not expected: --attention");
}

}  // namespace
}  // namespace perfpred
