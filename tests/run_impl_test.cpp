// SPDX-License-Identifier: Apache-2.0
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/run.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

#include "refusal.h"
#include "runs/run_row.h"
#include "sample_runs.h"
#include "temporary_folder.h"
#include "text/csv.h"

namespace perfpred {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::SizeIs;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

const std::string reference_header =
    "timestamp_utc,tf_version,depth,base_filters,batch_size,epochs,params,epoch_times_json,avg_time_sec,images_per_sec,"
    "test_acc\n";

TEST(Run, ATableOfElevenColumnsMeansTheReferenceCollection) {
  const TemporaryFolder folder;
  const auto runs = read_runs(folder.write(
      "runs.csv",
      reference_header + "2026-01-01T00:00:00,2.20.0,2,16,128,3,280218,\"[11, 1.25, 1.75]\",1.5,100,0.5\n"));
  ASSERT_THAT(runs, SizeIs(1));
  Workload workload = Workload::cifar_cnn(2, 16, 128);
  workload.precision = Precision::unknown;
  EXPECT_EQ(runs[0].workload, workload);
  EXPECT_EQ(runs[0].framework, "2.20.0");
  EXPECT_EQ(runs[0].epochs, 3);
  EXPECT_EQ(runs[0].params, 280218);
  EXPECT_THAT(runs[0].epoch_times, ElementsAre(11, 1.25, 1.75));
  EXPECT_EQ(runs[0].avg_time_sec, 1.5);
  EXPECT_EQ(runs[0].images_per_sec, 100);
  EXPECT_EQ(runs[0].test_acc, 0.5);
  EXPECT_EQ(runs[0].timing, Timing::epochs);
  EXPECT_EQ(runs[0].outcome, Outcome::ok);
  EXPECT_EQ(runs[0].load, std::nullopt);
}

TEST(Run, EveryColumnReadsBack) {
  auto run = testing::run_of_epochs({9.1, 1.1, 1.2});
  run.workload.device = "card, \"x\"";
  run.workload.threads = 3;
  run.workload.cuda_graph = true;
  run.env = "e";
  run.host = "h";
  run.driver = "d";
  run.cuda = "13.0";
  run.cudnn = "91900";
  run.step_p05_ms = 1;
  run.step_p50_ms = 2;
  run.step_p95_ms = 3;
  run.clock_mhz = 4;
  run.mem_free_mb = 5;
  run.peak_mem_mb = 6;
  run.load = 0;
  run.host_p50_ms = 7;
  run.step_cv = 0.25;
  run.epoch_rel_sem = 0.04;
  run.clock_p05_mhz = 3.5;
  run.clock_p95_mhz = 4.5;
  run.drift = true;
  run.note = "n";
  auto steps = testing::run_of_epochs({9, 1, 1});
  steps.timing = Timing::steps;
  steps.epoch_times.clear();
  steps.test_acc = std::nullopt;
  steps.drift = false;
  std::vector<struct Run> runs = {run, steps};
  for (const Outcome outcome : {Outcome::oom, Outcome::failed, Outcome::interrupted, Outcome::untrusted}) {
    runs.push_back(testing::run_without_time(outcome));
  }
  const TemporaryFolder folder;
  EXPECT_EQ(read_runs(folder.write("runs.csv", testing::csv_of(runs))), runs);
  EXPECT_EQ(run_fields(run).size(), run_columns().size());
  for (const auto& each : runs) EXPECT_EQ(run_from_fields(run_columns(), run_fields(each), "here"), each);
}

TEST(Run, BadRowsAreToldWithFileLineAndColumn) {
  const TemporaryFolder folder;
  const std::vector<std::string> good = run_fields(testing::run_of_epochs({9, 1, 1}));
  const std::vector<std::pair<std::string, std::vector<std::string>>> bad_values = {
      {"depth", {"abc", "0", "-1", "6", "2.5", "nan", ""}},
      {"base_filters", {"x", "0", "-16", "99999999", ""}},
      {"batch_size", {"0", "-1", "1e3", "nan", "99999999999999999999"}},
      {"epochs", {"-1", "x", "1.5", "99999999999"}},
      {"params", {"0", "-5", "many"}},
      {"epoch_times_json", {"[1,", "[-1]", "[nan]", "1.5", "{}"}},
      {"avg_time_sec", {"0", "-1", "nan", "inf", "x", ""}},
      {"images_per_sec", {"-1", "nan", "x"}},
      {"test_acc", {"-0.1", "1.1", "50", "nan", "x"}},
      {"input", {"3x", "0x32x32", "abc", "3x2x2"}},
      {"classes", {"1", "0", "-3", "x"}},
      {"train_images", {"0", "-1", "x"}},
      {"optimizer", {"sgdm", "ADAN"}},
      {"precision", {"fp31"}},
      {"layout", {"hwcn"}},
      {"cuda_graph", {"2", "yes"}},
      {"device", {"a;b"}},
      {"threads", {"0", "-1", "x"}},
      {"step_p50_ms", {"-1", "x", "nan"}},
      {"load", {"-1", "inf"}},
      {"timing", {"guess"}},
      {"outcome", {"fine", "OK"}},
      {"network", {"cifar;cnn"}},
  };
  for (const auto& [column, values] : bad_values) {
    const auto at = std::find(run_columns().begin(), run_columns().end(), column) - run_columns().begin();
    for (const std::string& value : values) {
      std::vector<std::string> fields = good;
      fields[static_cast<std::size_t>(at)] = value;
      const std::string path = folder.write("runs.csv", csv_line(run_columns()) + csv_line(good) + csv_line(fields));
      const std::string message = testing::refusal([&] { (void)read_runs(path); });
      EXPECT_THAT(message, HasSubstr(path + ":3: ")) << column << value;
      EXPECT_THAT(message, HasSubstr(column));
      EXPECT_EQ(message.find('\n'), std::string::npos) << message;
      EXPECT_LT(message.size(), 400U);
    }
  }
}

TEST(Run, AllMissingColumnsAreNamedAndWhereTheFormatIsDescribed) {
  const TemporaryFolder folder;
  const std::string log =
      folder.write("results.csv", "epoch,time,train/box_loss\n1,12.3,1.25\n");  // of another program
  EXPECT_THAT(
      [&] { (void)read_runs(log); },
      ThrowsMessage<InputError>(
          log +
          ":1: column \"batch_size\" is missing, and so are \"avg_time_sec\"; docs/formats.md describes runs.csv; "
          "logs of other software are for --from, in Python from_logs"));
  EXPECT_THAT([&] { (void)read_aggregate(log); },
              ThrowsMessage<InputError>(AllOf(HasSubstr("\"thr_std\""), HasSubstr("describes runs_agg.csv"))));
}

/// Of the eleven columns of the reference collection two say what ran and how long it took.
TEST(Run, AKeyStandsForTheFieldsAndSecondsForTheTimeOfAnEpoch) {
  const TemporaryFolder folder;
  Workload job = Workload::zoo("resnet50", 64);
  job.device = "A100-80GB-PCIe";
  const auto read = [&](const std::string& text) { return read_runs(folder.write("runs.csv", text)); };
  const auto runs = read("key,epochs,seconds,outcome\n" + job.key() + ",8,100,\n" + job.key() + ",0,,failed\n");
  ASSERT_THAT(runs, SizeIs(2));
  EXPECT_EQ(runs[0].workload, job);
  EXPECT_EQ(runs[0].avg_time_sec, 12.5);
  EXPECT_EQ(runs[0].epochs, 8);
  EXPECT_EQ(runs[0].outcome, Outcome::ok);
  EXPECT_EQ(runs[0].params, 0);
  EXPECT_TRUE(runs[0].epoch_times.empty());
  EXPECT_EQ(runs[1].avg_time_sec, std::nullopt);
  EXPECT_EQ(runs[1].outcome, Outcome::failed);
  const auto fields = read("network,batch_size,input,device,avg_time_sec\nresnet18,32,3x64x64,T4,7\n");
  ASSERT_THAT(fields, SizeIs(1));
  EXPECT_EQ(fields[0].workload.network, "resnet18");
  EXPECT_EQ(fields[0].avg_time_sec, 7);
  // Columns of the reference collection may be there and empty.
  EXPECT_EQ(read("key,epochs,seconds,params,epoch_times_json,test_acc\n" + job.key() + ",2,9,,,\n")[0].avg_time_sec,
            4.5);
  const auto refused = [&](const std::string& text) { return testing::refusal([&] { (void)read(text); }); };
  EXPECT_THAT(refused("key,epochs,seconds\nnetwork=x,8,100\n"), HasSubstr("runs.csv:2: "));
  EXPECT_THAT(refused("key,epochs,seconds\n" + job.key() + ",0,100\n"), HasSubstr("runs.csv:2: epochs \"0\""));
  EXPECT_THAT(refused("key,epochs,seconds\n" + job.key() + ",,100\n"), HasSubstr("runs.csv:2: epochs"));
  EXPECT_THAT(refused("key,epochs,seconds\n" + job.key() + ",3,-1\n"), HasSubstr("runs.csv:2: seconds \"-1\""));
  EXPECT_THAT(refused("key,epochs,seconds\n" + job.key() + ",3,\n"), HasSubstr("runs.csv:2: avg_time_sec"));
  EXPECT_THAT(refused("key,seconds\n" + job.key() + ",100\n"), HasSubstr("column \"avg_time_sec\" is missing"));
}

/// Aggregated, rows whose params nobody said do not contradict the others.
TEST(Run, UnknownParamsAreNone) {
  const TemporaryFolder folder;
  const std::string key = testing::run_of_epochs({9, 1}).workload.key();
  const std::string few = folder.write("few.csv", "key,epochs,seconds\n" + key + ",8,100\n");
  Aggregator aggregator;
  aggregator.add(read_runs(few)[0]);
  ASSERT_THAT(aggregator.rows(), SizeIs(1));
  write_aggregate(folder.file("agg.csv"), aggregator.rows());
  EXPECT_EQ(read_aggregate(folder.file("agg.csv")), aggregator.rows());
  aggregator.add(testing::run_of_epochs({9, 12.5, 12.5}));
  EXPECT_EQ(aggregator.rows()[0].params, testing::run_of_epochs({9, 1}).params);
  EXPECT_EQ(aggregator.rows()[0].n, 2);
}

TEST(Run, ARowNeedsAWorkloadAndATime) {
  const TemporaryFolder folder;
  for (std::size_t left_out = 0; left_out < 11; ++left_out) {
    std::vector<std::string> header = run_columns();
    const std::string name = header[left_out];
    header.erase(header.begin() + static_cast<std::ptrdiff_t>(left_out));
    const auto read = [&] { (void)read_runs(folder.write("runs.csv", csv_line(header))); };
    if (name == "batch_size" || name == "avg_time_sec") {
      EXPECT_THAT(read, ThrowsMessage<InputError>(HasSubstr("runs.csv:1: column \"" + name + "\" is missing")));
    } else {
      EXPECT_NO_THROW(read()) << name;
    }
  }
  std::vector<std::string> header = run_columns();
  header.resize(11);
  EXPECT_THAT(read_runs(folder.write("runs.csv", csv_line(header))), SizeIs(0));
  header.emplace_back("depth");
  EXPECT_THAT([&] { (void)read_runs(folder.write("runs.csv", csv_line(header))); },
              ThrowsMessage<InputError>(HasSubstr("runs.csv:1: column \"depth\" appears twice")));
  EXPECT_THROW((void)read_runs(folder.write("runs.csv", "")), InputError);
  EXPECT_THROW((void)read_runs(folder.path()), InputError);
}

TEST(Run, AMillionCharactersInAFieldAreAShortMessage) {
  const TemporaryFolder folder;
  std::vector<std::string> fields = run_fields(testing::run_of_epochs({9, 1, 1}));
  for (const char* column : {"depth", "epoch_times_json", "optimizer", "device", "input", "timing"}) {
    auto changed = fields;
    const auto at = std::find(run_columns().begin(), run_columns().end(), column) - run_columns().begin();
    changed[static_cast<std::size_t>(at)] = std::string(1'000'000, ';');
    const std::string path = folder.write("runs.csv", csv_line(run_columns()) + csv_line(changed));
    const std::string message = testing::refusal([&] { (void)read_runs(path); });
    EXPECT_FALSE(message.empty()) << column;
    EXPECT_LT(message.size(), 300U) << column;
  }
}

}  // namespace
}  // namespace perfpred
