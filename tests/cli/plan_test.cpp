// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "spawn.h"

namespace perfpred::testing {
namespace {

using nlohmann::json;

constexpr const char* header =
    "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,avg_time_std,thr_mean,thr_std,acc_mean,acc_"
    "std,"
    "device\n";

/// depth, base_filters, batch, seconds, images/s, accuracy, device
std::string row(int depth, int filters, int batch, const std::string& sec, const std::string& thr,
                const std::string& acc, const std::string& device = "card") {
  return std::to_string(depth) + "," + std::to_string(filters) + "," + std::to_string(batch) + ",1000,1,100," + sec +
         ",0," + thr + ",0," + acc + "," + (acc.empty() ? "" : "0") + "," + device + "\n";
}

/// Four runs of 10, 20, 30 and 45 s for ten epochs.
std::string small_table() {
  return header + row(2, 16, 32, "1.0", "500", "0.5") + row(2, 16, 64, "2.0", "400", "0.7") +
         row(3, 16, 32, "3.0", "300", "0.9") + row(3, 32, 32, "4.5", "200", "0.95");
}

class PlanProgram : public ::testing::Test {
 protected:
  Finished run(std::vector<std::string> arguments, const std::string& table = small_table()) {
    std::vector<std::string> command = {program("plan"), "--runs-agg", folder_.write("agg.csv", table)};
    command.insert(command.end(), arguments.begin(), arguments.end());
    return spawn(command);
  }
  json run_json(std::vector<std::string> arguments, const std::string& table = small_table()) {
    arguments.emplace_back("--json");
    const Finished finished = run(std::move(arguments), table);
    EXPECT_EQ(finished.err, "");
    return json_of(finished);
  }
  TemporaryFolder folder_;
};

TEST_F(PlanProgram, RowsWithoutAccuracyAreNotAnEmptyPlan) {
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10"}, header + row(2, 16, 32, "1.0", "500", "")), 2,
                 "no row has an accuracy");
}

TEST_F(PlanProgram, HasTheKeysOfTheInterface) {
  const json plan = run_json({"--budget-sec", "50", "--epochs", "10", "--pareto", "--price-per-hour", "3.6"});
  for (const char* key : {"optimal", "n", "candidates", "cost_sec", "budget_sec", "value", "upper_bound", "confidence",
                          "items", "marginal", "pareto"}) {
    EXPECT_TRUE(plan.contains(key)) << key;
  }
  // 20 + 30 s beat 10 + 30 s, 45 s and 10 + 20 s.
  EXPECT_EQ(plan["optimal"], true);
  EXPECT_EQ(plan["n"], 2);
  EXPECT_EQ(plan["candidates"], 4);
  EXPECT_EQ(plan["cost_sec"], 50);
  EXPECT_EQ(plan["budget_sec"], 50);
  EXPECT_EQ(plan["value"], 0.7 + 0.9);
  EXPECT_EQ(plan["upper_bound"], 0.7 + 0.9);
  EXPECT_EQ(plan["confidence"], 0.5);
  EXPECT_DOUBLE_EQ(plan["price"], 0.05);
  ASSERT_EQ(plan["items"].size(), 2U);
  for (const char* key : {"key", "depth", "base_filters", "batch_size", "cost_sec", "value", "device", "start_sec"}) {
    EXPECT_TRUE(plan["items"][0].contains(key)) << key;
  }
  EXPECT_EQ(plan["items"][0]["start_sec"], 0);
  EXPECT_EQ(plan["items"][1]["start_sec"], 20);
  EXPECT_EQ(plan["items"][1]["device"], "card");
  EXPECT_EQ(plan["pareto"].size(), 4U);
  // 105 s hold everything, worth 3.05: (3.05 - 1.6) in 55 s.
  const json& last = plan["marginal"].back();
  EXPECT_EQ(last["budget_sec"], 100);
  // At 100 s: 20 + 30 + 45 s.
  EXPECT_DOUBLE_EQ(last["value"], 2.55);
  EXPECT_NEAR(last["value_per_minute"].get<double>(), 0.95 / 50 * 60, 1e-12);
  // With the 10 s run in: 10 + 30 s, 1.4. With the 45 s run: 0.95.
  ASSERT_EQ(plan["missed"].size(), 2U);
  EXPECT_EQ(plan["missed"][0]["cost_sec"], 10);
  EXPECT_NEAR(plan["missed"][0]["loss"].get<double>(), 0.2, 1e-12);
  EXPECT_NEAR(plan["missed"][1]["loss"].get<double>(), 0.65, 1e-12);
}

TEST_F(PlanProgram, SaysWhichBudgetTakesTheFirstRun) {
  const json plan = run_json({"--budget-sec", "3", "--epochs", "10"});
  EXPECT_EQ(plan["n"], 0);
  ASSERT_FALSE(plan["marginal"].empty());
  EXPECT_EQ(plan["marginal"][0]["budget_sec"], 10);
  EXPECT_EQ(plan["marginal"][0]["value"], 0.5);
}

TEST_F(PlanProgram, ShowsTheBudgetOfAllDevices) {
  const Finished two = run({"--budget-sec", "50", "--epochs", "10", "--gpus", "2"});
  EXPECT_EQ(two.out.substr(0, two.out.find(" (")), "3 of 4 runs, 95 of 2 x 50 s, value 2.55");
}

TEST_F(PlanProgram, ChoosesByObjectiveAndValue) {
  const json best = run_json({"--budget-sec", "44", "--epochs", "10", "--objective", "best"});
  EXPECT_EQ(best["n"], 1);
  EXPECT_EQ(best["value"], 0.9);
  ASSERT_EQ(best["missed"].size(), 2U);  // 45 s do not fit
  EXPECT_NEAR(best["missed"][0]["loss"].get<double>(), 0.2, 1e-12);
  const json cover = run_json({"--budget-sec", "46", "--epochs", "10", "--objective", "cover-depth"});
  EXPECT_EQ(cover["value"], 0.5 + 0.9);
  const json thr = run_json({"--budget-sec", "45", "--epochs", "10", "--value", "thr"});
  EXPECT_EQ(thr["value"], 900);
  const json architectures = run_json({"--budget-sec", "90", "--epochs", "10", "--objective", "cover-architecture"});
  EXPECT_EQ(architectures["cost_sec"], 85);
  expect_refusal(run({"--budget-sec", "84", "--epochs", "10", "--objective", "cover-architecture"}), 1,
                 "at least 85 s; the budget is 84 s");
}

TEST_F(PlanProgram, RoundsTiesToEvenAndCountsTheStartUp) {
  const std::string table = header + row(2, 16, 32, "0.25", "500", "0.5") + row(2, 16, 64, "0.01", "500", "0.5");
  const json plan = run_json({"--budget-sec", "100", "--epochs", "10"}, table);
  EXPECT_EQ(plan["items"][0]["cost_sec"], 2);  // 2.5
  EXPECT_EQ(plan["items"][1]["cost_sec"], 1);  // 0.1, and a run takes a second at least
  const json later = run_json({"--budget-sec", "100", "--epochs", "10", "--startup-sec", "8"}, table);
  EXPECT_EQ(later["items"][0]["cost_sec"], 10);  // 10.5
}

TEST_F(PlanProgram, AssignsRunsToDevices) {
  const json two = run_json({"--budget-sec", "50", "--epochs", "10", "--gpus", "2"});
  EXPECT_EQ(two["cost_sec"], 95);  // 45 | 20 + 30; 10 s more do not fit
  EXPECT_EQ(two["optimal"], true);
  EXPECT_EQ(two["items"][0]["device"], "gpu0");
  EXPECT_EQ(two["items"][0]["start_sec"], 0);
  const std::string table =
      small_table() + row(2, 16, 32, "9", "500", "0.5", "other") + row(3, 32, 32, "2.0", "200", "0.95", "other");
  const json pair = run_json({"--budget-sec", "50", "--epochs", "10", "--devices", "card,other"}, table);
  EXPECT_EQ(pair["candidates"], 4);
  EXPECT_DOUBLE_EQ(pair["value"], 0.7 + 0.9 + 0.95);
  EXPECT_EQ(pair["items"][2]["device"], "other");
  EXPECT_EQ(pair["items"][2]["cost_sec"], 20);
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--devices", "card,none"}, table), 2,
                 "no row is of device \"none\"; rows are of card, other");
}

TEST_F(PlanProgram, TakesTheSameDeviceTwice) {
  const json two = run_json({"--budget-sec", "50", "--epochs", "10", "--devices", "card,card"});
  EXPECT_EQ(two["cost_sec"], 95);  // as two gpus: 45 | 20 + 30
  EXPECT_DOUBLE_EQ(two["value"], 0.7 + 0.9 + 0.95);
}

TEST_F(PlanProgram, PrintsABoundThatIsNotBelowTheValue) {
  std::string table = header;
  for (int i = 0; i < 4; ++i)
    table += row(2, 16, 32 << i, std::to_string(i + 1), "500", "0.000000" + std::to_string(15 + i));
  const Finished finished = run({"--budget-sec", "50", "--epochs", "10", "--time-limit-sec", "0"}, table);
  double value = 0, bound = 0;
  const std::size_t at = finished.out.find("value ");
  ASSERT_EQ(std::sscanf(finished.out.c_str() + at, "value %lf (at most %lf is possible)", &value, &bound), 2)
      << finished.out;
  EXPECT_GT(value, 0);
  EXPECT_GE(bound, value);
}

TEST_F(PlanProgram, CoversWithSeveralDevices) {
  const auto cover = [](const char* budget) {
    return std::vector<std::string>{"--budget-sec",       budget,   "--epochs", "10", "--objective",
                                    "cover-architecture", "--gpus", "2"};
  };
  const json plan = run_json(cover("45"));
  EXPECT_EQ(plan["cost_sec"], 85);  // 45 | 10 + 30
  EXPECT_DOUBLE_EQ(plan["value"], 0.5 + 0.9 + 0.95);
  EXPECT_EQ(plan["optimal"], true);
  expect_refusal(run(cover("42")), 1, "at least 85 s; the budget is 84 s");
  expect_refusal(run(cover("44")), 1, "there is no plan with a run of each kind within 44 s of each device");
}

TEST_F(PlanProgram, TakesExtremeBudgets) {
  EXPECT_EQ(run_json({"--budget-sec", "0", "--epochs", "10"})["n"], 0);
  EXPECT_EQ(run_json({"--budget-sec", "4611686018427387904", "--epochs", "10"})["n"], 4);
  EXPECT_EQ(run_json({"--budget-sec", "4611686018427387904", "--epochs", "9000000000000000000"})["n"], 0);
  EXPECT_EQ(run_json({"--budget-sec", "9", "--epochs", "10"})["n"], 0);  // nothing fits
  EXPECT_EQ(run_json({"--budget-sec", "9", "--epochs", "10"})["optimal"], true);
  EXPECT_EQ(run_json({"--budget-sec", "4611686018427387904", "--epochs", "10", "--gpus", "3"})["n"], 4);
}

TEST_F(PlanProgram, TakesBudgetsAsClustersWriteThem) {
  const auto budget = [&](const char* text) {
    return run_json({"--budget-sec", text, "--epochs", "10"})["budget_sec"];
  };
  EXPECT_EQ(budget("10.5"), 10);  // costs are whole seconds
  EXPECT_EQ(budget("3600.0"), 3600);
  EXPECT_EQ(budget("1e4"), 10'000);
  EXPECT_EQ(budget("2:00:00"), 7200);
  EXPECT_EQ(budget("1-00:00:00"), 86'400);
  EXPECT_EQ(budget("30:00"), 1800);  // as sbatch reads them
  EXPECT_EQ(budget("8:0:0"), 28'800);
  EXPECT_EQ(budget("2-12"), 216'000);
  EXPECT_EQ(budget("1-12:30"), 131'400);
  for (const char* text : {"1e308", "1:60", "2h"}) {
    expect_refusal(run({"--budget-sec", text, "--epochs", "10"}), 2,
                   std::string("--budget-sec \"") + text +
                       "\" is not a time in seconds, MM:SS, HH:MM:SS, D-HH, D-HH:MM or D-HH:MM:SS");
  }
  EXPECT_EQ(run_json({"--budget-sec", "9", "--epochs", "1", "--time-limit-sec", "0:00:10"})["optimal"], true);
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--price-per-hour", "1e308"}), 2,
                 "price_per_hour 1e+308 is too much");
}

TEST_F(PlanProgram, ARowThatCannotBePredictedIsNamed) {
  const auto rows = [](const std::string& first, const std::string& second) {
    return std::string(
               "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,avg_time_std,thr_mean,thr_std,"
               "acc_mean,acc_std,device,precision\n") +
           "2,16,32,1000,1,100,1.0,0,500,0,0.5,0," + first + ",fp32\n2,16,64,1000,1,100,1.0,0,500,0,0.6,0," + second +
           ",fp32\n";
  };
  const std::vector<std::string> predicted = {"--budget-sec", "9:00:00", "--epochs", "1", "--time-source", "predicted"};
  const json plan = run_json(predicted, rows("T4", "Mine"));
  EXPECT_EQ(plan["candidates"], 1);
  ASSERT_EQ(plan["left_out"].size(), 1U);
  EXPECT_NE(plan["left_out"][0]["key"].get<std::string>().find("batch_size=64"), std::string::npos) << plan;
  EXPECT_EQ(plan["left_out"][0]["reason"].get<std::string>().rfind("device \"Mine\" is not known", 0), 0U) << plan;
  const Finished text = run(predicted, rows("T4", "Mine"));
  EXPECT_NE(text.out.find("1 row cannot be planned and is left out"), std::string::npos) << text.out;
  EXPECT_TRUE(run_json(predicted, rows("T4", "L4"))["left_out"].empty());
  expect_refusal(run(predicted, rows("Yours", "Mine")), 2, "device \"Yours\" is not known");
}

TEST_F(PlanProgram, NamesWhatNobodyStated) {
  const std::vector<std::string> predicted = {"--budget-sec", "2-0", "--epochs", "1", "--time-source", "predicted"};
  const std::string table = "network,batch_size,device,value,train_images\nresnet18,64,T4,1,\nresnet50,64,T4,1,5000\n";
  const json plan = run_json(predicted, table);
  std::map<std::string, json> assumed;
  for (const json& item : plan["items"]) assumed[item["fields"]["network"]] = item["assumed"];
  EXPECT_EQ(assumed, (std::map<std::string, json>{{"resnet18", {{"train_images", "1281167"}}},  // of ImageNet
                                                  {"resnet50", json::object()}}));
  EXPECT_THAT(run(predicted, table).out, ::testing::HasSubstr("\nassumed --train-images 1281167\n"));
}

/// A budget counts while its device is not free, too: no run has that time.
TEST_F(PlanProgram, SaysTheTimeThatDevicesAreFree) {
  const std::string two =
      std::string(header) + row(2, 16, 32, "1.0", "500", "0.5") + row(2, 16, 64, "2.0", "400", "0.7");
  EXPECT_THAT(run({"--budget-sec", "3600", "--epochs", "1", "--gpus", "2"}, two).out,
              ::testing::HasSubstr(" of 2 x 3600 s,"));
  EXPECT_THAT(run({"--budget-sec", "3600", "--epochs", "1", "--gpus", "2", "--free-from-sec", "gpu1=1800"}, two).out,
              ::testing::HasSubstr(" of 3600+1800 s,"));
}

TEST_F(PlanProgram, ByAModelWorkloadsNeedNoMeasuredColumns) {
  const std::string table =
      "network,batch_size,precision,acc_mean\nresnet18,32,fp16,0.7\nresnet50,0,fp16,0.8\nresnet50,64,fp16,0.8\n";
  const std::vector<std::string> asked = {"--budget-sec", "9:00:00", "--epochs", "1", "--devices", "T4,L4"};
  std::vector<std::string> predicted = asked;
  predicted.insert(predicted.end(), {"--time-source", "predicted"});
  const json plan = run_json(predicted, table);
  EXPECT_EQ(plan["n"], 2);
  EXPECT_EQ(plan["value"], 0.7 + 0.8);
  ASSERT_EQ(plan["left_out"].size(), 1U);
  EXPECT_EQ(plan["left_out"][0]["key"], folder_.file("agg.csv") + ":3");
  EXPECT_EQ(plan["left_out"][0]["reason"], "batch_size \"0\" is not a positive integer");
  // A run costs what perfpred-predict says of an epoch.
  for (const json& item : plan["items"]) {
    const std::string key = item["key"];
    const std::string network = key.substr(8, key.find(';') - 8);
    const json epoch = json_of(
        spawn({program("predict"), "--network", network, "--batch-size", std::to_string(item["batch_size"].get<int>()),
               "--precision", "fp16", "--device", item["device"].get<std::string>(), "--json"}));
    EXPECT_EQ(epoch["key"], key);
    EXPECT_NEAR(item["cost_sec"].get<double>(), epoch["time_sec"]["p50"].get<double>(), 0.5 + 1e-9);
  }
  expect_refusal(run(asked, table), 2, "column \"depth\" is missing");
  std::vector<std::string> thr = predicted;
  thr.insert(thr.end(), {"--value", "thr"});
  const std::string without = "network,batch_size,precision\nresnet18,32,fp16\n";
  EXPECT_EQ(run_json(thr, without)["n"], 1);
  expect_refusal(run(predicted, without), 2, "no row has an accuracy");
  expect_refusal(run(predicted, "network,batch_size,acc_mean\nresnet18,32,70\n"), 2,
                 "acc_mean \"70\" is not a fraction");
  expect_refusal(run(predicted, "network,batch_size,acc_mean\nnonet,32,0.7\n"), 2, "nonet");
}

TEST_F(PlanProgram, EachDeviceHasItsPrice) {
  const std::string table =
      header + row(2, 16, 32, "100", "500", "0.5", "T4") + row(3, 16, 32, "200", "300", "0.9", "L4");
  const auto asked = [&](const char* prices) {
    return std::vector<std::string>{"--budget-sec", "9999",        "--epochs", "9",
                                    "--devices",    "Tesla T4,L4", "--prices", folder_.write("prices.csv", prices)};
  };
  const json plan = run_json(asked("device,price_per_hour,currency\nTesla T4,0.4,USD\nL4,0.8,USD\n"), table);
  EXPECT_EQ(plan["currency"], "USD");
  ASSERT_EQ(plan["items"].size(), 2U);
  EXPECT_DOUBLE_EQ(plan["items"][0]["price"], 0.4 * 900 / 3600);
  EXPECT_DOUBLE_EQ(plan["items"][1]["price"], 0.8 * 1800 / 3600);
  EXPECT_DOUBLE_EQ(plan["price"], 0.1 + 0.4);
  EXPECT_NE(run(asked("device,price_per_hour,currency\nT4,0.4,USD\nL4,0.8,USD\n"), table).out.find("price 0.50 USD"),
            std::string::npos);
  expect_refusal(run(asked("device,price_per_hour\nT4,0.4\n"), table), 2, "prices has no device \"L4\"");
  std::vector<std::string> unused =
      asked("device,price_per_hour\nT4,0.4\n");  // nothing fits the L4, which has no price
  unused[1] = "900";
  expect_refusal(run(unused, table), 2, "prices has no device \"L4\"");
  std::vector<std::string> both = asked("device,price_per_hour\nT4,0.4\nL4,0.8\n");
  both.insert(both.end(), {"--price-per-hour", "1"});
  expect_refusal(run(both, table), 2, "--price-per-hour excludes --prices");
}

TEST_F(PlanProgram, GivesEachDeviceItsBudget) {
  const std::string table = small_table() + row(3, 32, 32, "2.0", "200", "0.95", "other");
  const auto planned = [&](std::vector<std::string> budgets) {
    std::vector<std::string> asked = {"--epochs", "10", "--devices", "card,other"};
    for (const std::string& budget : budgets) asked.insert(asked.end(), {"--budget-sec", budget});
    return asked;
  };
  const json plan = run_json(planned({"card=50", "other=0:20"}), table);
  EXPECT_DOUBLE_EQ(plan["value"], 0.7 + 0.9 + 0.95);  // 20 + 30 s, 20 s
  EXPECT_EQ(plan["budget_sec"], json::object({{"card", 50}, {"other", 20}}));
  EXPECT_EQ(plan["marginal"][0]["budget_sec"]["other"].get<int>() - 20,
            plan["marginal"][0]["budget_sec"]["card"].get<int>() - 50);
  EXPECT_DOUBLE_EQ(run_json(planned({"50", "other=19"}), table)["value"], 0.7 + 0.9);
  EXPECT_THAT(run(planned({"card=50", "other=20"}), table).out, ::testing::HasSubstr("3 of 4 runs, 70 of 50+20 s"));
  expect_refusal(run(planned({"card=50"}), table), 2, "budget_sec of other is missing");
  expect_refusal(run(planned({"50", "third=20"}), table), 2, "budget_sec of \"third\": the plan has no such device");
  expect_refusal(run(planned({"50", "60"}), table), 2, "--budget-sec is given twice");
  expect_refusal(run(planned({"50", "card=1", "card=2"}), table), 2, "--budget-sec is given twice for card");
  expect_refusal(run(planned({"card=soon", "other=1"}), table), 2, "--budget-sec \"soon\" is not a time");
}

TEST_F(PlanProgram, ADeviceNamedTwiceKeepsTwoNames) {
  const std::vector<std::string> asked = {"--epochs", "10", "--devices", "card,card"};
  const auto planned = [&](std::vector<std::string> more) {
    more.insert(more.end(), asked.begin(), asked.end());
    return more;
  };
  const json plan = run_json(planned({"--budget-sec", "50"}));
  std::set<int> indices;
  for (const json& item : plan["items"]) {
    EXPECT_EQ(item["device"], "card");
    EXPECT_EQ(item["end_sec"].get<int>(), item["start_sec"].get<int>() + item["cost_sec"].get<int>());
    indices.insert(item["device_index"].get<int>());
  }
  EXPECT_EQ(indices, (std::set<int>{0, 1}));
  const Finished text = run(planned({"--budget-sec", "50"}));
  EXPECT_THAT(text.out, ::testing::AllOf(::testing::HasSubstr("  card #1\n"), ::testing::HasSubstr("  card #2\n")));
  const json uneven = run_json(planned({"--budget-sec", "card=50", "--budget-sec", "card #2=10"}));
  EXPECT_EQ(uneven["budget_sec"], json::object({{"card #1", 50}, {"card #2", 10}}));
  EXPECT_DOUBLE_EQ(uneven["value"], 0.5 + 0.7 + 0.9);  // 20 + 30 s, 10 s
}

std::vector<std::string> by_standard_model(const std::string& budget, const std::string& devices) {
  return {"--budget-sec", budget, "--time-source", "predicted", "--devices", devices};
}

TEST_F(PlanProgram, EqualJobsOfAQueueAreAllPlanned) {
  const std::string equal = "network,batch_size,acc_mean\nresnet50,64,0.5\nresnet50,64,0.5\nresnet50,64,0.5\n";
  std::vector<std::string> asked = by_standard_model("1-00:00:00", "T4,L4");
  asked.insert(asked.end(), {"--epochs", "1"});
  EXPECT_EQ(run_json(asked, equal)["value"], 1.5);
  expect_refusal(run(asked, "network,batch_size,acc_mean,value\nresnet50,64,0.5,\n"), 2,
                 "no row has a value of its own");
  const json plan = run_json(asked, "network,batch_size,acc_mean,id,count\nresnet50,64,0.5,a,3\nresnet18,64,0.5,b,\n");
  EXPECT_EQ(plan["candidates"], 4);
  EXPECT_EQ(plan["value"], 2.0);
  std::multiset<std::string> ids;
  for (const json& item : plan["items"]) ids.insert(item["id"].get<std::string>());
  EXPECT_EQ(ids, (std::multiset<std::string>{"a", "a", "a", "b"}));
  EXPECT_THAT(run(asked, "network,batch_size,acc_mean,id\nresnet50,64,0.5,night 7\n").out,
              ::testing::HasSubstr("  night 7  resnet50 batch 64"));
  // A table of measurements pools its repeats, unless it says that its rows are jobs.
  const std::string measured = std::string(header).insert(0, "id,");
  const auto job = [](const char* id) { return std::string(id) + "," + row(2, 16, 32, "1.0", "500", "0.5"); };
  EXPECT_EQ(run_json({"--budget-sec", "90", "--epochs", "10"}, measured + job("a") + job("b"))["n"], 2);
  EXPECT_EQ(
      run_json({"--budget-sec", "90", "--epochs", "10", "--devices", "card,card"}, measured + job("a") + job("a"))["n"],
      2);
  expect_refusal(run(asked, "network,batch_size,acc_mean,count\nresnet50,64,0.5,0\n"), 2,
                 "count \"0\" is not a positive integer");
  expect_refusal(run(asked, "network,batch_size,acc_mean,count\nresnet50,64,0.5,1000000000\n"), 2,
                 "count \"1000000000\" is not at most 10000");
}

/// Runs of 10, 20, 30 and 45 s for ten epochs, with what the columns say of each.
std::string dated_table(const std::string& columns, const std::vector<std::string>& cells) {
  std::istringstream lines(small_table());
  std::string line, table;
  for (std::size_t i = 0; std::getline(lines, line); ++i)
    table += line + "," + (i == 0 ? columns : cells[i - 1]) + "\n";
  return table;
}

TEST_F(PlanProgram, RunsKeepTheirEarliestTimesAndDeadlines) {
  const std::vector<std::string> asked = {"--budget-sec", "70", "--epochs", "10"};
  // Without times, 20 + 45 s are worth 1.65; the 45 s cannot end by 40.
  const std::string late = dated_table("earliest_sec,deadline_sec", {",", ",", "35,", ",40"});
  const json plan = run_json(asked, late);
  EXPECT_EQ(plan["optimal"], true);
  EXPECT_DOUBLE_EQ(plan["value"], 0.5 + 0.7 + 0.9);
  ASSERT_EQ(plan["n"], 3);
  const json& last = plan["items"][2];
  EXPECT_EQ(last["cost_sec"], 30);
  EXPECT_EQ(last["start_sec"], 35);
  EXPECT_EQ(last["end_sec"], 65);
  EXPECT_EQ(last["earliest_sec"], 35);
  EXPECT_FALSE(last.contains("deadline_sec"));
  EXPECT_FALSE(plan["items"][0].contains("earliest_sec"));
  EXPECT_FALSE(plan.contains("free_from_sec"));
  // The device is free for 30 s, from 40 on: 10 + 20 s are worth 1.2, 30 s 0.9.
  const json later = run_json({"--budget-sec", "70", "--epochs", "10", "--free-from-sec", "40"});
  EXPECT_EQ(later["free_from_sec"], json({40}));
  EXPECT_EQ(later["value"], 0.5 + 0.7);
  EXPECT_EQ(later["items"][0]["start_sec"], 40);
  EXPECT_EQ(later["items"][1]["end_sec"], 70);
  // A fraction makes a window no wider: from 9.5 to 19.9 there are 9 whole seconds, from 0:09 to 0:19 there are 10.
  EXPECT_EQ(run_json(asked, dated_table("earliest_sec,deadline_sec", {"9.5,19.9", ",1", ",1", ",1"}))["n"], 0);
  EXPECT_EQ(run_json(asked, dated_table("earliest_sec,deadline_sec", {"0:09,0:19", ",1", ",1", ",1"}))["n"], 1);
}

TEST_F(PlanProgram, EachDeviceIsFreeFromItsTime) {
  const std::string table =
      small_table() + row(2, 16, 32, "1.0", "500", "0.5", "other") + row(3, 16, 32, "3.0", "300", "0.9", "other");
  const json plan = run_json({"--budget-sec", "50", "--epochs", "10", "--devices", "card,other", "--free-from-sec",
                              "card=5", "--free-from-sec", "other=0:15"},
                             table);
  EXPECT_EQ(plan["free_from_sec"], json({5, 15}));
  for (const json& item : plan["items"]) {
    EXPECT_GE(item["start_sec"], item["device"] == "card" ? 5 : 15);
    EXPECT_LE(item["end_sec"], 50);
  }
  EXPECT_DOUBLE_EQ(plan["value"], 0.5 + 0.7 + 0.9);  // 10 and 20 s of 45, 30 s of 35
  const auto refused = [&](std::vector<std::string> more, const char* message) {
    std::vector<std::string> asked = {"--budget-sec", "50", "--epochs", "10"};
    asked.insert(asked.end(), more.begin(), more.end());
    expect_refusal(run(asked, table), 2, message);
  };
  refused({"--devices", "card,other", "--free-from-sec", "T4=5"},
          "free_from_sec of \"T4\": the plan has no such device");
  refused({"--free-from-sec", "5", "--free-from-sec", "6"}, "--free-from-sec is given twice");
  refused({"--free-from-sec", "-1"}, "--free-from-sec \"-1\"");
}

TEST_F(PlanProgram, SaysWhichTimesOfAJobAreNone) {
  const auto refused = [&](const std::string& cell, const char* message, std::vector<std::string> more = {}) {
    std::vector<std::string> asked = {"--budget-sec", "50", "--epochs", "10"};
    asked.insert(asked.end(), more.begin(), more.end());
    expect_refusal(run(asked, dated_table("earliest_sec,deadline_sec", {cell, ",", ",", ","})), 2, message);
  };
  refused("-1,", "agg.csv:2: earliest_sec \"-1\"");
  refused(",soon", "agg.csv:2: deadline_sec \"soon\"");
  refused("20,10", "deadline_sec 10 is before earliest_sec 20");
  refused("20,", "not planned with a cover", {"--objective", "cover-depth"});
  expect_refusal(run({"--budget-sec", "3600", "--epochs", "1", "--time-source", "predicted", "--confidence", "0.9"},
                     "network,batch_size,device,acc_mean,deadline_sec\nresnet18,64,T4,0.5,3000\n"),
                 2, "planned by median times");
}

TEST_F(PlanProgram, OfPlansOfOneValueTheFirstToEndThenTheCheapestIsTaken) {
  // Two sets of three jobs are worth 3: 10 + 20 + 30 s end first.
  const std::string same = header + row(2, 16, 32, "4.0", "500", "1") + row(2, 16, 64, "2.0", "400", "1") +
                           row(3, 16, 32, "3.0", "300", "1") + row(3, 32, 32, "1.0", "200", "1");
  const json one = run_json({"--budget-sec", "95", "--epochs", "10", "--price-per-hour", "360"}, same);
  EXPECT_EQ(one["value"], 3);
  EXPECT_EQ(one["makespan_sec"], 60);
  EXPECT_EQ(one["makespan_lower_bound_sec"], 60);
  EXPECT_EQ(one["makespan_optimal"], true);
  EXPECT_DOUBLE_EQ(one["price"], 6);
  EXPECT_EQ(one["price_lower_bound"], one["price"]);
  EXPECT_EQ(one["price_optimal"], true);
  // All fit on one device; on two they end after 50 s: 40 + 10 and 20 + 30.
  const json two = run_json({"--budget-sec", "100", "--epochs", "10", "--gpus", "2"}, same);
  EXPECT_EQ(two["makespan_sec"], 50);
  EXPECT_EQ(two["makespan_optimal"], true);
  EXPECT_EQ(two["price"], json());
  EXPECT_EQ(two["price_lower_bound"], json());
  EXPECT_EQ(two["price_optimal"], false);
  // Equal times on both devices: the long run ends last wherever it is, the others go where a second costs less.
  const auto on = [&](const std::string& device) {
    return row(2, 16, 32, "9", "500", "1", device) + row(2, 16, 64, "4", "400", "1", device) +
           row(3, 16, 32, "4", "300", "1", device);
  };
  const json priced = run_json({"--budget-sec", "100", "--epochs", "10", "--devices", "T4,L4", "--prices",
                                folder_.write("prices.csv", "device,price_per_hour\nT4,36\nL4,72\n")},
                               header + on("T4") + on("L4"));
  EXPECT_EQ(priced["makespan_sec"], 90);
  EXPECT_EQ(priced["makespan_optimal"], true);
  EXPECT_DOUBLE_EQ(priced["price"], 0.9 + 2 * 0.8);
  EXPECT_EQ(priced["price_optimal"], true);
  const Finished text = run({"--budget-sec", "100", "--epochs", "10", "--gpus", "2"}, same);
  EXPECT_THAT(text.out, ::testing::HasSubstr("ends after 50 s (no plan of this value ends sooner)\n"));
}

TEST_F(PlanProgram, PrintsTheLinesThatSubmitIt) {
  const std::string table = header + row(2, 16, 32, "7.0", "500", "0.5", "T4") +
                            row(2, 16, 64, "12.0", "400", "0.7", "T4") + row(3, 16, 32, "30.0", "300", "0.9", "T4");
  std::istringstream lines(table);
  std::string line, queue;
  const std::vector<std::string> cells = {"id,earliest_sec", "it's a; night,", "b,", "c,200"};
  for (const std::string& cell : cells) {
    std::getline(lines, line);
    queue += line + "," + cell + "\n";
  }
  const Finished printed = run({"--budget-sec", "600", "--epochs", "10", "--sbatch", "my train.sh"}, queue);
  ASSERT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_THAT(printed.out, ::testing::HasSubstr("the mean of the measured times"));
  // A stand-in for sbatch writes its words, one a line, and says a number as sbatch --parsable does.
  const std::string fake = folder_.write("sbatch",
                                         "#!/bin/sh\nfor word in \"$@\"; do echo \"$word\" >> \"$LOG\"; done\n"
                                         "echo . >> \"$LOG\"\necho 7$(grep -c '^[.]$' \"$LOG\")\n");
  std::filesystem::permissions(fake, std::filesystem::perms::owner_all);
  const std::string log = folder_.file("log"), folder = fake.substr(0, fake.rfind('/'));
  const Finished done = spawn({"/usr/bin/env", "PATH=" + folder + ":/usr/bin:/bin", "LOG=" + log, "/bin/sh",
                               folder_.write("submit.sh", printed.out)});
  EXPECT_EQ(done.exit_code, 0) << done.err;
  std::vector<std::string> words;
  std::istringstream said(slurp(log));
  while (std::getline(said, line)) words.push_back(line);
  const auto key = [](int batch, int depth) {
    return ::testing::HasSubstr("depth=" + std::to_string(depth) +
                                ";base_filters=16;batch_size=" + std::to_string(batch));
  };
  // 70 s, 120 s and, from 200 on, 300 s.
  EXPECT_THAT(words,
              ::testing::ElementsAre("--parsable", "--job-name=it's a; night", "--time=0-00:02:00", "--gres=gpu:1",
                                     "my train.sh", key(32, 2), "10", "it's a; night", ".",  //
                                     "--parsable", "--job-name=b", "--time=0-00:02:00", "--dependency=afterany:71",
                                     "--gres=gpu:1", "my train.sh", key(64, 2), "10", "b", ".",  //
                                     "--parsable", "--job-name=c", "--time=0-00:05:00", "--dependency=afterany:72",
                                     "--begin=now+200", "--gres=gpu:1", "my train.sh", key(32, 3), "10", "c", "."));
  const Finished named = run(
      {"--budget-sec", "600", "--epochs", "10", "--sbatch", "t.sh", "--devices", "T4,T4", "--free-from-sec", "T4=60"},
      queue);
  EXPECT_THAT(named.out, ::testing::HasSubstr(" --begin=now+60 --gres=gpu:t4:1 t.sh "));
  // 70 s, for which Slurm's limit is 2 minutes: it would remove a job that must end sooner.
  const std::string dated = std::string("deadline_sec,") + header;
  const auto with_deadline = [&](const char* sec, const char* script) {
    return run({"--budget-sec", "6000", "--epochs", "70", std::string("--sbatch=") + script},
               dated + sec + "," + row(2, 16, 32, "1.0", "500", "0.5"))
        .out;
  };
  EXPECT_THAT(with_deadline("5000", "t.sh"), ::testing::HasSubstr(" --deadline=now+5000 --gres=gpu:1 t.sh "));
  EXPECT_THAT(with_deadline("80", "t.sh"), ::testing::HasSubstr(" --deadline=now+120 "));
  EXPECT_THAT(with_deadline("5000", "-x"), ::testing::HasSubstr(" ./-x "));
  EXPECT_THAT(
      run({"--budget-sec", "3600", "--epochs", "1", "--time-source", "predicted", "--value", "thr", "--sbatch", "t.sh"},
          "network,batch_size,device\nresnet18,64,T4\n")
          .out,
      ::testing::AllOf(::testing::HasSubstr("the 50 % quantile of the predicted time"),
                       ::testing::HasSubstr("--job-name=resnet")));
  const Finished some =
      run({"--budget-sec", "3600", "--epochs", "1", "--time-source", "predicted", "--value", "thr", "--sbatch", "t.sh"},
          "network,batch_size,device\nresnet18,64,T4\nresnet18,999999,T4\n");
  EXPECT_THAT(some.err, ::testing::HasSubstr("cannot"));  // the script has no line for it
  expect_refusal(run({"--budget-sec", "600", "--epochs", "10", "--sbatch", ""}, queue), 2, "--sbatch is empty");
}

TEST_F(PlanProgram, EachJobHasItsEpochsAndValue) {
  const std::string table = std::string("epochs,value,") + header + "10,3," + row(2, 16, 32, "1.0", "500", "0.5") +
                            "5,7," + row(2, 16, 64, "2.0", "400", "0.7") + ",1," + row(3, 16, 32, "3.0", "300", "0.9");
  const json plan = run_json({"--budget-sec", "20", "--epochs", "2"}, table);
  EXPECT_EQ(plan["value_of"], "value");
  EXPECT_EQ(plan["value"], 10);  // 10 + 10 s; the third has 6 s
  EXPECT_EQ(plan["cost_sec"], 20);
  EXPECT_EQ(run_json({"--budget-sec", "26", "--epochs", "2"}, table)["value"], 11);
  EXPECT_EQ(run_json({"--budget-sec", "20", "--epochs", "2", "--value", "acc"}, table)["value"], 0.7 + 0.9);
  expect_refusal(run({"--budget-sec", "20"}, table), 2, "epochs is missing");
  expect_refusal(run({"--budget-sec", "20", "--epochs", "2", "--value", "value"}), 2, "the table has no column value");
  for (const auto& [cells, what] :
       {std::pair("0,1,", "epochs \"0\" is not a positive integer"), std::pair("1,-1,", "value \"-1\" is not a number"),
        std::pair("1,many,", "value \"many\" is not a number"), std::pair("1.5,1,", "epochs \"1.5\" is not")}) {
    expect_refusal(run({"--budget-sec", "20", "--epochs", "2"},
                       std::string("epochs,value,") + header + cells + row(2, 16, 32, "1.0", "500", "0.5")),
                   2, what);
  }
}

TEST_F(PlanProgram, OneDeviceThatCannotRunAJobLeavesItToTheOthers) {
  // V100 has no bf16.
  const std::string table = "network,batch_size,precision,acc_mean\nresnet18,64,bf16,0.5\nresnet18,64,fp16,0.5\n";
  std::vector<std::string> asked = by_standard_model("1-00:00:00", "V100-SXM2-32GB,L4");
  asked.insert(asked.end(), {"--epochs", "1"});
  const json plan = run_json(asked, table);
  EXPECT_EQ(plan["n"], 2);
  EXPECT_EQ(plan["value"], 1.0);
  ASSERT_EQ(plan["left_out"].size(), 1U);
  EXPECT_EQ(plan["left_out"][0]["device"], "V100-SXM2-32GB");
  EXPECT_THAT(plan["left_out"][0]["reason"].get<std::string>(),
              ::testing::StartsWith("device \"V100-SXM2-32GB\" has no bf16_tflops"));
  for (const json& item : plan["items"]) {
    if (item["fields"]["precision"] == "bf16") {
      EXPECT_EQ(item["device"], "L4");
    }
  }
  EXPECT_THAT(run(asked, table).out, ::testing::HasSubstr("1 row cannot run on V100-SXM2-32GB; the first, "));
  std::vector<std::string> safely = asked;  // the same with uncertain times
  safely.insert(safely.end(), {"--confidence", "0.9"});
  EXPECT_EQ(run_json(safely, table)["n"], 2);
  std::vector<std::string> alone = by_standard_model("1-00:00:00", "V100-SXM2-32GB");
  alone.insert(alone.end(), {"--epochs", "1"});
  const json none = run_json(alone, table);
  EXPECT_EQ(none["n"], 1);
  EXPECT_FALSE(none["left_out"][0].contains("device"));
}

TEST_F(PlanProgram, RunsGoWhereTheirMemoryFits) {
  const std::string table = "network,batch_size,precision,acc_mean\nresnet50,512,fp32,0.5\nresnet50,32,fp32,0.5\n";
  std::vector<std::string> asked = by_standard_model("1-00:00:00", "T4,A100-SXM4-80GB");
  asked.insert(asked.end(), {"--epochs", "1"});
  const json plan = run_json(asked, table);
  EXPECT_EQ(plan["n"], 2);
  for (const json& item : plan["items"]) {
    EXPECT_EQ(item["verdict"], "fits");
    if (item["batch_size"] == 512) {
      EXPECT_EQ(item["device"], "A100-SXM4-80GB");
    }
  }
  ASSERT_EQ(plan["left_out"].size(), 1U);
  EXPECT_THAT(plan["left_out"][0]["reason"].get<std::string>(), ::testing::StartsWith("does_not_fit: needs "));
  std::vector<std::string> alone = by_standard_model("1-00:00:00", "T4");
  alone.insert(alone.end(), {"--epochs", "1"});
  EXPECT_EQ(run_json(alone, table)["n"], 1);
  alone.emplace_back("--ignore-memory");
  const json anyway = run_json(alone, table);
  EXPECT_EQ(anyway["n"], 2);
  EXPECT_TRUE(anyway["left_out"].empty());
  EXPECT_EQ(anyway["items"][0]["verdict"], "does_not_fit");
  EXPECT_THAT(run(alone, table).out, ::testing::HasSubstr("(memory does not fit)"));
  EXPECT_EQ(run_json({"--budget-sec", "50", "--epochs", "10"})["items"][0]["verdict"], nullptr);  // it ran there
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--ignore-memory"}), 2,
                 "--ignore-memory is for --time-source predicted");
}

TEST_F(PlanProgram, TellsALimitFromACoverThatCannotBe) {
  // Every run must be made, and only an exact partition of their times fits: there is one, but no search finds it at
  // once.
  std::string table = header;
  std::mt19937_64 random(1);
  std::int64_t left_over = 0;
  std::int64_t budget = 0;
  for (int i = 0; i < 40; ++i) {
    const std::int64_t drawn = 500'000'000 + static_cast<std::int64_t>(random() % 400'000'000) - (i % 2) * 200'000'000;
    const std::int64_t sec = i < 39 ? drawn : left_over;
    left_over += i % 2 == 0 ? sec : -sec;
    if (i % 2 == 0) budget += sec;
    table += row(1 + i % 5, 8 * (1 + i / 5), 32, std::to_string(sec), "500", "0.5");
  }
  const auto cover = [](std::int64_t budget_sec) {
    return std::vector<std::string>{"--budget-sec",     std::to_string(budget_sec),
                                    "--epochs",         "1",
                                    "--objective",      "cover-architecture",
                                    "--gpus",           "2",
                                    "--time-limit-sec", "0"};
  };
  expect_refusal(run(cover(budget), table), 1, "the search stopped before it found a plan");
  expect_refusal(run(cover(budget - 1), table), 1, "a run of each kind takes at least");
}

TEST_F(PlanProgram, RunsCanBeToldApartByWhatTheyDifferIn) {
  const std::string table =
      "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,avg_time_std,thr_mean,thr_std,acc_mean,"
      "acc_std,device,precision,layout\n2,16,32,1000,1,100,1.0,0,500,0,0.5,0,T4,fp32,nchw\n"
      "2,16,32,1000,1,100,0.6,0,800,0,0.5,0,T4,fp16,nchw\n2,16,32,1000,1,100,0.5,0,900,0,0.5,0,T4,fp16,nhwc\n";
  const Finished shown = run({"--budget-sec", "6", "--epochs", "10"}, table);
  EXPECT_THAT(shown.out, ::testing::HasSubstr("cifar_cnn 2x16 batch 32, fp16, nhwc "));
  EXPECT_THAT(shown.out, ::testing::HasSubstr("cifar_cnn 2x16 batch 32, fp16, nchw "));  // just missed
  const json item = run_json({"--budget-sec", "6", "--epochs", "10"}, table)["items"][0];
  EXPECT_EQ(item["fields"], json::object({{"precision", "fp16"}, {"layout", "nhwc"}}));
  EXPECT_THAT(run({"--budget-sec", "50", "--epochs", "10"}).out, ::testing::HasSubstr("cifar_cnn 2x16 batch 32  "));
}

TEST_F(PlanProgram, PredictsRowsOfADeviceOfYourOwn) {
  const std::string table =
      "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,avg_time_std,thr_mean,thr_std,acc_mean,"
      "acc_std,device,precision\n2,16,32,1000,1,100,1.0,0,500,0,0.5,0,Mine,fp32\n";
  const std::vector<std::string> predicted = {"--budget-sec", "9999", "--epochs", "2", "--time-source", "predicted"};
  expect_refusal(run(predicted, table), 2, "device \"Mine\" is not known");
  std::vector<std::string> with_file = predicted;
  with_file.insert(with_file.end(),
                   {"--device-file", folder_.write("own.csv", "name,fp32_tflops,mem_bw_gbs\nMine,40,800\n")});
  EXPECT_EQ(run_json(with_file, table)["n"], 1);
}

TEST_F(PlanProgram, FindsRowsOfADeviceByAnyOfItsNames) {
  std::string table = header;
  for (const int filters : {8, 16, 32}) {
    for (const int batch : {64, 256}) {
      table += row(2, filters, batch, std::to_string(0.3 + 0.01 * filters + 20.0 / batch), "500", "0.5");
    }
  }
  const std::string own = folder_.write("own.csv", "name,aliases\nMine,card\n");
  const auto items = [&](std::vector<std::string> devices) {
    devices.insert(devices.begin(), {"--budget-sec", "50", "--epochs", "10", "--devices"});
    return run_json(devices, table)["items"];
  };
  const json measured = items({"card"});
  ASSERT_FALSE(measured.empty());
  EXPECT_EQ(items({"CARD"}), measured);
  EXPECT_EQ(items({"Mine", "--device-file", own}), measured);

  const std::string cpu = Device::this_cpu().name;
  const json here = run_json({"--budget-sec", "50", "--epochs", "10", "--devices", "cpu"},
                             header + row(2, 16, 32, "1.0", "500", "0.5", cpu))["items"];
  ASSERT_EQ(here.size(), 1U);
  EXPECT_EQ(here[0]["device"], cpu);

  const std::string model = folder_.file("model.json");
  const Finished fitted = spawn({program("train"), "--runs-agg", folder_.write("rows.csv", table), "--val-fraction",
                                 "0", "--test-fraction", "0", "--out", model});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  const json predicted = items({"Mine", "--device-file", own, "--time-source", "predicted", "--model", model});
  ASSERT_FALSE(predicted.empty());
  for (const json& item : predicted) EXPECT_EQ(item["in_domain"], true) << item;
}

TEST_F(PlanProgram, SaysWhichTimesAreRough) {
  std::string table = header;
  for (const int depth : {2, 3, 4}) {
    for (const int filters : {8, 16, 32}) {
      for (const int batch : {64, 256}) {
        table += row(depth, filters, batch, std::to_string(0.3 + 0.001 * depth * filters + 20.0 / batch), "500", "0.5",
                     "T4");
      }
    }
  }
  const std::string rows = folder_.write("rows.csv", table);
  const std::string model = folder_.file("model.json");
  const Finished fitted = spawn({program("train"), "--runs-agg", rows, "--out", model});
  ASSERT_EQ(fitted.exit_code, 0) << fitted.err;
  const auto predicted = [&](std::vector<std::string> more) {
    std::vector<std::string> arguments = {"--budget-sec",  "50",        "--epochs", "10",
                                          "--time-source", "predicted", "--model",  model};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return arguments;
  };
  const json own = run_json(predicted({"--devices", "T4"}), table);
  ASSERT_GT(own["n"], 0);
  for (const json& item : own["items"]) {
    EXPECT_EQ(item["in_domain"], true);
    EXPECT_EQ(item["reason"], "");
  }
  const json alias = run_json(predicted({"--devices", "Tesla T4"}), table);
  EXPECT_EQ(alias["items"], own["items"]);
  const json other = run_json(predicted({"--devices", "T4,V100-SXM2-16GB"}), table);
  int rough = 0;
  for (const json& item : other["items"]) {
    EXPECT_EQ(item["in_domain"], item["device"] == "T4") << item;
    EXPECT_EQ(item["provenance"] == "runs", item["device"] == "T4") << item;
    rough += item["reason"] == "other_device" ? 1 : 0;
  }
  EXPECT_GT(rough, 0);
  const Finished screen = run(predicted({"--devices", "T4,V100-SXM2-16GB"}), table);
  EXPECT_NE(screen.out.find("outside the model's domain: " + std::to_string(rough)), std::string::npos) << screen.out;
  EXPECT_NE(screen.out.find("rests on"), std::string::npos) << screen.out;
  expect_refusal(run(predicted({"--devices", "Foo,T4"}), table), 2, "Foo");
  const std::string own_devices = folder_.write("own.csv", "name\nFoo\n");
  const json named = run_json(predicted({"--devices", "Foo", "--device-file", own_devices}), table);
  ASSERT_GT(named["n"], 0);
  EXPECT_EQ(named["items"][0]["reason"], "other_device");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--device-file", own_devices}, table), 2, "--devices");
  // A limit of 0 s with a confidence: a plan or its bound, not a crash.
  const json stopped = run_json(predicted({"--confidence", "0.9", "--time-limit-sec", "0"}), table);
  EXPECT_LE(stopped["value"], stopped["upper_bound"]);
  EXPECT_EQ(run(predicted({"--confidence", "0.9", "--time-limit-sec", "0", "--gpus", "3"}), table).exit_code, 0);
}

TEST_F(PlanProgram, WritesThePlan) {
  const std::string out = folder_.file("plan.csv");
  EXPECT_EQ(run({"--budget-sec", "50", "--epochs", "10", "--out", out}).exit_code, 0);
  const std::string text = slurp(out);
  EXPECT_EQ(text.rfind("key,cost_sec,value,device,start_sec,network,depth,base_filters,batch_size", 0), 0U);
  EXPECT_NE(text.find(",30,0.9,card,20,cifar_cnn,3,16,32,"), std::string::npos) << text;
}

TEST_F(PlanProgram, SaysWhatIsWrong) {
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--min-acc", "0.99"}), 1, "the best has 0.95");
  expect_refusal(run({"--budget-sec", "-1", "--epochs", "10"}), 2, "--budget-sec \"-1\"");
  expect_refusal(run({"--budget-sec", "abc", "--epochs", "10"}), 2, "abc");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "0"}), 2, "0 epochs");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--startup-sec", "nan"}), 2, "--startup-sec");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--value", "gold"}), 2, "gold");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--time-limit-sec", "-1", "--gpus", "2"}), 2,
                 "--time-limit-sec \"-1\"");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--price-per-hour", "-1"}), 2,
                 "--price-per-hour: -1 is not a number >= 0");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--confidence", "0.9"}), 2, "needs predicted times");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--confidence", "1"}), 2, "confidence 1");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10", "--confidence", "0.2"}), 2, "confidence 0.2");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10"}, ""), 2, "is empty");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10"}, header), 2, "no row");
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10"}, small_table() + row(2, 16, 32, "1", "5", "0.5")), 2,
                 "agg.csv:6: the workload of line 2 again");
  for (const char* bad : {"nan", "-1", "0", "abc", "1e999"}) {
    expect_refusal(run({"--budget-sec", "50", "--epochs", "10"}, header + row(2, 16, 32, bad, "5", "0.5")), 2,
                   "agg.csv:2: avg_time_mean");
  }
  expect_refusal(run({"--budget-sec", "50", "--epochs", "10"}, header + row(2, 16, 32, "1", "5", "-0.5")), 2,
                 "agg.csv:2: acc_mean");
  const Finished full = spawn(
      {program("plan"), "--runs-agg", folder_.write("agg.csv", small_table()), "--budget-sec", "50", "--epochs", "10"},
      "", "/dev/full");
  EXPECT_EQ(full.exit_code, 1);
}

TEST(PlanOfTheReference, IsTheExactOne) {
  const char* folder = std::getenv("PERFPRED_REFERENCE_DIR");
  if (folder == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
  struct Expected {
    const char* budget;
    const char* epochs;
    const char* value;
    int n;
    int cost;
    double sum;
    double tolerance;
  };
  for (const Expected& expected :
       {Expected{"3600", "50", "acc", 42, 3595, 28.4253917, 5e-8},
        Expected{"3600", "50", "thr", 42, 3506, 1'468'671.162, 5e-4}, Expected{"600", "50", "acc", 12, 600, 7.81, 5e-8},
        Expected{"1800", "50", "acc", 28, 1790, 18.5130584, 5e-8},
        Expected{"60", "3", "acc", 18, 60, 11.9367334, 5e-8}}) {
    const json plan = json_of(
        spawn({program("plan"), "--runs-agg", std::string(folder) + "/a100_cifar10/runs_agg.csv", "--budget-sec",
               expected.budget, "--epochs", expected.epochs, "--value", expected.value, "--min-acc", "0.6", "--json"}));
    EXPECT_EQ(plan["optimal"], true);
    EXPECT_EQ(plan["n"], expected.n);
    EXPECT_EQ(plan["cost_sec"], expected.cost);
    EXPECT_NEAR(plan["value"].get<double>(), expected.sum, expected.tolerance);
  }
}

}  // namespace
}  // namespace perfpred::testing
