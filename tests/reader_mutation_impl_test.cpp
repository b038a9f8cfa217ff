// SPDX-License-Identifier: Apache-2.0
// Readers against files that were damaged at random: whatever they hold, the outcome is rows or one InputError.
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/run.h>
#include <perfpred/run_recorder.h>
#include <perfpred/training_log.h>

#include <gtest/gtest.h>

#include <bit>
#include <boost/crc.hpp>
#include <cstring>
#include <functional>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "aggregate/figures.h"
#include "refusal.h"
#include "runs/run_log.h"
#include "runs/run_row.h"
#include "sample_runs.h"
#include "temporary_folder.h"
#include "text/csv.h"

namespace perfpred {
namespace {

using testing::TemporaryFolder;

constexpr int rounds = 2000;

/// Damages a text as editors, disks and transfers do.
class Mutator {
 public:
  explicit Mutator(std::uint64_t seed) : random_(seed) {}

  std::string operator()(std::string text) {
    for (std::size_t i = 1 + below(4); i > 0; --i) mutate(text);
    return text;
  }

 private:
  std::size_t below(std::size_t n) { return static_cast<std::size_t>(random_() % n); }

  void mutate(std::string& text) {
    static const std::vector<std::string> words = {"\"",
                                                   "\"\"",
                                                   ",",
                                                   "\n",
                                                   "\r\n",
                                                   "\r",
                                                   std::string(1, '\0'),
                                                   "nan",
                                                   "-1",
                                                   "0",
                                                   "1e400",
                                                   "1e-200",
                                                   " ",
                                                   ";",
                                                   "[",
                                                   "]",
                                                   "[]",
                                                   "\xEF\xBB\xBF",
                                                   "\xFF",
                                                   "steps",
                                                   "oom",
                                                   "failed",
                                                   "untrusted",
                                                   "9223372036854775808",
                                                   "{",
                                                   "}",
                                                   ":",
                                                   "null",
                                                   "1e200",
                                                   "+1",
                                                   "0x1",
                                                   ".5",
                                                   "1.",
                                                   "\\u0000",
                                                   "true"};
    const std::size_t at = below(text.size() + 1);
    const std::size_t length = std::min(text.size() - at, below(8));
    switch (below(7)) {
      case 0:
        text.erase(at, length);
        break;
      case 1:
        text.insert(at, words[below(words.size())]);
        break;
      case 2:
        text.replace(at, length, words[below(words.size())]);
        break;
      case 3:
        if (at < text.size()) text[at] = static_cast<char>(random_());
        break;
      case 4:
        text.resize(at);
        break;
      case 5:
        text.insert(at, text.substr(below(text.size() + 1), below(200)));
        break;
      default:
        field(text, at, words[below(words.size())]);
    }
  }

  /// Replaces the whole field around a place, which a blind change seldom does.
  static void field(std::string& text, std::size_t at, const std::string& by) {
    const std::size_t end = std::min(text.find_first_of(",\n", at), text.size());
    const std::size_t before = at == 0 ? std::string::npos : text.find_last_of(",\n", at - 1);
    const std::size_t begin = before == std::string::npos ? 0 : before + 1;
    if (begin <= end) text.replace(begin, end - begin, by);
  }

  std::mt19937_64 random_;
};

/// What reading says: empty if it succeeds.
std::string complaint(const std::function<void()>& read) {
  std::string message = testing::refusal(read);
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
  EXPECT_LT(message.size(), 600U) << message;
  return message;
}

std::string sample_csv() {
  auto noted = testing::run_of_epochs({9, 1, 1.01, 1.02}, 64);
  noted.note = "with a comma, and \"quotes\"";
  noted.workload.device = "card";
  auto steps = testing::run_of_epochs({9, 1, 1});
  steps.timing = Timing::steps;
  steps.epoch_times.clear();
  return testing::csv_of({testing::run_of_epochs({9, 1, 1}), testing::run_of_epochs({9, 1, 3}), noted, steps,
                          testing::run_without_time(Outcome::oom), testing::run_without_time(Outcome::failed)});
}

TEST(ReaderMutation, FilesReadInPiecesAgreeWithFilesReadRowByRow) {
  const TemporaryFolder folder;
  Mutator mutate(1);
  int accepted = 0;
  for (int round = 0; round < rounds; ++round) {
    const std::string path = folder.write("runs.csv", mutate(sample_csv()));
    Aggregator careful;
    const std::string expected = complaint([&] {
      CsvReader csv(path);
      RunParser parser(csv.header(), path + ":1");
      while (csv.next()) careful.add(parser.parse(csv.fields(), csv.place("")));
    });
    Aggregator fast;
    std::vector<std::string> notes;
    std::string got = complaint([&] { notes = fast.add_file(path, 1 + round % 2); });
    const bool cut_off = !notes.empty() && notes.back().find("; the last line was cut off") != std::string::npos;
    if (cut_off) got = notes.back().substr(0, notes.back().rfind("; "));
    ASSERT_EQ(got.empty(), expected.empty()) << "fast: " << got << "\ncareful: " << expected;
    if (!got.empty()) {
      // What add() refuses has no line yet. The careful reader, in large blocks, tells a NUL byte before anything else.
      const bool placed = expected.rfind(path, 0) == 0;
      if (expected.find("NUL") == std::string::npos) {
        ASSERT_EQ(placed ? got : got.substr(got.find(": ") + 2), expected);
      }
      if (!cut_off) continue;
    }
    ++accepted;
    std::vector<AggregateRow> rows;
    const std::string conflict = complaint([&] { rows = careful.rows(); });
    if (!conflict.empty()) {
      ASSERT_EQ(complaint([&] { (void)fast.rows(); }), conflict);
      continue;
    }
    ASSERT_EQ(fast.rows(), rows);
    ASSERT_EQ(fast.runs(), careful.runs());
    if (rows.empty()) continue;  // a table without rows is written, but nobody reads it
    write_aggregate(folder.file("agg.csv"), rows);
    ASSERT_EQ(read_aggregate(folder.file("agg.csv")), rows);
  }
  EXPECT_GT(accepted, rounds / 20);
}

TEST(ReaderMutation, AggregatedTables) {
  const TemporaryFolder folder;
  Aggregator aggregator;
  aggregator.add_file(folder.write("runs.csv", sample_csv()));
  write_aggregate(folder.file("agg.csv"), aggregator.rows());
  const std::string whole = testing::slurp(folder.file("agg.csv"));
  Mutator mutate(2);
  for (int round = 0; round < rounds; ++round) {
    const std::string path = folder.write("agg.csv", mutate(whole));
    complaint([&] {
      const auto rows = read_aggregate(path);
      write_aggregate(folder.file("again.csv"), rows);
      ASSERT_EQ(read_aggregate(folder.file("again.csv")), rows);
    });
  }
}

/// A record of an event file of TensorBoard, with the checksums that belong to it.
std::string framed(std::string_view bytes) {
  const auto checksum = [](std::string_view of) {
    boost::crc_optimal<32, 0x1EDC6F41, 0xFFFFFFFF, 0xFFFFFFFF, true, true> crc;
    crc.process_bytes(of.data(), of.size());
    const std::uint32_t masked = std::rotr(static_cast<std::uint32_t>(crc.checksum()), 15) + 0xa282ead8U;
    return std::string(reinterpret_cast<const char*>(&masked), sizeof masked);
  };
  const std::uint64_t size = bytes.size();
  const std::string length(reinterpret_cast<const char*>(&size), sizeof size);
  return length + checksum(length) + std::string(bytes) + checksum(bytes);
}

/// The file with one of its records damaged, whose checksums fit again.
std::string with_damaged_record(std::string_view file, std::size_t number, Mutator& mutate) {
  std::string damaged;
  for (std::size_t i = 0; file.size() >= 16; ++i) {
    std::uint64_t size = 0;
    std::memcpy(&size, file.data(), sizeof size);
    const std::string bytes(file.substr(12, size));
    damaged += framed(i == number ? mutate(bytes) : bytes);
    file.remove_prefix(16 + size);
  }
  return damaged;
}

TEST(ReaderMutation, LogsOfOtherSoftware) {
  const TemporaryFolder folder;
  RunFacts facts;
  facts.fields = {{"network", "resnet18"}, {"optimizer", "sgd"}, {"precision", "fp32"}, {"device", "T4"}};
  facts.counted = Timing::steps;
  Mutator mutate(7);
  for (const char* name : {"mlperf.log", "trainer_state.json", "lightning.csv", "lightning.tfevents", "keras.tfevents",
                           "keras.csv", "ultralytics.csv", "fastai.csv"}) {
    const std::string whole = testing::slurp(std::string(PERFPRED_SOURCE_DIR "/tests/data/logs/") + name);
    RunFacts known = facts;
    if (std::string_view(name) == "mlperf.log") known.fields.erase(known.fields.begin());
    for (const char* field : {"batch_size", "train_images"}) {
      if (std::string_view(name) != "trainer_state.json") known.fields.emplace_back(field, "32");
    }
    if (std::string_view(name) == "mlperf.log") known.fields.back().second = "512";
    const bool is_framed = std::string_view(name).ends_with("tfevents");
    int accepted = 0;
    for (int round = 0; round < rounds / 10; ++round) {
      const std::string log =
          is_framed ? with_damaged_record(whole, static_cast<std::size_t>(round % 20), mutate) : mutate(whole);
      const std::string path = folder.write("log", log);
      complaint([&] {
        const auto run = read_training_log(path, known);
        ASSERT_EQ(read_runs(folder.write("runs.csv", testing::csv_of({run}))), std::vector{run}) << name;
        ++accepted;
      });
    }
    EXPECT_GT(accepted, 3) << name;
  }
}

TEST(ReaderMutation, Logs) {
  const TemporaryFolder folder;
  const std::string whole = "{\"workload\":\"x\"}\n" + epoch_json({1, 9.5, 2.25, 0.125, 2.5, 0.25}) + "\n" +
                            run_json(testing::run_of_epochs({9, 1, 1})) + "\n";
  Mutator mutate(4);
  for (int round = 0; round < rounds; ++round) {
    const std::string path = folder.write("log.jsonl", mutate(whole));
    complaint([&] { (void)read_run_log(path); });
  }
}

TEST(ReaderMutation, Keys) {
  const std::string key = Workload::cifar_cnn(3, 32, 512).key();
  Mutator mutate(5);
  for (int round = 0; round < rounds; ++round) {
    const std::string text = mutate(key);
    complaint([&] { ASSERT_EQ(Workload::from_key(text).key(), text); });
  }
}

/// Lines that are not blank, without byte order mark and line ends.
std::vector<std::string> lines_of(std::string_view text) {
  std::vector<std::string> lines;
  if (text.substr(0, byte_order_mark.size()) == byte_order_mark) text.remove_prefix(byte_order_mark.size());
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string line(text.substr(0, end));
    text.remove_prefix(std::min(end + 1, text.size()));
    if (!line.empty() && line.back() == '\r') line.pop_back();
    if (!line.empty()) lines.push_back(std::move(line));
  }
  return lines;
}

TEST(ReaderMutation, ARecorderNeverLosesBytesOfAFileItRefusesOrRepairs) {
  const TemporaryFolder folder;
  Mutator mutate(6);
  for (int round = 0; round < rounds / 10; ++round) {
    const std::string before = mutate(sample_csv());
    const std::string path = folder.write("runs.csv", before);
    folder.write("runs.csv.torn", "");
    const std::string refused = complaint([&] { RunRecorder recorder(path); });
    const std::string after = testing::slurp(path);
    const std::string torn = testing::slurp(path + ".torn");
    if (!refused.empty()) {
      ASSERT_EQ(after, before);
      continue;
    }
    const std::string kept = torn.substr(0, torn.empty() ? 0 : torn.size() - 1);
    ASSERT_EQ(before.substr(before.size() - kept.size()), kept);
    // Every line is still there; behind it there may be columns that the header lacked.
    const auto lines = lines_of(before.substr(0, before.size() - kept.size()));
    const auto lines_after = lines_of(after);
    ASSERT_GE(lines_after.size(), lines.size());
    for (std::size_t i = 0; i < lines.size(); ++i) ASSERT_EQ(lines_after[i].substr(0, lines[i].size()), lines[i]);
  }
}

}  // namespace
}  // namespace perfpred
