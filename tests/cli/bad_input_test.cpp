// SPDX-License-Identifier: Apache-2.0
// Every program that reads tables, against tables and options that are wrong.
#include <perfpred/aggregator.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>
#include <vector>

#include "../sample_rows.h"
#include "spawn.h"

namespace perfpred {
namespace {

using testing::expect_refusal;
using testing::Finished;
using testing::program;
using testing::slurp;
using testing::spawn;
using testing::TemporaryFolder;

struct Reader {
  std::string name;
  std::vector<std::string> options;  // the file comes behind
};

class BadInput : public ::testing::Test {
 protected:
  BadInput() {
    std::vector<AggregateRow> rows;
    for (int depth = 1; depth <= 4; ++depth) {
      for (const int base : {8, 16, 32}) {
        for (const int batch : {32, 64, 128}) {
          const Workload workload = Workload::cifar_cnn(depth, base, batch);
          rows.push_back(
              testing::row_of(workload, 0.001 * static_cast<double>(workload.steps_per_epoch() * depth), 0.5));
        }
      }
    }
    write_aggregate(good_, rows);
    const Finished trained = spawn({program("train"), "--runs-agg", good_, "--kind", "linear", "--out", model_});
    EXPECT_EQ(trained.exit_code, 0) << trained.err;
    readers_ = {
        {"train", {"--kind", "linear", "--out", out_, "--json", "--runs-agg"}},
        {"train", {"--kind", "linear", "--out", out_, "--json", "--runs-agg", good_, "--split"}},
        {"evaluate", {"--model", model_, "--out", out_, "--json", "--measured"}},
        {"evaluate", {"--kind", "linear", "--protocol", "kfold", "--json", "--runs-agg"}},
        {"evaluate", {"--measured", good_, "--out", out_, "--json", "--model"}},
        {"predict", {"--model", model_, "--out", out_, "--configs"}},
        {"predict", {"--depth", "2", "--base-filters", "16", "--batch-size", "32", "--json", "--model"}},
        {"plan", {"--budget-sec", "100", "--epochs", "3", "--out", out_, "--json", "--runs-agg"}},
        {"devices", {"--json", "--devices"}},
    };
  }

  void expect_all_refuse(const std::string& path, const std::string& what) {
    for (const Reader& reader : readers_) {
      std::vector<std::string> command = {program(reader.name)};
      command.insert(command.end(), reader.options.begin(), reader.options.end());
      command.push_back(path);
      SCOPED_TRACE(reader.name + " " + command[command.size() - 2] + " " + what);
      expect_refusal(spawn(command), 2, std::filesystem::path(path).filename().string());
      EXPECT_FALSE(std::filesystem::exists(out_));
    }
  }

  Finished run(const std::string& name, std::vector<std::string> options, const std::string& stdout_path = {}) const {
    options.insert(options.begin(), program(name));
    return spawn(options, {}, stdout_path);
  }

  TemporaryFolder folder_;
  std::string good_ = folder_.file("good.csv");
  std::string model_ = folder_.file("model.json");
  std::string out_ = folder_.file("out");
  std::vector<Reader> readers_;
};

TEST_F(BadInput, FilesThatNoReaderTakes) {
  const std::string good = slurp(good_);
  const std::string header = good.substr(0, good.find('\n'));
  expect_all_refuse(folder_.file("none.csv"), "missing");
  std::filesystem::create_directory(folder_.file("folder"));
  expect_all_refuse(folder_.file("folder"), "a folder");
  expect_all_refuse(folder_.write("bad.csv", ""), "empty");
  expect_all_refuse(folder_.write("bad.csv", std::string("\x7f"
                                                         "ELF\0\0\n\0\xff\xfe",
                                                         10)),
                    "binary");
  expect_all_refuse(folder_.write("bad.csv", header + "\n"), "a header only");
  expect_all_refuse(folder_.write("bad.csv", header + ",depth\n"), "duplicate column");
  expect_all_refuse(folder_.write("bad.csv", good + std::string(1'000'000, '7') + ",1\n"), "a long field");
  expect_all_refuse(folder_.write("bad.csv", good + "\"open\n"), "a quote that is not closed");
  expect_all_refuse(folder_.write("bad.csv", good.substr(0, good.size() - 60)), "cut off");
}

TEST_F(BadInput, ValuesThatNoRowMayHave) {
  const std::string good = slurp(good_);
  const std::string row =
      "2,16,512,280218,1,98,1.5,0,33333,0,0.5,0,cifar_cnn,3x32x32,10,50000,adam,fp32,nchw,0,card,,0,\n";
  const auto with = [&](const std::string& from, const std::string& to) {
    std::string changed = row;
    changed.replace(changed.find(from), from.size(), to);
    return folder_.write("bad.csv", good + changed);
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"2,16", "x,16"},
                                                                                 {"2,16", "0,16"},
                                                                                 {"2,16", "2,-16"},
                                                                                 {",512,", ",0,"},
                                                                                 {",1.5,", ",nan,"},
                                                                                 {",1.5,", ",-1.5,"},
                                                                                 {",1.5,", ",0,"},
                                                                                 {",1.5,", ",,"},
                                                                                 {",33333,", ",inf,"},
                                                                                 {",0.5,", ",1.5,"},
                                                                                 {",1,98", ",-1,98"},
                                                                                 {",fp32,", ",fp31,"},
                                                                                 {",0,\n", ",0,great\n"}}) {
    const std::string path = with(from, to);
    for (const Reader& reader : readers_) {
      const std::string& option = reader.options.back();
      if (option != "--runs-agg" && option != "--measured") continue;
      std::vector<std::string> command = {program(reader.name)};
      command.insert(command.end(), reader.options.begin(), reader.options.end());
      command.push_back(path);
      SCOPED_TRACE(from + " -> " + to);
      expect_refusal(spawn(command), 2, "bad.csv:38: ");
      EXPECT_FALSE(std::filesystem::exists(out_));
    }
  }
  const std::string last = good.substr(good.rfind('\n', good.size() - 2) + 1);
  for (const char* name : {"train", "plan"}) {
    const std::string path = folder_.write("bad.csv", good + last);
    const std::vector<std::string> options =
        std::string(name) == "train"
            ? std::vector<std::string>{"--runs-agg", path, "--kind", "linear"}
            : std::vector<std::string>{"--runs-agg", path, "--budget-sec", "9", "--epochs", "1"};
    expect_refusal(run(name, options), 2, "bad.csv:38: the workload of line 37 again");
  }
}

TEST_F(BadInput, OptionsThatAreNoNumbers) {
  const std::vector<std::string> one = {"--model",        model_, "--depth",      "2",
                                        "--base-filters", "16",   "--batch-size", "32"};
  const std::vector<std::string> plan = {"--runs-agg", good_, "--budget-sec", "9", "--epochs", "1"};
  const std::vector<std::string> train = {"--runs-agg", good_, "--kind", "linear"};
  const auto expect_refused = [&](const std::string& name, std::vector<std::string> options, const std::string& option,
                                  const std::string& value) {
    options.insert(options.end(), {option, value});
    SCOPED_TRACE(name + " " + option + " '" + value + "'");
    expect_refusal(run(name, options), 2, "perfpred-" + name + ": ");
  };
  for (const char* value : {"abc", "nan", ""}) {
    for (const char* option : {"--epochs", "--startup-sec", "--price-per-hour", "--train-images"}) {
      expect_refused("predict", one, option, value);
    }
    for (const char* option : {"--min-acc", "--startup-sec", "--confidence", "--gpus", "--price-per-hour"}) {
      expect_refused("plan", plan, option, value);
    }
    for (const char* option : {"--test-fraction", "--val-fraction", "--seed"})
      expect_refused("train", train, option, value);
  }
  expect_refused("predict", one, "--epochs", "0x10");
  for (const char* value : {"-1", "0"}) {
    expect_refused("predict", one, "--train-images", value);
    expect_refused("plan", plan, "--gpus", value);
  }
  for (const char* value : {"9223372036854775808", "-9223372036854775809", "010", "0x10"}) {  // 2^63; octal; hex
    expect_refused("plan", {"--runs-agg", good_, "--epochs", "1"}, "--budget-sec", value);
    expect_refused("plan", {"--runs-agg", good_, "--budget-sec", "9"}, "--epochs", value);
  }
  expect_refused("train", train, "--seed", "18446744073709551616");  // 2^64
  expect_refused("train", train, "--test-fraction", "1.5");
  expect_refused("train", {"--runs-agg", good_}, "--kind", "oracle");
  expect_refused("plan", plan, "--value", "fame");
  expect_refused("evaluate", {"--runs-agg", good_, "--kind", "linear"}, "--protocol", "guess");
  expect_refused("devices", {}, "--frobnicate", "1");
}

TEST_F(BadInput, AFullDiskIsExitOne) {
  const std::vector<std::vector<std::string>> writers = {
      {"train", "--runs-agg", good_, "--kind", "linear", "--out", "/dev/full"},
      {"evaluate", "--model", model_, "--measured", good_, "--out", "/dev/full"},
      {"predict", "--model", model_, "--configs", good_, "--out", "/dev/full"},
      {"plan", "--runs-agg", good_, "--budget-sec", "9", "--epochs", "1", "--out", "/dev/full"}};
  for (const auto& writer : writers) {
    const Finished finished = run(writer[0], {writer.begin() + 1, writer.end()});
    EXPECT_EQ(finished.exit_code, 1) << writer[0];
    EXPECT_THAT(finished.err, ::testing::HasSubstr("/dev/full: cannot be written: No space left on device"));
  }
  const std::vector<std::vector<std::string>> printers = {
      {"evaluate", "--model", model_, "--measured", good_, "--json"},
      {"predict", "--model", model_, "--depth", "2", "--base-filters", "16", "--batch-size", "32", "--json"},
      {"plan", "--runs-agg", good_, "--budget-sec", "9000", "--epochs", "1", "--json"},
      {"devices", "--json"},
      {"devices", "--help"},
      {"devices", "--version"}};
  for (const auto& printer : printers) {
    const Finished finished = run(printer[0], {printer.begin() + 1, printer.end()}, "/dev/full");
    EXPECT_EQ(finished.exit_code, 1) << printer[0];
    EXPECT_THAT(finished.err, ::testing::HasSubstr("perfpred-" + printer[0] + ": "));
  }
}

TEST_F(BadInput, EvaluateRefusesOptionsThatTheModeDoesNotUse) {
  const std::vector<std::pair<std::vector<std::string>, std::string>> cases = {
      {{"--model", model_, "--measured", good_, "--folds", "3"}, "--folds requires --runs-agg"},
      {{"--model", model_, "--measured", good_, "--repeats", "0"}, "--repeats requires --runs-agg"},
      {{"--model", model_, "--measured", good_, "--seed", "1"}, "--seed requires --runs-agg"},
      {{"--model", model_, "--measured", good_, "--rows", "10"}, "--rows requires --runs-agg"},
      {{"--runs-agg", good_, "--kind", "linear", "--protocol", "lodo", "--folds", "0"},
       "--folds is an option of protocol kfold, not of lodo"},
      {{"--runs-agg", good_, "--kind", "linear", "--protocol", "curve", "--repeats", "2"},
       "--repeats is an option of protocol kfold, not of curve"},
      {{"--runs-agg", good_, "--kind", "linear", "--protocol", "kfold", "--subsets", "2"},
       "--subsets is an option of protocol curve, not of kfold"},
      {{"--runs-agg", good_, "--kind", "linear", "--protocol", "kfold", "--folds", "-3"}, "cannot make -3 folds"},
      {{"--runs-agg", good_, "--kind", "linear", "--protocol", "kfold", "--repeats", "0"}, "repeats"},
      {{"--runs-agg", good_, "--kind", "linear", "--protocol", "curve", "--rows", "10,36"},
       "a curve of 36 rows has sizes from 1 to 35, not 36"},
      {{"--runs-agg", good_, "--protocol", "kfold", "--ops-dir", "."}, "--ops-dir"},
  };
  for (const auto& [options, message] : cases) expect_refusal(run("evaluate", options), 2, message);
  const Finished curve =
      run("evaluate", {"--runs-agg", good_, "--kind", "linear", "--protocol", "curve", "--subsets", "2"});
  EXPECT_EQ(curve.exit_code, 0) << curve.err << "of the default sizes those that the table has";
  EXPECT_EQ(curve.out.find(" 40 "), std::string::npos);
}

}  // namespace
}  // namespace perfpred
