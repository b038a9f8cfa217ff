// SPDX-License-Identifier: Apache-2.0
// Forecasts of Slurm's jobs beside what the jobs took: a made-up history of 200 jobs of which every figure is known.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "refusal.h"
#include "runs/run_row.h"
#include "tools/slurm_history.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;

const std::string header = "JobIDRaw|State|ElapsedRaw|TimelimitRaw|End|AdminComment\n";

SlurmForecast sample(double p50 = 3600) {
  SlurmForecast forecast;
  forecast.total_sec = {0.8 * p50, p50, 1.25 * p50};
  forecast.limit_minutes = static_cast<std::int64_t>(std::ceil(2 * p50 / 60));
  forecast.epochs = 90;
  forecast.other_sec = 0.1 * p50;
  forecast.verdict = "fits";
  forecast.model = "lab";
  Workload workload = Workload::zoo("resnet50", 64);
  workload.device = "L4";
  forecast.key = workload.key();
  return forecast;
}

TEST(SlurmForecast, IsReadAsItWasWritten) {
  SlurmForecast forecast = sample(1234.567);
  forecast.epochs = 0.1;
  const std::string text = admin_comment(forecast);
  EXPECT_EQ(text.find('|'), std::string::npos);
  const auto read = parse_admin_comment(text);
  ASSERT_TRUE(read);
  EXPECT_NEAR(read->total_sec.p05, forecast.total_sec.p05, 0.001);
  EXPECT_NEAR(read->total_sec.p50, forecast.total_sec.p50, 0.001);
  EXPECT_NEAR(read->total_sec.p95, forecast.total_sec.p95, 0.001);
  EXPECT_EQ(read->limit_minutes, forecast.limit_minutes);
  EXPECT_EQ(read->epochs, 0.1);
  EXPECT_NEAR(read->other_sec, forecast.other_sec, 0.001);
  EXPECT_EQ(read->verdict, "fits");
  EXPECT_EQ(read->model, "lab");
  EXPECT_EQ(read->key, forecast.key);
  forecast.model = "a|b;key=x";
  EXPECT_EQ(parse_admin_comment(admin_comment(forecast))->key, forecast.key);

  EXPECT_EQ(parse_admin_comment(""), std::nullopt);
  EXPECT_EQ(parse_admin_comment("of another plugin"), std::nullopt);
  for (std::size_t size = 9; size < text.find("key=network") + 4; ++size)
    EXPECT_NE(testing::refusal([&] { (void)parse_admin_comment(text.substr(0, size)); }), "") << size;
  EXPECT_EQ(testing::refusal([] { (void)parse_admin_comment("perfpred:p05_sec=x;key=a"); }),
            "p05_sec \"x\" is not a positive number");
}

/// 200 jobs of all kinds. What the report must say is counted beside, from the numbers of which the lines are made.
TEST(SlurmReport, CountsAHistoryOfWhichTheTruthIsKnown) {
  std::mt19937 random(7);
  const auto uniform = [&](double low, double high) {
    return low + (high - low) * static_cast<double>(random()) / static_cast<double>(std::mt19937::max());
  };
  std::string text = header;
  std::size_t completed = 0, inside = 0, below = 0, above = 0, timeouts = 0, saved = 0, limits = 0, without = 0,
              cancelled = 0, failed = 0;
  std::vector<std::string> killed;
  long used_sec = 0, own_sec = 0, ours_sec = 0;
  for (int i = 0; i < 200; ++i) {
    const std::string id = std::to_string(1000 + i);
    const long p50 = 600 + static_cast<long>(random() % 20'000);
    const SlurmForecast forecast = sample(static_cast<double>(p50));
    long elapsed = std::lround(static_cast<double>(p50) * std::exp(uniform(-0.4, 0.9)));
    const bool has_forecast = i % 10 != 3, unlimited = i % 8 == 1;
    std::string state = i % 25 == 4    ? "TIMEOUT"
                        : i % 25 == 9  ? "CANCELLED by 1000"
                        : i % 25 == 14 ? "FAILED"
                                       : "COMPLETED";
    long limit_min = 1 + static_cast<long>(static_cast<double>(elapsed) * uniform(1, 6) / 60);
    if (state == "TIMEOUT") elapsed = 60 * limit_min + static_cast<long>(random() % 30);
    const bool no_limit = unlimited && state != "TIMEOUT";
    text += id + "|" + state + "|" + std::to_string(elapsed) + "|" +
            (!no_limit     ? std::to_string(limit_min)
             : i % 16 == 1 ? "UNLIMITED"
                           : "525600") +
            "|2026-11-01T00:00:00|" +
            (has_forecast  ? admin_comment(forecast)
             : i % 20 == 3 ? ""
                           : "of another") +
            "\n";
    text += id + ".batch|" + state + "|" + std::to_string(elapsed) + "||2026-11-01T00:00:00|\n";

    // In whole seconds: the limit is 2 p50, rounded up to minutes.
    const long ours = (2 * p50 + 59) / 60 * 60;
    if (!has_forecast) {
      ++without;
    } else if (state == "COMPLETED") {
      ++completed;
      if (10 * elapsed < 8 * p50)
        ++below;
      else if (4 * elapsed > 5 * p50)
        ++above;
      else
        ++inside;
      if (elapsed > ours)
        killed.push_back(id);
      else if (!no_limit) {
        ++limits;
        used_sec += elapsed;
        own_sec += 60 * limit_min;
        ours_sec += ours;
      }
    } else if (state == "TIMEOUT") {
      ++timeouts;
      if (ours > 60 * limit_min && ours >= elapsed) ++saved;
    } else {
      ++(state == "FAILED" ? failed : cancelled);
    }
  }
  const SlurmHistory history = read_sacct("history", text);
  EXPECT_THAT(history.damaged, IsEmpty());
  const SlurmReport report = slurm_report(history);
  EXPECT_EQ(report.jobs, 200U);
  EXPECT_EQ(report.left_out.at("no_forecast"), without);
  EXPECT_EQ(report.left_out.at("FAILED"), failed);
  EXPECT_EQ(report.left_out.at("CANCELLED"), cancelled);
  EXPECT_EQ(report.completed, completed);
  EXPECT_EQ(report.inside, inside);
  EXPECT_EQ(report.below, below);
  EXPECT_EQ(report.above, above);
  EXPECT_EQ(report.killed, killed);
  EXPECT_EQ(report.timeouts, timeouts);
  EXPECT_EQ(report.timeouts_saved, saved);
  EXPECT_EQ(report.limits, limits);
  EXPECT_NEAR(report.used_hours, static_cast<double>(used_sec) / 3600, 1e-9);
  EXPECT_NEAR(report.own_hours, static_cast<double>(own_sec) / 3600, 1e-9);
  EXPECT_NEAR(report.forecast_hours, static_cast<double>(ours_sec) / 3600, 1e-9);
  EXPECT_NEAR(report.won_hours(), static_cast<double>(own_sec - ours_sec) / 3600, 1e-9);
  // The history has some of each kind, so that each count can be wrong.
  for (const std::size_t number :
       {inside, below, above, killed.size(), timeouts, saved, limits, without, cancelled, failed})
    EXPECT_GT(number, 0U);

  const nlohmann::ordered_json json = to_json(report);
  EXPECT_DOUBLE_EQ(json["coverage90"], static_cast<double>(inside) / static_cast<double>(completed));
  EXPECT_EQ(json["killed"].size(), killed.size());
  EXPECT_THAT(text_of(report), HasSubstr("200 jobs, " + std::to_string(completed) + " of them completed"));
}

TEST(SlurmReport, ALimitHoldsItsWholeMinuteAndTheGrace) {
  const std::string comment = admin_comment(sample(3600));  // a limit of 120 min
  const auto killed = [&](int elapsed, double grace) {
    return slurm_report(read_sacct("h", header + "1|COMPLETED|" + std::to_string(elapsed) + "|600|e|" + comment + "\n"),
                        grace)
        .killed.size();
  };
  EXPECT_EQ(killed(7200, 0), 0U);
  EXPECT_EQ(killed(7201, 0), 1U);
  EXPECT_EQ(killed(7201, 60), 0U);
  EXPECT_EQ(killed(7261, 60), 1U);
}

TEST(SlurmReport, AnEmptyHistoryHasNoShares) {
  const nlohmann::ordered_json json = to_json(slurm_report(read_sacct("h", header)));
  EXPECT_EQ(json["jobs"], 0);
  EXPECT_TRUE(json["coverage90"].is_null());
  EXPECT_EQ(text_of(slurm_report(read_sacct("h", header))), "0 jobs, 0 of them completed with a forecast\n");
}

TEST(Sacct, IsReadByTheNamesOfItsColumns) {
  const SlurmHistory history = read_sacct(
      "h", "\nUser|State|AdminComment|JobID|TimelimitRaw|ElapsedRaw\nme|COMPLETED||7_3|Partition_Limit|12\n\n");
  ASSERT_THAT(history.jobs, SizeIs(1));
  EXPECT_EQ(history.jobs[0].id, "7_3");
  EXPECT_EQ(history.jobs[0].elapsed_sec, 12);
  EXPECT_EQ(history.jobs[0].limit_sec, std::nullopt);
}

TEST(Sacct, WrongTextsAreNamedByTheirLine) {
  const auto refusal = [](const std::string& text) { return testing::refusal([&] { (void)read_sacct("h", text); }); };
  EXPECT_EQ(refusal(""), "h: is empty: sacct -P prints a header");
  EXPECT_EQ(refusal("a|b\n"), "h:1: has no column JobIDRaw: sacct -P --format=" + std::string(sacct_columns));
  EXPECT_THAT(refusal("JobID|State|ElapsedRaw|TimelimitRaw\n"), HasSubstr("h:1: has no column AdminComment"));
  EXPECT_EQ(refusal(header + "1|COMPLETED|5\n"), "h:2: has 3 fields, the header has 6");
  EXPECT_EQ(refusal(header + "1|COMPLETED|x|1|e|\n"), "h:2: ElapsedRaw \"x\" is not a number that is zero or more");
  EXPECT_EQ(refusal(header + "1|COMPLETED|-1|1|e|\n"), "h:2: ElapsedRaw \"-1\" is not a number that is zero or more");
  const std::string cut = admin_comment(sample()).substr(0, 30);
  const SlurmHistory history = read_sacct("h", header + "1|COMPLETED|5|1|e|" + cut + "\n2|COMPLETED|5|1|e|x\n");
  EXPECT_EQ(history.jobs.size(), 2U);
  EXPECT_THAT(history.damaged, ElementsAre(HasSubstr("h:2: job 1: AdminComment of perfpred")));
  EXPECT_EQ(slurm_report(history).left_out.at("no_forecast"), 2U);
}

/// `sacct -D` has a row for each time that a job was started, and joined histories have a job twice.
TEST(Sacct, OfAJobThatIsThereTwiceTheLastRowCounts) {
  const std::string comment = admin_comment(sample());
  const SlurmHistory history =
      read_sacct("h", header + "1|NODE_FAIL|50|100|e|" + comment + "\n2|COMPLETED|4000|100|e|" + comment +
                          "\n1|COMPLETED|4100|100|e|" + comment + "\n2|COMPLETED|4000|100|e|" + comment + "\n");
  ASSERT_THAT(history.jobs, SizeIs(2));
  EXPECT_EQ(history.jobs[0].state, "COMPLETED");
  EXPECT_EQ(history.jobs[0].elapsed_sec, 4100);
  EXPECT_EQ(slurm_report(history).completed, 2U);
  EXPECT_EQ(runs_of(history).rows, 2U);
}

/// An epoch's share of a job: without start-up and evaluations.
TEST(SlurmRuns, AreWhatObserveReads) {
  const std::string comment = admin_comment(sample(3600));  // of 90 epochs, 360 s beside them
  const SlurmHistory history =
      read_sacct("h", header + "1|COMPLETED|4860|100|2026-11-01T10:00:00|" + comment +
                          "\n2|COMPLETED|4860|100|2026-11-01T10:00:00|" + comment + "\n3|FAILED|4000|100|e|" + comment +
                          "\n4|COMPLETED|360|100|e|" + comment + "\n5|COMPLETED|4000|100|e|\n");
  const SlurmRuns made = runs_of(history);
  EXPECT_EQ(made.rows, 2U);
  const std::vector<perfpred::Run> runs = read_runs_text("runs", made.csv);
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_DOUBLE_EQ(*runs[0].avg_time_sec, 50);
  EXPECT_EQ(runs[0].workload.key(), sample().key);
  EXPECT_NE(runs[0].timestamp_utc, runs[1].timestamp_utc);  // two runs, though they ended together
  EXPECT_EQ(runs_of(read_sacct("h", header)).csv, "");
}

}  // namespace
}  // namespace perfpred
