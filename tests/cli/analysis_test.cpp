// SPDX-License-Identifier: Apache-2.0
// perfpred-networks, perfpred-devices, perfpred-plot, perfpred-ncu and perfpred-roofline as a user runs them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <nlohmann/json.hpp>
#include <sstream>

#include "spawn.h"

namespace perfpred::testing {
namespace {

using ::testing::ElementsAre;
using ::testing::IsSupersetOf;
using ::testing::UnorderedElementsAre;

std::vector<std::string> keys(const nlohmann::json& object) {
  std::vector<std::string> names;
  for (const auto& [name, value] : object.items()) names.push_back(name);
  return names;
}

constexpr const char* runs_agg =
    "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,avg_time_std,thr_mean,thr_std,acc_mean,acc_"
    "std,device,"
    "precision\n"
    "2,16,64,280218,2,782,4.0,0.1,12500,300,0.7,0.01,T4,fp32\n"
    "2,16,128,280218,1,391,2.5,0,20000,0,0.68,0,T4,fp32\n";

TEST(Devices, PrintsRowsWithTheColumnsOfTheFile) {
  const auto document = json_of(spawn({program("devices"), "rtx 3090", "--json"}));
  EXPECT_THAT(keys(document), ElementsAre("devices"));
  ASSERT_EQ(document["devices"].size(), 1U);
  const auto& row = document["devices"][0];
  EXPECT_EQ(row["name"], "RTX 3090");
  EXPECT_EQ(row["mem_bw_gbs"], 936);
  EXPECT_TRUE(row["launch_us"].is_null());
  EXPECT_GT(json_of(spawn({program("devices"), "--json"}))["devices"].size(), 38U);
}

TEST(Devices, RefusesUnknownAndSharedNames) {
  expect_refusal(spawn({program("devices"), "RTX 3900"}), 2, "did you mean \"RTX 3090\"?");
  expect_refusal(spawn({program("devices"), "A100", "--json"}), 2, "A100-SXM4-40GB");
  expect_refusal(spawn({program("devices"), "--devices", "/nowhere/own.csv"}), 2, "/nowhere/own.csv");
  expect_refusal(spawn({program("devices"), "--json"}, {}, "/dev/full"), 1, "No space left");
}

TEST(Networks, AreListedByAWord) {
  const auto document = json_of(spawn({program("networks"), "resnet-50", "--json"}));
  std::vector<std::string> names;
  for (const auto& network : document.at("networks")) names.push_back(network.at("name"));
  EXPECT_THAT(names, ::testing::IsSupersetOf({"cifar_resnet50", "resnet50", "ssd300_resnet50", "wide_resnet50_2",
                                              "maskrcnn_resnet50_fpn"}));  // the last one is recorded
  const auto place = std::find(names.begin(), names.end(), "resnet50") - names.begin();
  const auto& own = document["networks"][static_cast<std::size_t>(place)];
  EXPECT_EQ(own["params"], 25'557'032);  // torchvision's
  EXPECT_EQ(own["input"], "3x224x224");
  EXPECT_TRUE(own["hub"].is_null());
  const Finished text = spawn({program("networks"), "meta-llama"});
  EXPECT_THAT(text.out, ::testing::HasSubstr("llama3.1_8b"));
  EXPECT_THAT(text.out, ::testing::HasSubstr("8030261248"));  // of Llama-3.1-8B's model card: 8.03 billion
  expect_refusal(spawn({program("networks"), "resent50"}), 2, "did you mean resnet50?");
  expect_refusal(spawn({program("networks"), "a", "b"}), 2, "b");
}

TEST(Json, NamesThatAreNotUtf8AreReplaced) {
  const TemporaryFolder folder;
  const std::string devices = folder.write("devices.csv", "name,fp32_tflops,mem_bw_gbs,source\nmine,10,500,caf\xe9\n");
  EXPECT_EQ(json_of(spawn({program("devices"), "mine", "--devices", devices, "--json"}))["devices"][0]["source"],
            "caf\xef\xbf\xbd");
  const std::string report =
      folder.write("report.csv",
                   "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n"
                   "\"0\",\"k\xe9\",\"gpu__time_duration.sum\",\"us\",\"100\"\n"
                   "\"0\",\"k\xe9\",\"dram__bytes.sum\",\"Mbyte\",\"16\"\n"
                   "\"0\",\"k\xe9\",\"smsp__sass_thread_inst_executed_op_fadd_pred_on.sum\",\"inst\",\"1\"\n"
                   "\"0\",\"k\xe9\",\"smsp__sass_thread_inst_executed_op_fmul_pred_on.sum\",\"inst\",\"1\"\n"
                   "\"0\",\"k\xe9\",\"smsp__sass_thread_inst_executed_op_ffma_pred_on.sum\",\"inst\",\"1\"\n");
  EXPECT_EQ(json_of(spawn({program("ncu"), report, "--json"}))["by_kernel"][0]["name"], "k\xef\xbf\xbd");
}

TEST(Plot, NamesTheFilesItDrew) {
  if (std::system("gnuplot --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const TemporaryFolder folder;
  const std::string table = folder.write("runs_agg.csv", runs_agg);
  const auto document =
      json_of(spawn({program("plot"), "--runs-agg", table, "--out-dir", folder.file("plots"), "--json"}));
  EXPECT_THAT(keys(document), ElementsAre("files"));
  EXPECT_EQ(document["files"].size(), 6U);
  for (const std::string file : document["files"]) EXPECT_GT(slurp(file).size(), 1000U) << file;
}

TEST(Plot, AFileWithoutAPlotDoesNotStopTheOthers) {
  if (std::system("gnuplot --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "gnuplot is not installed";
  const TemporaryFolder folder;
  const std::string table = folder.write("runs_agg.csv", runs_agg);
  const std::string runs = folder.write("runs.csv",
                                        "timestamp_utc,framework,depth,base_filters,batch_size,epochs,params,"
                                        "epoch_times_json,avg_time_sec,images_per_sec,test_acc\n"
                                        "2026-01-01T00:00:00Z,x,2,16,64,2,280218,\"[1.5, 1.5]\",1.5,33333,\n");
  const Finished drawn =
      spawn({program("plot"), "--runs-agg", table, "--runs", runs, "--out-dir", folder.file("plots")});
  EXPECT_EQ(drawn.exit_code, 0) << drawn.err;
  EXPECT_EQ(drawn.err, "perfpred-plot: warning: " + runs +
                           ": no configuration was timed more than once: there are no repeats to plot\n");
  EXPECT_THAT(drawn.out, ::testing::HasSubstr(folder.file("plots/throughput_batch.png")));
  expect_refusal(spawn({program("plot"), "--runs", runs, "--out-dir", folder.file("plots")}), 2,
                 runs + ": no configuration was timed more than once");
}

TEST(Plot, RefusesWhatItCannotDraw) {
  const TemporaryFolder folder;
  expect_refusal(spawn({program("plot")}), 2, "nothing to plot");
  const std::string junk = folder.write("junk.csv", std::string("\x01\x02\0\xff", 4));
  for (const char* option : {"--runs-agg", "--runs", "--predictions", "--sweep", "--pareto", "--log"}) {
    expect_refusal(spawn({program("plot"), option, junk, "--out-dir", folder.file("p")}), 2, junk);
    expect_refusal(spawn({program("plot"), option, folder.file("absent"), "--out-dir", folder.file("p")}), 2, "absent");
  }
  const std::string table = folder.write("runs_agg.csv", runs_agg);
  expect_refusal(spawn({program("plot"), "--runs-agg", table, "--out-dir", table}), 2, "cannot be made");
}

std::string report(const std::string& metric, const std::string& unit, const std::string& value) {
  return "\"0\",\"k\",\"" + metric + "\",\"" + unit + "\",\"" + value + "\"\n";
}

std::string small_report() {
  const std::string op = "smsp__sass_thread_inst_executed_op_";
  return "\"ID\",\"Kernel Name\",\"Metric Name\",\"Metric Unit\",\"Metric Value\"\n" +
         report("gpu__time_duration.sum", "usecond", "10.5") + report("dram__bytes_read.sum", "Kbyte", "1.5") +
         report("dram__bytes_write.sum", "byte", "500") + report(op + "fadd_pred_on.sum", "inst", "0") +
         report(op + "fmul_pred_on.sum", "inst", "0") + report(op + "ffma_pred_on.sum", "inst", "1,000,000");
}

TEST(Ncu, PrintsTotalsAndWritesTheSummary) {
  const TemporaryFolder folder;
  const std::string csv = folder.write("report.csv", small_report());
  const auto document =
      json_of(spawn({program("ncu"), csv, "--label", "x", "--out", folder.file("summary.txt"), "--json"}));
  EXPECT_THAT(keys(document),
              IsSupersetOf({"label", "kernels", "flops", "bytes_read", "bytes_written", "bytes", "time_sec", "gflops",
                            "gbps", "ai", "sm_pct", "dram_pct", "ranges", "by_kernel", "warnings"}));
  EXPECT_EQ(document["flops"], 2e6);
  EXPECT_EQ(document["ai"], 1000);
  EXPECT_TRUE(document["sm_pct"].is_null());
  EXPECT_NE(slurp(folder.file("summary.txt")).find("intensity  1000.000"), std::string::npos);
}

TEST(Ncu, RefusesWhatIsNoReport) {
  const TemporaryFolder folder;
  expect_refusal(spawn({program("ncu"), folder.write("a.csv", "a,b\n1,2\n")}), 2, "is not a CSV of Nsight Compute");
  const std::string csv = folder.write("report.csv", small_report());
  expect_refusal(spawn({program("ncu"), csv, "--out", "/nowhere/x", "--json"}), 2, "/nowhere/x");
  expect_refusal(spawn({program("ncu")}), 2, "report");
}

TEST(Roofline, PlacesAPoint) {
  const auto document = json_of(
      spawn({program("roofline"), "--ai", "15.6", "--gflops", "1467", "--device", "T4", "--label", "x", "--json"}));
  EXPECT_THAT(keys(document), IsSupersetOf({"devices", "points"}));
  const auto& device = document["devices"][0];
  EXPECT_THAT(keys(device), UnorderedElementsAre("name", "ceilings", "bandwidths"));
  EXPECT_THAT(keys(device["ceilings"][0]), UnorderedElementsAre("name", "flops_per_sec"));
  EXPECT_THAT(keys(device["bandwidths"][0]), UnorderedElementsAre("name", "bytes_per_sec"));
  const auto& point = document["points"][0];
  EXPECT_THAT(keys(point), UnorderedElementsAre("environment", "device", "label", "precision", "ai", "flops_per_sec",
                                                "bound", "margin", "efficiency"));
  EXPECT_EQ(point["bound"], "memory");
  EXPECT_DOUBLE_EQ(point["efficiency"].get<double>(), 1467e9 / (15.6 * 320e9));
}

// Answers and warnings repeat what a table says of itself: a terminal would obey it.
TEST(Roofline, ATableSendsNoControlCharactersToTheTerminal) {
  const TemporaryFolder folder;
  std::string log = "env,device,network,batch_size,iter_idx,iter_time_ms,imgs_per_sec,timestamp\n";
  for (int i = 0; i < 9; ++i) {
    log += "\033]0;x\a\033[31m,T4,resnet18,32," + std::to_string(i) + ",1,32000," + std::to_string(1000 + i) + "\n";
  }
  const std::string table =
      "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,avg_time_std,thr_mean,thr_std,acc_mean,"
      "acc_std,device,env\n2,16,64,280218,2,782,4.0,0.1,12500,300,0.7,0.01,T4,\033]0;x\a\033[31m\n";
  for (const std::vector<std::string>& arguments :
       {std::vector<std::string>{"--iterations", folder.write("log.csv", log)},
        {"--runs-agg", folder.write("env.csv", table)},
        {"--ai", "1", "--gflops", "1e9", "--device", "T4", "--label", "\033[31m\a"}}) {
    std::vector<std::string> command = {program("roofline")};
    command.insert(command.end(), arguments.begin(), arguments.end());
    const Finished ran = spawn(command);
    EXPECT_EQ(ran.exit_code, 0) << ran.err;
    EXPECT_THAT(ran.out + ran.err,
                ::testing::AllOf(::testing::HasSubstr("?[31m"), ::testing::Not(::testing::HasSubstr("\033")),
                                 ::testing::Not(::testing::HasSubstr("\a"))));
  }
}

// A peak in TFLOP/s where FLOP/s is expected gives an absurd efficiency, but columns stay apart.
TEST(Roofline, ColumnsStayApart) {
  const Finished ran = spawn({program("roofline"), "--ai", "10", "--gflops", "1467", "--peak-flops", "30", "--peak-bw",
                              "300", "--label", "a label that is longer than its column"});
  std::istringstream lines(ran.out);
  std::string line;
  std::getline(lines, line);
  ASSERT_TRUE(std::getline(lines, line)) << ran.err;
  EXPECT_THAT(line, ::testing::ContainsRegex("its column +fp32 +10.00 +1467.0 +0.1 +compute +0.99 +4.89e\\+12 %$"));
}

TEST(Roofline, PlacesRowsAndReports) {
  const TemporaryFolder folder;
  const std::string table = folder.write("runs_agg.csv", runs_agg);
  const auto document = json_of(spawn({program("roofline"), "--runs-agg", table, "--json"}));
  ASSERT_EQ(document["points"].size(), 2U);
  EXPECT_EQ(document["points"][0]["label"], "cifar_cnn d2 f16 b64");
  EXPECT_EQ(document["points"][0]["device"], "T4");
}

TEST(Roofline, RefusesWhatItCannotPlace) {
  const TemporaryFolder folder;
  expect_refusal(spawn({program("roofline")}), 2, "nothing to place");
  expect_refusal(spawn({program("roofline"), "--ai", "1", "--device", "T4"}), 2, "--gflops");
  expect_refusal(spawn({program("roofline"), "--ai", "1", "--gflops", "1"}), 2, "--device");
  expect_refusal(spawn({program("roofline"), "--ai", "-1", "--gflops", "1", "--device", "T4"}), 2, "positive");
  expect_refusal(spawn({program("roofline"), "--ai", "1", "--gflops", "1", "--device", "RTX 3900"}), 2, "did you mean");
  expect_refusal(spawn({program("roofline"), "--ai", "1", "--gflops", "1", "--device", "T4", "--precision", "bf16"}), 2,
                 "bf16");
  expect_refusal(spawn({program("roofline"), "--iterations", folder.write("a.csv", "env\n")}), 2, "is missing");
  expect_refusal(spawn({program("roofline"), "--ai", "1", "--gflops", "1", "--device", "T4", "--peak-flops", "1e12",
                        "--peak-bw", "1e11"}),
                 2, "excludes");
  expect_refusal(spawn({program("roofline"), "--ai", "1", "--gflops", "1", "--device", "lab=T4"}), 2, "--device");
  expect_refusal(
      spawn({program("roofline"), "--runs-agg", folder.write("runs_agg.csv", runs_agg), "--device", "lab=T4"}), 2,
      "\"lab\"");
}

}  // namespace
}  // namespace perfpred::testing
