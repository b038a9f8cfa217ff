// SPDX-License-Identifier: Apache-2.0
// The keys that every program's --json promises. A key whose feature is not built yet is null; a missing key is an
// error.
#include <perfpred/aggregator.h>

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "../sample_rows.h"
#include "../sample_runs.h"
#include "runs/run_row.h"
#include "spawn.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;
using testing::Finished;
using testing::program;
using testing::spawn;
using testing::TemporaryFolder;

/// Checks one path such as `items[].key` (every element of a list), `baselines.*.n` (every value of an object) or
/// `time_sec.p50`. Below null nothing is asked.
void expect_path(const Json& json, const std::string& path, const std::string& whole) {
  if (json.is_null() || path.empty()) return;
  const std::size_t dot = path.find('.');
  std::string name = path.substr(0, dot);
  const std::string rest = dot == std::string::npos ? std::string() : path.substr(dot + 1);
  if (name == "*") {
    ASSERT_TRUE(json.is_object()) << whole;
    for (const Json& value : json) expect_path(value, rest, whole);
    return;
  }
  const bool list = name.size() > 2 && name.compare(name.size() - 2, 2, "[]") == 0;
  if (list) name.resize(name.size() - 2);
  ASSERT_TRUE(json.is_object()) << whole;
  ASSERT_TRUE(json.contains(name)) << whole << " is missing";
  if (!list || json[name].is_null()) {
    expect_path(json[name], rest, whole);
    return;
  }
  ASSERT_TRUE(json[name].is_array()) << whole;
  for (const Json& element : json[name]) expect_path(element, rest, whole);
}

/// Paths below one key.
std::vector<std::string> below(const std::string& prefix, const std::vector<std::string>& paths) {
  std::vector<std::string> all;
  for (const std::string& path : paths) all.push_back(prefix + "." + path);
  return all;
}

std::vector<std::string> operator+(std::vector<std::string> a, const std::vector<std::string>& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

using Paths = std::vector<std::string>;

const Paths errors = {"mae", "rmse", "r2", "mape"};
const Paths metrics = Paths{"n"} + below("time", errors) + below("throughput", errors);
const Paths quantiles = {"p05", "p50", "p95"};
const Paths evaluation = metrics + Paths{"seen", "coverage90", "width90_median"} + below("baselines.*", metrics);

class JsonKeys : public ::testing::Test {
 protected:
  /// Runs a program and checks its document.
  Json check(const std::string& name, std::vector<std::string> options, const Paths& paths) {
    options.insert(options.begin(), program(name));
    Json json = testing::answer(options);
    if (json.is_discarded()) return nullptr;
    const Json& first = json.is_array() ? json.at(0) : json;
    for (const std::string& path : paths) expect_path(first, path, path);
    return json;
  }

  /// A table of 64 workloads whose times follow their work, with a little wave for the fit to leave over.
  std::string table() const {
    std::vector<AggregateRow> rows;
    for (int depth = 1; depth <= 4; ++depth) {
      for (const int base : {8, 16, 32, 64}) {
        for (const int batch : {32, 64, 128, 256}) {
          const Workload workload = Workload::cifar_cnn(depth, base, batch);
          const double sec = 0.3 + 0.002 * static_cast<double>(workload.steps_per_epoch()) * (1 + depth * base / 64.0) *
                                       (1 + 0.01 * ((depth + base + batch) % 7));
          rows.push_back(testing::row_of(workload, sec, 0.5 + 0.02 * depth));
        }
      }
    }
    write_aggregate(folder_.file("runs_agg.csv"), rows);
    return folder_.file("runs_agg.csv");
  }

  std::string model(const std::string& runs_agg) const {
    const Finished finished =
        spawn({program("train"), "--runs-agg", runs_agg, "--kind", "linear", "--out", folder_.file("model.json")});
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return folder_.file("model.json");
  }

  TemporaryFolder folder_;
};

TEST_F(JsonKeys, Aggregate) {
  const std::string text =
      testing::csv_of({testing::run_of_epochs({9, 1, 2}), testing::run_without_time(Outcome::oom)});
  check("aggregate", {"--runs", folder_.write("runs.csv", text), "--out", folder_.file("agg.csv")},
        {"runs", "rows", "rejected[].key", "rejected[].timestamp_utc", "rejected[].avg_time_sec", "rejected[].reason",
         "flagged[].key", "flagged[].flags"});
}

TEST_F(JsonKeys, Explain) {
  const Json found =
      check("explain", {"--measured-ms", "500", "--network", "resnet50", "--batch-size", "64", "--device", "T4"},
            Paths{"key", "network", "batch_size", "device", "measured_sec", "ratio", "finding", "difference_sec",
                  "causes[].cause", "causes[].sec", "causes[].share", "causes[].evidence", "not_measured", "to_measure",
                  "provenance", "note"} +
                below("expected_sec", quantiles));
  EXPECT_FALSE(found["causes"].empty());
}

TEST_F(JsonKeys, Collect) {
  if (program("collect").empty()) GTEST_SKIP() << "perfpred-collect needs LibTorch";
  check("collect", {"--network",      "cifar_cnn",
                    "--depth",        "1",
                    "--base-filters", "1",
                    "--batch-size",   "64",
                    "--epochs",       "2",
                    "--train-images", "128",
                    "--device",       "cpu",
                    "--threads",      "1",
                    "--out",          folder_.file("runs.csv"),
                    "--log-dir",      folder_.file("logs")},
        Paths{"done", "skipped", "failed"} + below("runs[]", run_columns()));
}

TEST_F(JsonKeys, Train) {
  check("train", {"--runs-agg", table(), "--kind", "linear", "--out", folder_.file("model.json")},
        Paths{"kind", "dropped[].key", "dropped[].reason", "fit_sec"} + below("train", metrics) +
            below("val", metrics) + below("test", metrics) + below("baselines.*", metrics));
}

TEST_F(JsonKeys, Evaluate) {
  const std::string runs_agg = table();
  const std::string fitted = model(runs_agg);
  const auto judge = [&](const std::string& measured) {
    return check("evaluate", {"--model", fitted, "--measured", measured, "--out", folder_.file("predictions.csv")},
                 evaluation + Paths{"outside"});
  };
  EXPECT_TRUE(judge(runs_agg).at("outside").empty());
  std::vector<AggregateRow> elsewhere = read_aggregate(runs_agg);
  for (std::size_t i = 0; i < 3; ++i) elsewhere[i].workload.device = "another CPU";
  write_aggregate(folder_.file("elsewhere.csv"), elsewhere);
  EXPECT_EQ(judge(folder_.file("elsewhere.csv")).at("outside"), (Json{{"other_device", 3}}));
  for (const char* protocol : {"kfold", "loao", "lodo", "lowo"}) {
    std::vector<std::string> options = {"--runs-agg", runs_agg, "--kind", "linear", "--protocol", protocol};
    if (std::string(protocol) == "kfold") options.insert(options.end(), {"--repeats", "2"});
    check("evaluate", options,
          evaluation + Paths{"folds[].left_out", "folds[].n", "folds[].coverage90"} + below("folds[].time", errors));
  }
}

TEST_F(JsonKeys, EvaluateCurve) {
  check("evaluate",
        {"--runs-agg", table(), "--kind", "linear", "--protocol", "curve", "--rows", "20", "--subsets", "2"},
        below("curve[]", {"rows", "selection", "mape_median", "mape_p90", "coverage90"}));
}

TEST_F(JsonKeys, TrainSuggest) {
  const Json json = check("train", {"--suggest", "3", "--grid", table()}, below("suggested[]", {"key", "cost_sec"}));
  EXPECT_EQ(json.at("suggested").size(), 3U);
}

TEST_F(JsonKeys, Observe) {
  const std::string fitted = folder_.file("hybrid.json");
  ASSERT_EQ(spawn({program("train"), "--runs-agg", table(), "--out", fitted}).exit_code, 0);
  const std::string runs = testing::csv_of({testing::run_without_time(Outcome::oom)});
  const Json json = check("observe", {"--model", fitted, "--runs", folder_.write("new.csv", runs), "--out", fitted},
                          {"observed", "set_aside[].key", "set_aside[].reason"});
  EXPECT_EQ(json.at("set_aside").size(), 1U);
}

TEST_F(JsonKeys, Predict) {
  const Json json = check("predict",
                          {"--model", model(table()), "--depth", "3", "--base-filters", "32", "--batch-size", "512",
                           "--price-per-hour", "2"},
                          Paths{"key",
                                "memory_bytes",
                                "fits",
                                "bound",
                                "breakdown[].op",
                                "breakdown[].sec",
                                "breakdown[].share",
                                "in_domain",
                                "reason",
                                "assumed",
                                "left_out",
                                "tokens_per_sec",
                                "largest_batch",
                                "mfu",
                                "params",
                                "flops",
                                "verdict",
                                "fit_advice[].change",
                                "fit_advice[].memory_bytes",
                                "fit_advice[].time_factor",
                                "scaling",
                                "narrow_by"} +
                              below("memory", {"tensors.p50", "tensors.upper", "reserved.p50", "reserved.upper",
                                               "device.p50", "device.upper", "usable"}) +
                              below("time_sec", quantiles) + below("images_per_sec", quantiles) +
                              below("total_sec", quantiles) + below("price", quantiles));
  EXPECT_FALSE(json.is_null());
}

TEST_F(JsonKeys, PredictWithBreakdown) {  // a linear model has none
  const std::string fitted = folder_.file("hybrid.json");
  ASSERT_EQ(spawn({program("train"), "--runs-agg", table(), "--out", fitted}).exit_code, 0);
  const Json json = check("predict", {"--model", fitted, "--depth", "3", "--base-filters", "32", "--batch-size", "128"},
                          below("breakdown[]", {"op", "sec", "share"}));
  ASSERT_FALSE(json.at("breakdown").empty());
  double shares = 0;
  for (const Json& part : json.at("breakdown")) shares += part.at("share").get<double>();
  EXPECT_NEAR(shares, 1, 1e-9);
}

TEST_F(JsonKeys, Plan) {
  check(
      "plan",
      {"--runs-agg", table(), "--budget-sec", "3600", "--epochs", "50", "--pareto", "--out", folder_.file("plan.csv")},
      Paths{"optimal", "n", "candidates", "cost_sec", "budget_sec", "value", "value_of", "upper_bound", "confidence",
            "pareto", "marginal[].budget_sec", "marginal[].value"} +
          below("items[]", {"key", "id", "depth", "base_filters", "batch_size", "cost_sec", "value", "device",
                            "device_index", "start_sec", "end_sec", "verdict"}));
}

TEST_F(JsonKeys, Plot) {
  if (spawn({"/bin/sh", "-c", "command -v gnuplot"}).exit_code != 0) GTEST_SKIP() << "gnuplot is not installed";
  check("plot", {"--runs-agg", table(), "--out-dir", folder_.file("plots")}, {"files"});
}

TEST_F(JsonKeys, Devices) {
  check("devices", {},
        below("devices[]", {"name",
                            "aliases",
                            "vendor",
                            "arch",
                            "year",
                            "fp64_tflops",
                            "fp32_tflops",
                            "tf32_tflops",
                            "bf16_tflops",
                            "fp16_tflops",
                            "fp32_vector_tflops",
                            "fp16_vector_tflops",
                            "mem_gb",
                            "mem_bw_gbs",
                            "l2_mb",
                            "sms",
                            "boost_mhz",
                            "tdp_w",
                            "launch_us",
                            "source"}));
}

TEST_F(JsonKeys, Sysinfo) {
  if (program("sysinfo").empty()) GTEST_SKIP() << "perfpred-sysinfo needs LibTorch";
  check("sysinfo", {}, {"cpu", "memory", "gpus", "driver", "cuda", "cudnn", "libtorch"});
}

}  // namespace
}  // namespace perfpred
