// SPDX-License-Identifier: Apache-2.0
// perfpred-aggregate as a user runs it.
#include <perfpred/aggregator.h>
#include <perfpred/run.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "../sample_runs.h"
#include "runs/run_log.h"
#include "runs/run_row.h"
#include "spawn.h"
#include "text/csv.h"

namespace perfpred {
namespace {

using testing::csv_of;
using testing::expect_refusal;
using testing::Finished;
using ::testing::HasSubstr;
using testing::run_of_epochs;
using testing::slurp;
using testing::spawn;
using testing::TemporaryFolder;

std::string good_runs() {
  return csv_of({run_of_epochs({9, 1, 1}), run_of_epochs({9, 1, 2}), run_of_epochs({9, 2, 4}, 64)});
}

Finished aggregate(std::vector<std::string> options, const std::string& out_path = {}) {
  options.insert(options.begin(), testing::program("aggregate"));
  return spawn(options, {}, out_path);
}

TEST(AggregateProgram, WritesATableToStandardOutput) {
  const TemporaryFolder folder;
  const Finished finished = aggregate({"--runs", folder.write("runs.csv", good_runs())});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  const auto rows = read_aggregate(folder.write("agg.csv", finished.out));
  ASSERT_EQ(rows.size(), 2U);
  EXPECT_EQ(rows[0].flags.text(), "unstable");
  EXPECT_EQ(rows[0].avg_time_mean, 3);
  EXPECT_EQ(rows[1].avg_time_mean, 1);
  EXPECT_EQ(rows[1].n_rejected, 1);
  EXPECT_THAT(finished.err, HasSubstr("3 runs, 2 rows, 2 rejected: 2 epochs_disagree\n"
                                      "1 of 2 rows are unstable: all of their runs were rejected\n"));
}

TEST(AggregateProgram, AddsToAFileThatStandardOutputWasDirectedTo) {
  const TemporaryFolder folder;
  const std::string runs = folder.write("runs.csv", good_runs()), log = folder.write("log", "before\n");
  for (const char* out : {"", " --out /dev/stdout"}) {
    const std::string command = testing::program("aggregate") + " --runs " + runs + out + " >> " + log + " 2>/dev/null";
    ASSERT_EQ(std::system(command.c_str()), 0);
  }
  const std::string text = slurp(log), once = spawn({testing::program("aggregate"), "--runs", runs}).out;
  EXPECT_EQ(text, "before\n" + once + once);
}

TEST(AggregateProgram, JsonIsOneDocumentAndFilesAreWritten) {
  const TemporaryFolder folder;
  const auto json = json_of(aggregate({"--runs", folder.write("runs.csv", good_runs()), "--json", "--out",
                                       folder.file("agg.csv"), "--rejected", folder.file("rejected.csv")}));
  EXPECT_EQ(json["runs"], 3);
  EXPECT_EQ(json["rows"], 2);
  ASSERT_EQ(json["rejected"].size(), 2U);
  EXPECT_EQ(json["rejected"][0]["avg_time_sec"], 1.5);
  EXPECT_EQ(json["rejected"][0]["reason"], "epochs_disagree");
  EXPECT_EQ(json["flagged"][0]["flags"], "unstable");
  EXPECT_EQ(read_aggregate(folder.file("agg.csv")).size(), 2U);
  CsvReader rejected(folder.file("rejected.csv"));
  const CsvColumn key = rejected.required("key");
  const CsvColumn sec = rejected.required("avg_time_sec");
  ASSERT_TRUE(rejected.next());
  EXPECT_EQ(rejected.text(key), Workload::cifar_cnn(2, 16, 128).key());
  EXPECT_EQ(rejected.positive(sec), 1.5);
}

TEST(AggregateProgram, OneOutputIsOneHoweverItsNewNameIsSpelled) {
  const TemporaryFolder folder;
  const std::string runs = folder.write("runs.csv", good_runs());
  std::filesystem::create_symlink("o", folder.file("link"));
  for (const std::string& same : {std::string("./o"), folder.file("o"), std::string("link")}) {
    const std::string command = "cd " + folder.path() + " && exec " + testing::program("aggregate") +
                                " --runs runs.csv --out o --rejected " + same;
    expect_refusal(spawn({"/bin/sh", "-c", command}), 2, "--out and --rejected are the same file");
  }
  EXPECT_EQ(folder.entries(), 2U);
}

TEST(AggregateProgram, FilesOfSeveralMachinesAreOneTable) {
  const TemporaryFolder folder;
  const std::vector<perfpred::Run> here = {run_of_epochs({9, 1, 1}), run_of_epochs({9, 1, 2})};
  const std::vector<perfpred::Run> there = {run_of_epochs({9, 1.05, 1.05}), run_of_epochs({9, 2, 4}, 64)};
  std::vector<perfpred::Run> all = here;
  all.insert(all.end(), there.begin(), there.end());
  const std::string a = folder.write("a.csv", csv_of(here)), b = folder.write("b.csv", csv_of(there));
  const Finished joined = aggregate({"--runs", a, "--runs", b});
  EXPECT_EQ(joined.exit_code, 0) << joined.err;
  EXPECT_EQ(joined.out, aggregate({"--runs", folder.write("all.csv", csv_of(all))}).out);
  for (const char* option : {"--merge", "--partial"}) {
    expect_refusal(aggregate({"--runs", a, option, folder.file("a.json")}), 2,
                   std::string(option) + " is not an option: runs of several machines are aggregated at once (--runs");
  }
}

TEST(AggregateProgram, RecoversRowsFromLogs) {
  const TemporaryFolder folder;
  folder.write("a.jsonl", "{}\n" + run_json(run_of_epochs({9, 1, 1})) + "\n");
  folder.write("b.jsonl", "{}\n{\"epo");
  const Finished finished = aggregate({"--logs", folder.path(), "--json"});
  EXPECT_EQ(json_of(finished)["runs"], 1);
  EXPECT_THAT(finished.err, HasSubstr("b.jsonl: holds no row"));
}

TEST(AggregateProgram, ReadsLogsOfOtherSoftware) {
  const TemporaryFolder folder;
  const auto log = [](const std::string& name) { return PERFPRED_SOURCE_DIR "/tests/data/logs/" + name; };
  const std::vector<std::string> facts = {"--network",   "resnet18", "--train-images", "512",  "--optimizer", "sgd",
                                          "--precision", "fp32",     "--device",       "cpu0", "--threads",   "2"};
  const auto from = [&facts](std::vector<std::string> options) {
    options.insert(options.end(), facts.begin(), facts.end());
    return aggregate(options);
  };
  // Two files of one run beside a table of runs: the log with a time of its start counts once.
  const Finished finished = from({"--runs", folder.write("runs.csv", good_runs()), "--from", log("lightning.tfevents"),
                                  "--from", log("lightning.tfevents"), "--batch-size", "32", "--env", "ours"});
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("lightning.tfevents: skipped, since its run is in an earlier input"));
  EXPECT_THAT(finished.err, HasSubstr("lightning.tfevents: median of logged intervals"));
  const auto rows = read_aggregate(folder.write("agg.csv", finished.out));
  ASSERT_EQ(rows.size(), 3U);
  EXPECT_EQ(rows.back().workload.network, "resnet18");
  EXPECT_EQ(rows.back().env, "ours");
  EXPECT_NEAR(*rows.back().avg_time_mean, 0.054340457916259764 * 16, 1e-9);  // as in training_log_test

  const Finished table = from({"--from", log("keras.csv"), "--batch-size", "32", "--runs-out", folder.file("k.csv")});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  EXPECT_EQ(table.out, "");
  const auto runs = read_runs(folder.file("k.csv"));
  ASSERT_EQ(runs.size(), 1U);
  EXPECT_EQ(runs[0].framework, "keras");
  EXPECT_EQ(runs[0].epoch_times.size(), 4U);

  expect_refusal(aggregate({"--from", log("keras.csv"), "--network", "resnet18"}), 2,
                 "keras.csv: does not say batch_size, train_images, optimizer, precision, device: give them");
  expect_refusal(from({"--from", log("lightning_untimed.csv")}), 2, "times nothing without the callback");
  expect_refusal(from({"--from", log("torch.tfevents"), "--batch-size", "1", "--counted", "images"}), 2, "--counted");
  expect_refusal(aggregate({"--runs", folder.file("runs.csv"), "--device", "T4"}), 2, "--device requires --from");
  expect_refusal(aggregate({"--runs", log("ultralytics.csv")}), 2, "logs of other software are for --from");

  // A device of no catalogue has runs under its own name; a name that several share says not whose they are.
  const auto on = [&](const std::string& device) {
    return aggregate({"--from", log("keras.csv"), "--network", "resnet18", "--batch-size", "32", "--train-images",
                      "512", "--optimizer", "sgd", "--precision", "fp32", "--device", device});
  };
  expect_refusal(on("H100"), 2, "device \"H100\" may be any of H100-PCIe-80GB, ");
  const Finished own = on("My card");
  EXPECT_EQ(own.exit_code, 0);
  EXPECT_THAT(own.err, HasSubstr("device \"My card\" is not known"));
  EXPECT_THAT(own.err, HasSubstr("; its runs answer for this name alone"));
  EXPECT_THAT(on("nvidia t4").err, ::testing::Not(HasSubstr("is not known")));
}

TEST(AggregateProgram, BadFilesAreOneLineAndNoOutput) {
  const TemporaryFolder folder;
  auto nan = run_fields(run_of_epochs({9, 1, 1}));
  nan[8] = "nan";
  std::vector<std::string> missing = run_columns();
  missing.erase(missing.begin() + 8);
  std::vector<std::string> twice = run_columns();
  twice.emplace_back("depth");
  const std::string long_field(1'000'000, 'x');
  const std::string header = csv_line(run_columns());
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"", "runs.csv: is empty"},
      {header + csv_line(nan), "runs.csv:2: avg_time_sec \"nan\""},
      {csv_line(missing), "runs.csv:1: column \"avg_time_sec\" is missing"},
      {csv_line(twice), "runs.csv:1: column \"depth\" appears twice"},
      {header + long_field + "\n", "runs.csv:2: 1 fields where the header has " + std::to_string(run_columns().size())},
      {header + std::string(1000, '\0'), "runs.csv:2: holds a NUL byte"},
      {std::string("\x89PNG\r\n\x1a\n\0\0", 10), "runs.csv:3: holds a NUL byte"},
      {header, "runs.csv: holds no run"},
  };
  for (const auto& [text, message] : cases) {
    const std::string runs = folder.write("runs.csv", text);
    expect_refusal(
        aggregate({"--runs", runs, "--out", folder.file("agg.csv"), "--rejected", folder.file("r.csv"), "--json"}), 2,
        message);
    EXPECT_EQ(folder.entries(), 1U) << message;
  }
  expect_refusal(aggregate({"--runs", folder.file("none.csv")}), 2, "none.csv: No such file or directory");
  expect_refusal(aggregate({"--runs", folder.path()}), 2, "is a folder");
  expect_refusal(aggregate({"--logs", folder.file("none")}), 2, "none: No such file or directory");
}

TEST(AggregateProgram, ALastLineThatWasCutOffIsSkippedAndReported) {
  const TemporaryFolder folder;
  const std::string runs = folder.write("runs.csv", good_runs().substr(0, good_runs().size() - 60));
  const Finished finished = aggregate({"--runs", runs, "--json"});
  EXPECT_EQ(json_of(finished)["runs"], 2);
  EXPECT_THAT(finished.err, HasSubstr(runs + ":4: "));
  EXPECT_THAT(finished.err, HasSubstr("the last line was cut off by its writer and is skipped"));
  expect_refusal(aggregate({"--runs", folder.write("whole.csv", slurp(runs) + "\n")}), 2, "whole.csv:4: ");
}

TEST(AggregateProgram, ARunThatIsGivenTwiceCountsOnceAndIsReported) {
  const TemporaryFolder folder;
  const std::string a = folder.write("a.csv", good_runs());
  const std::string b = folder.write("b.csv", good_runs() + csv_line(run_fields(run_of_epochs({9, 3, 3}, 32))));
  const std::string once = aggregate({"--runs", a}).out;
  const Finished twice = aggregate({"--runs", a, "--runs", a});
  EXPECT_EQ(twice.exit_code, 0) << twice.err;
  EXPECT_EQ(twice.out, once);
  EXPECT_THAT(twice.err, HasSubstr("a.csv: skipped 3 of 3 runs, which are in an earlier input"));
  const Finished grown = aggregate({"--runs", a, "--runs", b});
  EXPECT_EQ(grown.out, aggregate({"--runs", b}).out);
  EXPECT_THAT(grown.err, HasSubstr("b.csv: skipped 3 of 4 runs"));
}

TEST(AggregateProgram, EmptyFilesBesideOthersAndOtherLineEndsAreFine) {
  const TemporaryFolder folder;
  const Finished empty = aggregate({"--runs", folder.write("empty.csv", csv_line(run_columns())), "--runs",
                                    folder.write("runs.csv", good_runs()), "--json"});
  EXPECT_EQ(json_of(empty)["rows"], 2);
  EXPECT_THAT(empty.err, HasSubstr("empty.csv: holds no run"));
  std::string text = "\xEF\xBB\xBF";
  for (const char c : good_runs()) text += c == '\n' ? "\r\n" : std::string(1, c);
  EXPECT_EQ(aggregate({"--runs", folder.write("crlf.csv", text)}).out,
            aggregate({"--runs", folder.write("lf.csv", good_runs())}).out);
}

TEST(AggregateProgram, BadOptionsAreOneLine) {
  const TemporaryFolder folder;
  const std::string runs = folder.write("runs.csv", good_runs());
  expect_refusal(aggregate({}), 2, "--runs");
  expect_refusal(aggregate({"--runs", runs, "--label", "median"}), 2, "label \"median\" is not robust or mean");
  expect_refusal(aggregate({"--runs", runs, "--logs", folder.path()}), 2, "--logs");
  expect_refusal(aggregate({"--frobnicate"}), 2, "--frobnicate");
  expect_refusal(aggregate({"--runs"}), 2, "--runs");
  expect_refusal(aggregate({"--runs", runs, "--out", folder.file("no/where.csv")}), 2, "where.csv: cannot be written");
  expect_refusal(aggregate({"--runs", runs, "--out", folder.path()}), 2, "is a folder");
}

TEST(AggregateProgram, AFullDiskIsExitOneAndLeavesNothing) {
  const TemporaryFolder folder;
  const std::string runs = folder.write("runs.csv", good_runs());
  expect_refusal(aggregate({"--runs", runs, "--out", "/dev/full"}), 1, "/dev/full: cannot be written: No space left");
  expect_refusal(aggregate({"--runs", runs, "--rejected", "/dev/full"}), 1, "/dev/full: cannot be written");
  const Finished table = aggregate({"--runs", runs}, "/dev/full");
  EXPECT_EQ(table.exit_code, 1);
  EXPECT_THAT(table.err, HasSubstr("No space left on device"));
  const Finished json = aggregate({"--runs", runs, "--json"}, "/dev/full");
  EXPECT_EQ(json.exit_code, 1) << json.err;
  EXPECT_THAT(json.err, HasSubstr("perfpred-aggregate: "));

  // An older result stays when the disk is full: the shell's limit on file sizes, in blocks of 512 or 1024 bytes.
  const std::string out = folder.write("agg.csv", "older\n");
  const Finished limited =
      spawn({"/bin/sh", "-c", "trap '' XFSZ; ulimit -f 0; exec \"$0\" --runs \"$1\" --out \"$2\" 2>/dev/null",
             testing::program("aggregate"), runs, out});
  EXPECT_EQ(limited.exit_code, 1);
  EXPECT_EQ(slurp(out), "older\n");
  EXPECT_EQ(folder.entries(), 2U);
}

TEST(AggregateProgram, HelpAndVersion) {
  const Finished help = aggregate({"--help"});
  EXPECT_EQ(help.exit_code, 0);
  EXPECT_THAT(help.out, HasSubstr("Example:"));
  const Finished version = aggregate({"--version"});
  EXPECT_EQ(version.exit_code, 0);
  EXPECT_THAT(version.out, HasSubstr("perfpred-aggregate "));
}

}  // namespace
}  // namespace perfpred
