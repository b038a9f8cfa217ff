// SPDX-License-Identifier: Apache-2.0
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/run_recorder.h>
#include <poll.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <functional>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "runs/run_row.h"
#include "temporary_folder.h"
#include "text/csv.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::SizeIs;
using testing::slurp;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

Run sample_run(int number) {
  Run run;
  run.workload = Workload::cifar_cnn(2, 16, 128);
  run.workload.device = "a \"quoted\", device";
  run.timestamp_utc = "2026-01-01T00:00:00." + std::to_string(number);
  run.framework = "test";
  run.epochs = 3;
  run.params = 280218;
  run.epoch_times = {11.0, 1.1, 1.3};
  run.avg_time_sec = 1.2;
  run.images_per_sec = 50000 / 1.2;
  run.test_acc = 0.1 + 0.2;  // has no short decimal
  run.note = "number " + std::to_string(number);
  return run;
}

/// Runs `body` in a process of its own. @returns its id
pid_t in_child(const std::function<void()>& body) {
  const pid_t child = ::fork();
  if (child == 0) {
    try {
      body();
    } catch (...) {
      ::_exit(1);
    }
    ::_exit(0);
  }
  return child;
}

TEST(RunRecorder, WhatIsAppendedReadsBackTheSame) {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs.csv");
  RunRecorder recorder(path);
  EXPECT_THAT(recorder.runs(), IsEmpty());
  recorder.append(sample_run(1));
  auto oom = sample_run(2);
  oom.outcome = Outcome::oom;
  oom.epoch_times.clear();
  oom.avg_time_sec = oom.images_per_sec = oom.test_acc = std::nullopt;
  recorder.append(oom);
  EXPECT_THAT(read_runs(path), ElementsAre(sample_run(1), oom));
  EXPECT_EQ(recorder.runs(), read_runs(path));
  EXPECT_THAT(recorder.set_aside(), IsEmpty());
}

TEST(RunRecorder, LineBreaksInTextsBecomeBlanks) {
  const TemporaryFolder folder;
  RunRecorder recorder(folder.file("runs.csv"));
  auto run = sample_run(1);
  run.note = "first\r\nsecond";
  recorder.append(run);
  run.note = "first  second";
  EXPECT_THAT(recorder.runs(), ElementsAre(run));
}

TEST(RunRecorder, ARunThatNoReaderWouldTakeIsRefusedAndNothingIsWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs.csv");
  RunRecorder recorder(path);
  const std::string before = slurp(path);
  auto run = sample_run(1);
  run.avg_time_sec = -1;
  EXPECT_THROW(recorder.append(run), InputError);
  run = sample_run(1);
  run.avg_time_sec = std::nullopt;  // with outcome ok
  EXPECT_THROW(recorder.append(run), InputError);
  EXPECT_EQ(slurp(path), before);
}

TEST(RunRecorder, ARowIsNoLongerThanReadersTake) {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs.csv");
  RunRecorder recorder(path);
  const auto header = slurp(path).size();
  auto run = sample_run(1);
  run.note.clear();
  recorder.append(run);
  run.note = std::string((16U << 20U) - (slurp(path).size() - header), 'x');  // with it the line has 2^24 - 1 bytes
  recorder.append(run);
  EXPECT_EQ(recorder.runs().back(), run);
  const auto before = slurp(path).size();
  run.note += 'x';
  EXPECT_THAT(
      [&] { recorder.append(run); },
      ThrowsMessage<InputError>(path + ": a new row of 16777217 bytes is too long: a line has less than 16 MB"));
  EXPECT_EQ(slurp(path).size(), before);
}

TEST(RunRecorder, KeepsTheOrderOfAFileAndLeavesItsOwnColumnsEmpty) {
  const TemporaryFolder folder;
  std::vector<std::string> header = run_columns();
  std::reverse(header.begin(), header.end());
  header.insert(header.begin() + 3, "of somebody else");
  std::replace(header.begin(), header.end(), std::string("framework"), std::string("tf_version"));
  std::string text = "\xEF\xBB\xBF" + csv_line(header);
  text.insert(text.size() - 1, "\r");
  const std::string path = folder.write("runs.csv", text);
  RunRecorder recorder(path);
  recorder.append(sample_run(1));
  recorder.append(sample_run(2));
  EXPECT_THAT(read_runs(path), ElementsAre(sample_run(1), sample_run(2)));
  EXPECT_EQ(slurp(path).substr(0, text.size()), text);
}

TEST(RunRecorder, AgreesWithTheReaderOnBlankLinesAndBlanksInTheHeader) {
  const TemporaryFolder folder;
  std::string header = csv_line(run_columns());
  header.insert(header.find(",depth") + 1, " ");
  header.insert(header.find(",epochs"), "\t");
  const std::string path = folder.write("runs.csv", "\xEF\xBB\xBF\r\n\n" + header);
  EXPECT_THAT(read_runs(path), IsEmpty());
  RunRecorder recorder(path);
  recorder.append(sample_run(1));
  EXPECT_THAT(read_runs(path), ElementsAre(sample_run(1)));
  EXPECT_EQ(slurp(path).find(header), 6U) << "the header stays";
}

TEST(RunRecorder, AddsTheColumnsThatAnOlderFileLacks) {
  const TemporaryFolder folder;
  auto run = sample_run(1);
  std::vector<std::string> header = run_columns(), fields = run_fields(run);
  header.resize(20);
  fields.resize(20);
  header.insert(header.begin() + 12, "of somebody else");
  fields.insert(fields.begin() + 12, "\"kept\", as it is");
  const std::string path =
      folder.write("runs.csv", csv_line(header) + csv_line(fields) + "\r\n" + csv_line(fields) + "torn");
  RunRecorder recorder(path);
  EXPECT_THAT(recorder.set_aside(), SizeIs(1));
  auto second = sample_run(2);
  second.epoch_rel_sem = 0.125;
  recorder.append(second);
  run.note.clear();  // its column was cut away
  EXPECT_THAT(read_runs(path), ElementsAre(run, run, second));
  EXPECT_THAT(slurp(path), HasSubstr(csv_line(fields).substr(0, csv_line(fields).size() - 1) + ",,,"));
  EXPECT_EQ(slurp(path + ".torn"), "torn\n");
}

TEST(RunRecorder, RefusesAFileThatIsNoRunsCsvAndLeavesItAlone) {
  const TemporaryFolder folder;
  std::vector<std::string> twice = run_columns();
  twice.emplace_back("note");
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"depth,base_filters\n1,2\n", "runs.csv:1: column \"timestamp_utc\" is missing"},
      {"no line feed", "runs.csv:1: column \"timestamp_utc\" is missing"},
      {"\n", "runs.csv: is empty"},
      {csv_line(twice), "runs.csv:1: column \"note\" appears twice"},
      {"\"never closed\n", "runs.csv:1: a quote is not closed"},
      {std::string("\0\1\2\n", 4), "runs.csv:1: holds a NUL byte"},
      {std::string(1'000'000, 'x') + '\n', "runs.csv:1: column \"timestamp_utc\" is missing"},
  };
  for (const auto& [text, message] : cases) {
    const std::string path = folder.write("runs.csv", text);
    EXPECT_THAT([&] { RunRecorder{path}; }, ThrowsMessage<InputError>(HasSubstr(message)));
    EXPECT_EQ(slurp(path), text);
  }
  EXPECT_THROW(RunRecorder{folder.path()}, InputError);
  EXPECT_THROW(RunRecorder{folder.file("missing/runs.csv")}, InputError);
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(RunRecorder, AHeaderWithoutLineFeedGetsOne) {
  const TemporaryFolder folder;
  std::vector<std::string> header = run_columns();
  std::swap(header[0], header[1]);
  std::string text = csv_line(header);
  text.pop_back();
  const std::string path = folder.write("runs.csv", text);
  RunRecorder recorder(path);
  recorder.append(sample_run(1));
  EXPECT_THAT(read_runs(path), ElementsAre(sample_run(1)));
  EXPECT_THAT(recorder.set_aside(), IsEmpty());
}

TEST(RunRecorder, SurvivesAWriterThatDiedAtAnyByte) {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs.csv");
  {
    RunRecorder recorder(path);
    recorder.append(sample_run(1));
    recorder.append(sample_run(2));
  }
  const std::string whole = slurp(path);
  const std::size_t last_row = whole.rfind('\n', whole.size() - 2) + 1;
  for (std::size_t size = last_row; size < whole.size(); ++size) {
    folder.write("runs.csv", whole.substr(0, size));
    const std::string torn = whole.substr(last_row, size - last_row);
    std::filesystem::remove(path + ".torn");
    RunRecorder recorder(path);
    if (torn.empty()) {
      ASSERT_THAT(recorder.set_aside(), IsEmpty());
      ASSERT_FALSE(std::filesystem::exists(path + ".torn"));
    } else {
      ASSERT_THAT(recorder.set_aside(), ElementsAre(HasSubstr(path + ".torn")));
      ASSERT_EQ(slurp(path + ".torn"), torn + "\n");
    }
    ASSERT_EQ(slurp(path), whole.substr(0, last_row));
    recorder.append(sample_run(3));
    ASSERT_THAT(read_runs(path), ElementsAre(sample_run(1), sample_run(3)));
  }
}

TEST(RunRecorder, SurvivesAWriterThatDiedAtAnyByteOfTheHeader) {
  const TemporaryFolder folder;
  const std::string header = csv_line(run_columns());
  for (std::size_t size = 0; size < header.size(); ++size) {
    const std::string path = folder.write("runs.csv", header.substr(0, size));
    RunRecorder recorder(path);
    recorder.append(sample_run(1));
    ASSERT_THAT(read_runs(path), ElementsAre(sample_run(1)));
    ASSERT_THAT(recorder.set_aside(), SizeIs(size == 0 ? 0 : 1));
  }
}

TEST(RunRecorder, AnOpenRecorderSetsAsideWhatAnotherWriterLeftTorn) {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs.csv");
  RunRecorder recorder(path);
  recorder.append(sample_run(1));
  folder.write("runs.csv", slurp(path) + std::string(200'000, 'x'));  // longer than a block
  recorder.append(sample_run(2));
  EXPECT_THAT(read_runs(path), ElementsAre(sample_run(1), sample_run(2)));
  EXPECT_THAT(recorder.set_aside(), SizeIs(1));
  EXPECT_EQ(slurp(path + ".torn"), std::string(200'000, 'x') + "\n");
}

TEST(RunRecorder, FollowsAFileThatIsReplacedOrRemoved) {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs.csv");
  RunRecorder recorder(path);
  recorder.append(sample_run(1));
  std::filesystem::rename(path, folder.file("old.csv"));
  recorder.append(sample_run(2));
  EXPECT_THAT(read_runs(path), ElementsAre(sample_run(2)));
  EXPECT_THAT(read_runs(folder.file("old.csv")), ElementsAre(sample_run(1)));
}

TEST(RunRecorder, APipeStaysOpenBetweenRows) {
  const TemporaryFolder folder;
  const std::string path = folder.file("pipe");
  ASSERT_EQ(::mkfifo(path.c_str(), 0600), 0);
  std::vector<std::string> lines;
  std::thread reader([&] {
    std::ifstream pipe(path);
    for (std::string line; std::getline(pipe, line);) lines.push_back(line);
  });
  {
    RunRecorder recorder(path);
    for (int i = 0; i < 3; ++i) {
      ::usleep(50'000);  // time for the reader to see an end, if there was one
      recorder.append(sample_run(i));
    }
  }
  reader.join();
  EXPECT_EQ(lines.size(), 4U);
}

TEST(RunRecorder, LosesNoAcknowledgedRowWhenItsWriterIsKilled) {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs.csv");
  std::mt19937 random(1);
  std::set<std::string> acknowledged;
  for (int round = 0; round < 200; ++round) {
    int ends[2];
    ASSERT_EQ(::pipe(ends), 0);
    const pid_t child = in_child([&] {
      RunRecorder recorder(path);
      for (int i = 0;; ++i) {
        const int number = round * 1'000'000 + i;
        recorder.append(sample_run(number));
        if (::write(ends[1], &number, sizeof number) != sizeof number) return;
      }
    });
    ASSERT_GT(child, 0);
    ::close(ends[1]);
    if (round % 2 == 1) {  // every other writer gets as far as its second row, however slow the disk
      pollfd first{ends[0], POLLIN, 0};
      ASSERT_EQ(::poll(&first, 1, 60'000), 1);
    }
    ::usleep(std::uniform_int_distribution<unsigned>(0, 10'000)(random));
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    for (int number = 0; ::read(ends[0], &number, sizeof number) == sizeof number;) {
      acknowledged.insert(sample_run(number).note);
    }
    ::close(ends[0]);
  }
  ASSERT_GE(acknowledged.size(), 100U);
  RunRecorder recorder(path);
  std::set<std::string> found;
  for (const auto& run : read_runs(path)) {
    EXPECT_TRUE(found.insert(run.note).second) << run.note << " twice";
  }
  EXPECT_TRUE(std::includes(found.begin(), found.end(), acknowledged.begin(), acknowledged.end()));
  EXPECT_LE(found.size(), acknowledged.size() + 200);  // a row written but not yet acknowledged for each death
}

TEST(RunRecorder, EightWritersAtOnceLoseNothing) {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs.csv");
  constexpr int writers = 8;
  constexpr int rows = 40;
  std::vector<pid_t> children;
  for (int writer = 0; writer < writers; ++writer) {
    children.push_back(in_child([&path, writer] {
      RunRecorder recorder(path);
      for (int i = 0; i < rows; ++i) recorder.append(sample_run(writer * rows + i));
    }));
  }
  for (const pid_t child : children) {
    int status = -1;
    ASSERT_EQ(::waitpid(child, &status, 0), child);
    EXPECT_EQ(status, 0);
  }
  std::set<std::string> notes;
  for (const auto& run : read_runs(path)) notes.insert(run.note);
  EXPECT_EQ(notes.size(), static_cast<std::size_t>(writers * rows));
  EXPECT_EQ(read_runs(path).size(), notes.size());
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(RunRecorder, ADiskThatFillsUpInTheMiddleOfARowCostsThatRowOnly) {
  const TemporaryFolder folder;
  const std::string path = folder.file("runs.csv");
  RunRecorder(path).append(sample_run(1));
  const std::string before = slurp(path);
  const pid_t child = in_child([&] {
    ::signal(SIGXFSZ, SIG_IGN);
    const rlimit limit{before.size() + 20, before.size() + 20};
    ::setrlimit(RLIMIT_FSIZE, &limit);
    RunRecorder recorder(path);
    try {
      recorder.append(sample_run(2));
    } catch (const InputError&) {
      ::_exit(3);
    } catch (const Error& error) {
      ::_exit(std::string(error.what()).find(path + ": cannot be written: ") == 0 ? 42 : 4);
    }
  });
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(WEXITSTATUS(status), 42);
  EXPECT_EQ(slurp(path), before);
}

TEST(RunRecorder, AFullDeviceIsAnErrorOfTheDisk) {
  EXPECT_THAT([] { RunRecorder("/dev/full"); },
              ThrowsMessage<Error>("/dev/full: cannot be written: No space left on device"));
}

}  // namespace
}  // namespace perfpred
