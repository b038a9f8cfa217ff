// SPDX-License-Identifier: Apache-2.0
// Files of runs and logs, read in pieces by several threads, against the same runs one by one.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <deque>
#include <filesystem>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "aggregate/aggregate_state.h"
#include "aggregated_runs.h"
#include "runs/run_log.h"
#include "runs/run_row.h"
#include "temporary_folder.h"
#include "text/csv.h"

namespace perfpred {
namespace {

using testing::csv_of;
using ::testing::ElementsAre;
using testing::expect_close;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::many_runs;
using testing::rejected_of;
using testing::run_of_epochs;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;
using Label = Aggregator::Label;

/// A file is aggregated as its runs are one by one, by however many threads.
void expect_same_as_one_by_one(const std::string& path) {
  for (const Label label : {Label::robust, Label::mean}) {
    Aggregator one_by_one(label);
    for (const auto& run : read_runs(path)) one_by_one.add(run);
    for (const int threads : {1, 2, 5}) {
      Aggregator file(label);
      file.add_file(path, threads);
      expect_close(file.rows(), one_by_one.rows(), 1e-12);
      EXPECT_EQ(file.runs(), one_by_one.runs());
      EXPECT_EQ(rejected_of(file), rejected_of(one_by_one));
    }
  }
}

TEST(AggregatorFile, LargerThanAPiece) {
  const TemporaryFolder folder;
  const std::string text = csv_of(many_runs(20'000, 11));
  ASSERT_GT(text.size(), 3U << 20);
  expect_same_as_one_by_one(folder.write("runs.csv", text));
}

TEST(AggregatorFile, GivesTheSameBitsByHoweverManyThreads) {
  const TemporaryFolder folder;
  const std::string path = folder.write("runs.csv", csv_of(many_runs(60'000, 17)));
  Aggregator alone;
  alone.add_file(path, 1);
  for (const int threads : {2, 2, 3, 8}) {
    Aggregator file;
    file.add_file(path, threads);
    EXPECT_EQ(file.rows(), alone.rows()) << threads;
    EXPECT_EQ(rejected_of(file), rejected_of(alone)) << threads;
  }
}

TEST(AggregatorFile, AFileWithoutALineFeedIsRefused) {
  const TemporaryFolder folder;
  Aggregator aggregator;
  EXPECT_THAT([&] { aggregator.add_file(folder.write("runs.csv", std::string(40 << 20, 'x'))); },
              ThrowsMessage<InputError>(HasSubstr("runs.csv:1: the line is longer than 16 MB")));
}

TEST(AggregatorFile, HoweverItIsWritten) {
  const TemporaryFolder folder;
  auto runs = many_runs(8'000, 12);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    if (i % 7 == 0) runs[i].note = "quoted, with a comma";
    if (i % 11 == 0) runs[i].note = "\"quotes\"";
    if (i % 13 == 0) runs[i].note = std::string(i, 'x');
    if (i % 17 == 0) runs[i].workload.device = "card \"A\", 2";
    if (i % 19 == 0) runs[i].timing = Timing::steps;
  }
  std::string text = "\xEF\xBB\xBF\r\n";
  std::size_t begin = 0;
  const std::string plain = csv_of(runs);
  for (int line = 0; begin < plain.size(); ++line) {
    const std::size_t end = plain.find('\n', begin);
    std::string row = plain.substr(begin, end - begin);
    if (line % 5 == 1) row += '\r';
    if (line % 23 == 1) row += "\n\r\n";
    if (line % 29 == 1) row.replace(row.find(",280218,"), 8, ", 280218 ,");
    text += row + '\n';
    begin = end + 1;
  }
  while (text.back() == '\n' || text.back() == '\r') text.pop_back();
  expect_same_as_one_by_one(folder.write("runs.csv", text));
}

TEST(AggregatorFile, HeaderOnly) {
  const TemporaryFolder folder;
  Aggregator aggregator;
  EXPECT_THAT(aggregator.add_file(folder.write("runs.csv", csv_line(run_columns()))),
              ElementsAre(folder.file("runs.csv") + ": holds no run"));
  std::string without_feed = csv_line(run_columns());
  without_feed.pop_back();
  aggregator.add_file(folder.write("runs.csv", without_feed));
  EXPECT_EQ(aggregator.runs(), 0);
  EXPECT_THAT(aggregator.rows(), IsEmpty());
}

TEST(AggregatorFile, TheFirstBadLineIsToldAndNothingAdded) {
  const TemporaryFolder folder;
  const auto runs = many_runs(12'000, 13);
  const std::string header = csv_line(run_columns());
  auto bad = run_fields(run_of_epochs({9, 1, 1}));
  bad[4] = "abc";
  auto huge = run_of_epochs({9, 1, 1});
  huge.epoch_times = {1, 1e200, 1e200};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {csv_line(bad), "batch_size \"abc\" is not a positive integer"},
      {"1,2,3\n", "3 fields where the header has " + std::to_string(run_columns().size())},
      {std::string("a\0b\n", 4), "holds a NUL byte"},
      {"\"open\n", "a quote is not closed"},
      {csv_line(run_fields(huge)), "the time of an epoch \"1e+200\" is not between 1e-100 and 1e100"},
  };
  for (const auto& [line, message] : cases) {
    std::string text = header;
    for (std::size_t i = 0; i < runs.size(); ++i) {
      text += csv_line(run_fields(runs[i]));
      if (i == 9'000 || i == 11'000) text += "\n" + line;  // a blank line before: it counts
    }
    const std::string path = folder.write("runs.csv", text);
    for (const int threads : {1, 4}) {
      Aggregator aggregator;
      EXPECT_THAT([&] { aggregator.add_file(path, threads); },
                  ThrowsMessage<InputError>(HasSubstr("runs.csv:9004: " + message)));
      EXPECT_EQ(aggregator.runs(), 0);
      EXPECT_THAT(aggregator.rows(), IsEmpty());
    }
  }
}

TEST(AggregatorFile, ALineOfSixteenMegabytesIsTooLong) {
  const TemporaryFolder folder;
  const std::string header = csv_line(run_columns());
  auto run = run_of_epochs({9, 1, 1});
  run.note = std::string((16 << 20) - 1000, 'x');
  expect_same_as_one_by_one(folder.write("runs.csv", header + csv_line(run_fields(run)) + csv_line(run_fields(run))));
  run.note = std::string(17 << 20, 'x');
  const std::string path = folder.write("runs.csv", header + csv_line(run_fields(run)));
  Aggregator aggregator;
  EXPECT_THAT([&] { aggregator.add_file(path); }, ThrowsMessage<InputError>(HasSubstr("runs.csv:2: ")));
}

TEST(Aggregator, ALongListOfRejectedRunsKeepsItsOrder) {
  Aggregator aggregator;
  auto run = run_of_epochs({9, 1, 2});
  constexpr int n = 150'000;
  for (int i = 0; i < n; ++i) {
    run.timestamp_utc = std::to_string(i) + std::string(20, 't');
    aggregator.add(run);
  }
  EXPECT_EQ(aggregator.rejected(), n);
  int next = 0;
  aggregator.for_each_rejected(
      [&next](const RejectedRun& rejected) { ASSERT_EQ(std::stoi(rejected.timestamp_utc), next++); });
  EXPECT_EQ(next, n);
}

TEST(Aggregator, KnowsTheRunsOfEarlierInputs) {
  std::mt19937_64 random(1);
  for (const std::size_t count : {0U, 1U, 2U, 3U, 1000U}) {
    std::deque<Fingerprint> given;
    for (std::size_t i = 0; i < count; ++i) given.push_back(random() % (4 * count));  // close together, some twice
    const std::set<Fingerprint> expected(given.begin(), given.end());
    const RunSet runs(given);
    for (Fingerprint run = 0; run < 4 * count + 10; ++run)
      ASSERT_EQ(runs.contain(run), expected.count(run) == 1) << run;
  }
}

TEST(Aggregator, RecoversRowsFromLogs) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("more"));
  const auto runs = many_runs(6, 21);
  for (std::size_t i = 0; i < runs.size(); ++i) {
    folder.write((i < 3 ? "log" : "more/log") + std::to_string(i) + ".jsonl",
                 "{\"workload\":\"x\"}\n{\"epoch\":1,\"sec\":9}\n" + run_json(runs[i]) + "\n");
  }
  folder.write("cut.jsonl", "{\"workload\":\"x\"}\n{\"epoch\":1,");
  folder.write("notes.txt", "not a log");
  Aggregator from_logs;
  const std::string cut_off = folder.file("cut.jsonl") + ": holds no row; its run was cut off";
  EXPECT_THAT(from_logs.add_logs(folder.path()), ElementsAre(cut_off));
  EXPECT_EQ(from_logs.runs(), 6);
  EXPECT_THAT(from_logs.add_logs(folder.path()),
              ElementsAre(cut_off, folder.path() + ": skipped 6 of 6 runs, which are in an earlier input"));
  Aggregator from_runs;
  for (const auto& run : runs) from_runs.add(run);
  expect_close(from_logs.rows(), from_runs.rows(), 1e-14);
  EXPECT_EQ(from_logs.runs(), 6);

  folder.write("more/bad.jsonl", "no JSON\n");
  EXPECT_THROW(from_logs.add_logs(folder.path()), InputError);
  EXPECT_EQ(from_logs.runs(), 6);
  EXPECT_THROW(from_logs.add_logs(folder.file("missing")), InputError);
  std::filesystem::create_directory(folder.file("empty"));
  EXPECT_THROW(from_logs.add_logs(folder.file("empty")), InputError);
}

}  // namespace
}  // namespace perfpred
