// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "temporary_folder.h"
#include "tools/benchmark_comparison.h"

namespace perfpred {
namespace {

using perfpred::testing::TemporaryFolder;

std::string result(const std::vector<std::pair<std::string, std::vector<double>>>& rows) {
  std::string text = R"({"context":{},"benchmarks":[)";
  bool first = true;
  for (const auto& [name, times] : rows) {
    for (const double time : times) {
      if (!first) text += ',';
      first = false;
      text += R"({"name":")" + name + R"(","run_name":")" + name + R"(","run_type":"iteration","real_time":)" +
              std::to_string(time) + R"(,"time_unit":"us"})";
    }
    text += R"(,{"name":")" + name + R"(_mean","run_name":")" + name +
            R"(","run_type":"aggregate","real_time":999,"time_unit":"us"})";
  }
  return text + "]}";
}

TEST(BenchmarkComparison, TellsSameFasterSlowerAndUnknown) {
  const TemporaryFolder folder;
  const auto before = folder.write("before.json", result({{"same", {100, 101, 99, 100}},
                                                          {"faster", {100, 101, 99, 100}},
                                                          {"slower", {100, 101, 99, 100}},
                                                          {"noisy", {100, 150, 70, 100}},
                                                          {"once", {100}},
                                                          {"gone", {100, 100}}}));
  const auto after = folder.write("after.json", result({{"same", {100.5, 99.5, 100, 101}},
                                                        {"faster", {80, 81, 79, 80}},
                                                        {"slower", {120, 121, 119, 120}},
                                                        {"noisy", {110, 160, 75, 120}},
                                                        {"once", {150}},
                                                        {"new", {100, 100}}}));
  const auto rows = compare_benchmarks(before, after);
  ASSERT_EQ(rows.size(), 7U);
  const std::vector<Verdict> wanted = {Verdict::same,    Verdict::faster,  Verdict::slower, Verdict::unknown,
                                       Verdict::unknown, Verdict::unknown, Verdict::unknown};
  for (std::size_t i = 0; i < rows.size(); ++i) EXPECT_EQ(rows[i].verdict, wanted[i]) << rows[i].name;
  EXPECT_NEAR(*rows[1].ratio, 0.8, 0.001);
  EXPECT_LT(*rows[1].low, 0.8);
  EXPECT_GT(*rows[1].high, 0.8);
  EXPECT_EQ(rows[5].name, "gone");
  EXPECT_FALSE(rows[5].ratio.has_value());
}

TEST(BenchmarkComparison, WelchIntervalIsTheTextbooks) {
  // Logarithms 0, 0.02 and 0.1, 0.12: difference 0.1, standard error 0.01 sqrt(2), 2 degrees of freedom, t = 4.303.
  const TemporaryFolder folder;
  const auto before = folder.write("a.json", result({{"x", {1000.0, 1020.20134}}}));
  const auto after = folder.write("b.json", result({{"x", {1105.170918, 1127.496852}}}));
  const auto rows = compare_benchmarks(before, after);
  EXPECT_NEAR(std::log(*rows[0].ratio), 0.1, 1e-6);
  EXPECT_NEAR(std::log(*rows[0].high), 0.1 + 4.303 * 0.01 * std::sqrt(2.0), 1e-5);
  EXPECT_EQ(rows[0].verdict, Verdict::slower);
}

TEST(BenchmarkComparison, OneRunWithBoundsHasAnInterval) {
  const TemporaryFolder folder;
  const auto row = [](double ms, double low, double high) {
    return R"({"benchmarks":[{"name":"x","real_time":)" + std::to_string(ms) + R"(,"time_unit":"ms","low_ms":)" +
           std::to_string(low) + R"(,"high_ms":)" + std::to_string(high) + "}]}";
  };
  const auto before = folder.write("a.json", row(10, 9.95, 10.05));
  const auto after = folder.write("b.json", row(12, 11.95, 12.05));
  EXPECT_EQ(compare_benchmarks(before, after).at(0).verdict, Verdict::slower);
  EXPECT_EQ(compare_benchmarks(before, before).at(0).verdict, Verdict::same);
}

TEST(BenchmarkComparison, RefusesOtherFiles) {
  const TemporaryFolder folder;
  const auto good = folder.write("good.json", result({{"x", {1}}}));
  EXPECT_THROW(static_cast<void>(compare_benchmarks(folder.file("missing"), good)), InputError);
  for (const char* bad : {"", "[]", "{}", R"({"benchmarks":[{"real_time":1}]})", R"({"benchmarks":[{"name":"x"}]})",
                          R"({"benchmarks":[{"name":"x","real_time":0}]})",
                          R"({"benchmarks":[{"name":"x","real_time":1,"time_unit":"h"}]})",
                          R"({"benchmarks":[{"name":"x","real_time":7,"low_ms":1,"high_ms":0}]})",
                          R"({"benchmarks":[{"name":"x","real_time":7,"low_ms":1,"high_ms":-1}]})",
                          R"({"benchmarks":[{"name":"x","real_time":7,"low_ms":-1,"high_ms":1}]})"}) {
    EXPECT_THROW(static_cast<void>(compare_benchmarks(folder.write("bad.json", bad), good)), InputError) << bad;
  }
}

TEST(BenchmarkComparison, NamesCannotCommandATerminal) {
  ComparedBenchmark row;
  row.name = "\x1b[2Jb\r\x07\xff";
  const std::string text = comparison_text({row});
  EXPECT_NE(text.find("?[2Jb???"), std::string::npos) << text;
}

TEST(BenchmarkComparison, AResultWithoutRunsIsRefused) {
  const TemporaryFolder folder;
  const std::string some = folder.write("some.json", result({{"a", {1, 2}}}));
  const std::string none = folder.write(
      "none.json",
      R"({"benchmarks":[{"name":"a_mean","run_name":"a","run_type":"aggregate","real_time":9,"time_unit":"us"}]})");
  EXPECT_THROW(static_cast<void>(compare_benchmarks(some, none)), InputError);
}

}  // namespace
}  // namespace perfpred
