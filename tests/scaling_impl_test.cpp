// SPDX-License-Identifier: Apache-2.0
// Data-parallel steps: what tables say, and what a model learns from them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <string>
#include <vector>

#include "catalogue/links.h"
#include "evaluate/scaling_evaluation.h"
#include "parallel/scaling_model.h"
#include "parallel/scaling_rows.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;

ScalingRow row_of(const std::string& placement, std::int64_t batch, double sec) {
  ScalingRow row;
  row.cluster = "box";
  row.gpu = "A100";
  row.network = "net";
  row.precision = "fp32";
  row.placement = Placement::parse(placement);
  row.local_batch = batch;
  row.gradient_bytes = 400e6;
  row.step_sec = sec;
  return row;
}

std::vector<const ScalingRow*> pointers(const std::vector<ScalingRow>& rows) {
  std::vector<const ScalingRow*> all;
  for (const ScalingRow& row : rows) all.push_back(&row);
  return all;
}

double predicted(const std::vector<ScalingRow>& known, const ScalingRow& asked) {
  return std::exp(ScalingModel::fit(pointers(known), {}).predict(asked)->log_sec);
}

TEST(Links, OfTheNearestSizeAnswer) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("links.csv");
  folder.write("links.csv",
               "cluster,scope,gpus,bus_gb_s,source\na,intra,2,40,probe\na,intra,8,100,probe\nb,inter,16,12.5,spec\n");
  const Links links = Links::read(path);
  EXPECT_EQ(links.find("a", LinkScope::intra, 3, 1)->bus_gb_s, 40);
  EXPECT_EQ(links.find("a", LinkScope::intra, 6, 1)->bus_gb_s, 100);
  EXPECT_FALSE(links.find("a", LinkScope::inter, 8, 2));
  EXPECT_FALSE(links.find("c", LinkScope::intra, 8, 1));
  folder.write("links.csv", "cluster,scope,bus_gb_s\na,both,40\n");
  EXPECT_THAT(testing::refusal([&] { (void)Links::read(path); }),
              HasSubstr("links.csv:2: scope \"both\" is not intra or"));
}

TEST(ScalingRows, AreRefusedWithFileAndLine) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.file("steps.csv");
  const std::string header =
      "cluster,gpu,network,precision,grad_bytes,gpus_per_node,local_batch,step_ms,accum,use,part,probe\n";
  folder.write("steps.csv", header + "a,T4,net,fp32,4e8,1+3,32,12.5,4,0,given,2\n");
  const ScalingRow row = read_scaling_rows(path).front();
  EXPECT_EQ(row.line, 2U);
  EXPECT_EQ(row.devices(), 4);
  EXPECT_DOUBLE_EQ(row.step_sec, 0.0125);
  EXPECT_EQ(row.accumulate, 4);
  EXPECT_TRUE(row.is_given);
  EXPECT_FALSE(row.is_scored);
  EXPECT_EQ(row.probe, 2);
  folder.write("steps.csv", header + "a,T4,net,fp32,4e8,1+0,32,12.5,4,1,,\n");
  EXPECT_THAT(testing::refusal([&] { (void)read_scaling_rows(path); }), HasSubstr("steps.csv:2: gpus_per_node"));
  folder.write("steps.csv", "cluster,gpu\na,T4\n");
  EXPECT_EQ(testing::refusal([&] { (void)read_scaling_rows(path); }), path + ":1: column \"network\" is missing");
}

TEST(ScalingModel, OfPerfectScalingStaysPerfect) {
  std::vector<ScalingRow> known;
  for (const std::int64_t batch : {16, 32, 64}) {
    for (const char* placement : {"1", "2", "4"}) {
      ScalingRow row = row_of(placement, batch, 1e-2 * static_cast<double>(batch));
      row.gradient_bytes = 1e3;  // nothing to send
      known.push_back(row);
    }
  }
  ScalingRow asked = row_of("8", 32, 1);
  asked.gradient_bytes = 1e3;
  EXPECT_NEAR(predicted(known, asked), 0.32, 0.02);
}

// A ring moves 2 (n - 1) / n of the gradients over each link (Patarin and Yuan 2009).
TEST(ScalingModel, OfStepsThatWaitForLinksFollowsTheRing) {
  constexpr double bytes_per_sec = 2e9, one_sec = 0.001;
  const auto sec = [](double devices) { return 400e6 * 2 * (devices - 1) / devices / bytes_per_sec; };
  std::vector<ScalingRow> known;
  for (const std::int64_t batch : {1, 2, 4}) {
    known.push_back(row_of("1", batch, one_sec));
    known.push_back(row_of("2", batch, sec(2)));
    known.push_back(row_of("4", batch, sec(4)));
  }
  EXPECT_NEAR(predicted(known, row_of("8", 2, 1)), sec(8), 0.05 * sec(8));
}

TEST(ScalingModel, WithoutStepsOfOneDeviceTakesThoseOfTheFewest) {
  std::vector<ScalingRow> known;
  for (const std::int64_t batch : {16, 32, 64}) known.push_back(row_of("2", batch, 1e-2 * static_cast<double>(batch)));
  const double sec = predicted(known, row_of("2", 32, 1));
  EXPECT_NEAR(sec, 0.32, 0.05);
  ScalingRow other = row_of("2", 32, 1);
  other.network = "unknown";
  EXPECT_FALSE(ScalingModel::fit(pointers(known), {}).predict(other));
}

TEST(ScalingEvaluation, RevealsRowsInTheOrderOfTheTableAndScoresTheRest) {
  std::vector<ScalingRow> test;
  for (const std::int64_t batch : {16, 32, 64}) {
    test.push_back(row_of("1", batch, 1e-2 * static_cast<double>(batch)));
    test.push_back(row_of("4", batch, 1.2e-2 * static_cast<double>(batch)));
    test.back().probe = 65 - batch;  // the largest batch first
  }
  test[1].is_scored = false;
  const ScalingEvaluation result = evaluate_scaling_test({}, test, {}, {.rows = 1});
  ASSERT_EQ(result.rows.size(), 1U);
  EXPECT_EQ(result.rows[0].row.local_batch, 32);
  EXPECT_EQ(result.unscored.at("one device"), 3U);
  EXPECT_EQ(result.unscored.at("probe"), 1U);
  EXPECT_EQ(result.unscored.at("use=0"), 1U);
  EXPECT_NEAR(*result.groups().at(0).of_perfect.mean(), 1 - 1 / 1.2, 1e-12);
}

TEST(ScalingEvaluation, LeavesOutWhatItsProtocolSays) {
  std::vector<ScalingRow> rows;
  for (const char* placement : {"1", "2", "4", "8", "8+8"}) rows.push_back(row_of(placement, 32, 0.3));
  const auto n = [&](ScalingProtocol protocol, std::int64_t max_gpus) {
    return evaluate_scaling(rows, protocol, {}, {.max_gpus = max_gpus}).rows.size();
  };
  EXPECT_EQ(n(ScalingProtocol::larger, 4), 2U);
  EXPECT_EQ(n(ScalingProtocol::larger, 8), 1U);
  EXPECT_EQ(n(ScalingProtocol::placements, 8), 4U);
  const auto refused = [&](const ScalingProbe& probe) {
    return testing::refusal([&] { (void)evaluate_scaling(rows, ScalingProtocol::larger, {}, probe); });
  };
  EXPECT_EQ(refused({.rows = 1, .networks = {"nope"}}), "network \"nope\" is not in the table that is scored");
  EXPECT_EQ(refused({.rows = 100}), "no row is left to score");
  EXPECT_EQ(refused({.max_gpus = 16}), "no row is left out by this protocol");
}

/// Mean over groups of the two large clusters (Pollux, Sia) of the median error, and the share that intervals hold.
class ReferenceScaling : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PERFPRED_REFERENCE_DIR");
    if (folder == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
    for (const ScalingRow& row : read_scaling_rows(std::string(folder) + "/multi_gpu/visible.csv")) {
      if (row.cluster == "aws-g4dn.12xlarge" || row.cluster == "rtx2080ti") rows_.push_back(row);
    }
  }

  void expect(ScalingProtocol protocol, const ScalingProbe& probe, double most) const {
    const ScalingEvaluation result = evaluate_scaling(rows_, protocol, {}, probe);
    double sum = 0;
    std::size_t covered = 0;
    const std::vector<ScalingGroup> groups = result.groups();
    for (const ScalingGroup& group : groups) {
      sum += *group.errors.middle();
      covered += group.errors.covered;
    }
    EXPECT_LE(sum / static_cast<double>(groups.size()), most);
    const double coverage = static_cast<double>(covered) / static_cast<double>(result.rows.size());
    EXPECT_GE(coverage, 0.8);
    EXPECT_LE(coverage, 0.97);
  }

  std::vector<ScalingRow> rows_;
};

TEST_F(ReferenceScaling, OfUnseenPlacements) { expect(ScalingProtocol::placements, {}, 0.05); }
TEST_F(ReferenceScaling, OfMoreDevicesThanEight) { expect(ScalingProtocol::larger, {.max_gpus = 8}, 0.065); }
TEST_F(ReferenceScaling, OfMoreDevicesThanFour) { expect(ScalingProtocol::larger, {.max_gpus = 4}, 0.09); }
TEST_F(ReferenceScaling, OfANetworkWithFourOfItsRows) { expect(ScalingProtocol::network, {.rows = 4}, 0.085); }
TEST_F(ReferenceScaling, OfAClusterWithFourRows) { expect(ScalingProtocol::cluster, {.rows = 4}, 0.13); }

}  // namespace
}  // namespace perfpred
