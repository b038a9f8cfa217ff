// SPDX-License-Identifier: Apache-2.0
// perfpred-predict: one key for every spelling, through every door; networks in a sweep; refused combinations.
#include <perfpred/device.h>
#include <perfpred/op_graph.h>
#include <perfpred/time_regressor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <thread>
#include <tuple>
#include <vector>

#include "../sample_rows.h"
#include "spawn.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using testing::expect_refusal;
using testing::Finished;
using ::testing::HasSubstr;

class PredictProgram : public ::testing::Test {
 protected:
  /// A model of images of 64 x 64 on two networks, measured on a device of the catalogue.
  static void SetUpTestSuite() {
    folder_ = new testing::TemporaryFolder;
    std::vector<AggregateRow> rows;
    for (const char* network : {"squeezenet1_1", "cifar_resnet18"}) {
      for (const std::int64_t batch : {16, 32, 64, 128}) {
        Workload workload = Workload::zoo(network, batch, {3, 64, 64});
        workload.train_images = 1024;
        workload.device = "Tesla T4";
        rows.push_back(testing::row_of(
            workload, workload.graph().totals().flops * static_cast<double>(workload.steps_per_epoch()) / 1e12));
      }
    }
    TimeRegressor::fit(rows).save(folder_->file("model.json"));
  }
  static void TearDownTestSuite() { delete folder_; }

  static Finished predict(std::vector<std::string> options, const std::string& input = {}) {
    options.insert(options.begin(), {testing::program("predict"), "--model", folder_->file("model.json")});
    return testing::spawn(options, input);
  }
  static Json answer(const std::vector<std::string>& options) { return json_of(predict(options)); }

  static testing::TemporaryFolder* folder_;
};
testing::TemporaryFolder* PredictProgram::folder_ = nullptr;

TEST_F(PredictProgram, EverySpellingHasOneKeyThroughEveryDoor) {
  const Json plain = answer({"--network", "squeezenet1_1", "--batch-size", "32", "--device", "T4", "--json"});
  const std::string key = plain.at("key");
  EXPECT_THAT(key, HasSubstr("network=squeezenet1_1;depth=;base_filters=;batch_size=32;input=3x64x64;classes=1000;"
                             "train_images=1024;"));
  EXPECT_THAT(key, HasSubstr(";device=T4;"));
  EXPECT_TRUE(plain.at("in_domain")) << plain;
  EXPECT_EQ(answer({"--network", "SqueezeNet1_1", "--batch-size", "32", "--device", "Tesla T4", "--json"}), plain);
  const std::string table =
      folder_->write("configs.csv", "network,batch_size,device\nSQUEEZENET1_1,32,nvidia t4\nsqueezenet1_1,32,\n");
  const Json listed = answer({"--configs", table, "--json"});
  ASSERT_EQ(listed.size(), 2U);
  EXPECT_EQ(listed[0], plain);
  EXPECT_EQ(listed[1], plain);
  const Finished lines = predict({"--jsonl"}, R"({"network": "SqueezeNet1_1", "batch_size": 32, "device": "TESLA T4"})"
                                              "\n");
  EXPECT_EQ(json_of(lines), plain) << lines.err;
}

TEST_F(PredictProgram, DevicesOfATableAreNamedAndCheckedAsOptionsAre) {
  const std::string table = "network,batch_size,device\nsqueezenet1_1,32,no such card\n";
  const Finished finished = predict({"--configs", folder_->write("devices.csv", table)});
  expect_refusal(finished, 2, "devices.csv:2: device \"no such card\" is not known");
}

TEST_F(PredictProgram, ARowWithoutAnAnswerHasItsReasonAndTheOthersTheirAnswers) {
  for (const auto& [rows, message] :
       {std::pair("network,batch_size,device,precision\nsqueezenet1_1,32,T4,bf16\nsqueezenet1_1,32,T4,fp32\n",
                  "rows.csv:2: device \"T4\" has no bf16_tflops"),
        std::pair("network,batch_size,device,threads\nsqueezenet1_1,32,T4,4\nsqueezenet1_1,32,T4,\n",
                  "rows.csv:2: threads are given"),
        std::pair("network,batch_size,device\nsqueezenet1_1,32,no such card\nsqueezenet1_1,32,T4\n",
                  "rows.csv:2: device \"no such card\" is not known"),
        std::pair("network,batch_size,device\nsqueezenet1_1,many,T4\nsqueezenet1_1,32,T4\n",
                  "rows.csv:2: batch_size \"many\" is not a positive integer"),
        std::pair("network,batch_size,device\nsqueezenet9,32,T4\nsqueezenet1_1,32,T4\n",
                  "rows.csv:2: network \"squeezenet9\" is not known")}) {
    const std::string table = folder_->write("rows.csv", rows), out = folder_->file("rows_out.csv");
    const std::vector<std::string> command = {testing::program("predict"), "--configs", table};
    const Finished written = testing::spawn({command[0], command[1], command[2], "--out", out});
    EXPECT_EQ(written.exit_code, 0) << written.err;
    EXPECT_THAT(written.err, HasSubstr("perfpred-predict: 1 of 2 rows have no answer; the first: "));
    EXPECT_THAT(written.err, HasSubstr(message));
    EXPECT_EQ(testing::spawn(command).out, testing::slurp(out));
    std::vector<std::string> lines;
    std::ifstream file(out);
    for (std::string line; std::getline(file, line);) lines.push_back(line);
    ASSERT_EQ(lines.size(), 3U);
    EXPECT_THAT(lines[0], HasSubstr(",in_domain,reason,provenance,error,step_sec_p05,"));
    EXPECT_THAT(lines[1], AllOf(::testing::StartsWith("squeezenet"), HasSubstr("rows.csv:2: ")));
    EXPECT_THAT(lines[2], ::testing::ContainsRegex(",false,other_device,(probe|family|other_family),,[0-9]"));
    const Json list = Json::parse(testing::spawn({command[0], command[1], command[2], "--json"}).out);
    ASSERT_EQ(list.size(), 2U);
    EXPECT_THAT(list[0].at("error").get<std::string>(), HasSubstr(message));
    EXPECT_FALSE(list[1].contains("error"));
  }
}

TEST_F(PredictProgram, AValueOfASweepWithoutAnAnswerHasItsReasonAndTheOthersTheirAnswers) {
  const std::vector<std::string> standard = {testing::program("predict"), "--batch-size", "32"};
  for (const auto& [field, values, others, message] :
       {std::tuple("device", "T4,no such card,L4", "--network=resnet18", "device \"no such card\" is not known"),
        std::tuple("network", "resnet18,squeezenet9,vgg11", "--device=T4", "network \"squeezenet9\" is not known"),
        std::tuple("precision", "fp32,bf16,fp16", "--device=T4", "has no bf16_tflops"),
        std::tuple("input", "3x64x64,many,3x32x32", "--device=T4", "input \"many\" is not")}) {
    std::vector<std::string> command = standard;
    command.insert(command.end(),
                   {others, "--sweep", std::string(field) + "=" + values, "--out", folder_->file("s.csv")});
    if (std::string(others) == "--device=T4" && std::string(field) != "network")
      command.emplace_back("--network=resnet18");
    const Finished table = testing::spawn(command);
    EXPECT_EQ(table.exit_code, 0) << table.err;
    EXPECT_THAT(table.err, AllOf(HasSubstr("1 of 3 rows have no answer"), HasSubstr(message)));
    EXPECT_THAT(table.out, HasSubstr(message));
    const std::string out = testing::slurp(folder_->file("s.csv"));
    EXPECT_EQ(std::count(out.begin(), out.end(), '\n'), 4);
    command.emplace_back("--json");
    const Json list = Json::parse(testing::spawn(command).out);
    ASSERT_EQ(list.size(), 3U);
    EXPECT_TRUE(list[0].contains("time_sec"));
    EXPECT_THAT(list[1].at("error").get<std::string>(), HasSubstr(message));
    EXPECT_TRUE(list[2].contains("time_sec"));
  }
}

TEST_F(PredictProgram, AModelOfACpuAnswersForAGpuAsItsPeaksTell) {
  std::vector<AggregateRow> rows;
  for (const std::int64_t batch : {8, 16, 32, 64, 128, 256}) {
    Workload workload = Workload::cifar_cnn(2, 16, batch);
    workload.device = "a CPU";
    workload.threads = 2;
    rows.push_back(testing::row_of(workload, 100 + 0.1 * static_cast<double>(batch)));
  }
  const std::string model = folder_->file("cpu.json");
  TimeRegressor::fit(rows).save(model);
  const std::vector<std::string> asked = {"--network",      "resnet18",    "--batch-size", "64",    "--device",
                                          "A100-SXM4-80GB", "--precision", "bf16",         "--json"};
  std::vector<std::string> command = {testing::program("predict")};
  command.insert(command.end(), asked.begin(), asked.end());
  const Json standard = Json::parse(testing::spawn(command).out, nullptr, false);
  command.insert(command.end(), {"--model", model});
  const Json moved = Json::parse(testing::spawn(command).out, nullptr, false);
  EXPECT_THAT(moved.at("key").get<std::string>(), HasSubstr(";device=A100-SXM4-80GB;threads="));
  EXPECT_NEAR(moved["step_sec"]["p50"].get<double>() / standard["step_sec"]["p50"].get<double>(), 1, 0.2);
}

TEST_F(PredictProgram, ACpuIsNotAnsweredForWithOtherThreadsAsIfItHadBeenMeasured) {
  const std::string devices =
      folder_->write("devices.csv", "name,kind,sms,fp32_tflops,mem_bw_gbs\nserver,cpu,32,2,200\n");
  const auto answer_with = [&](const char* threads) {
    return json_of(testing::spawn({testing::program("predict"), "--device-file", devices, "--device", "server",
                                   "--network", "resnet18", "--batch-size", "8", "--threads", threads, "--json"}));
  };
  const Json all = answer_with("32")["step_sec"], one = answer_with("1")["step_sec"];
  EXPECT_GE(one["p95"].get<double>() / one["p50"].get<double>(), 2.9);
  EXPECT_LT(one["p05"], all["p50"]);  // a step that no thread shortens
  EXPECT_GT(one["p95"].get<double>(), 32 * all["p50"].get<double>());
}

/// The user's cache folder, until the test ends.
class CacheFolder {
 public:
  explicit CacheFolder(const std::string& path) : before_(std::getenv("PERFPRED_CACHE_DIR")) { use(path); }
  CacheFolder(const CacheFolder&) = delete;
  CacheFolder& operator=(const CacheFolder&) = delete;
  ~CacheFolder() {
    before_.empty() ? ::unsetenv("PERFPRED_CACHE_DIR") : ::setenv("PERFPRED_CACHE_DIR", before_.c_str(), 1);
  }
  static void use(const std::string& path) { ::setenv("PERFPRED_CACHE_DIR", path.c_str(), 1); }

 private:
  struct Value : std::string {
    explicit Value(const char* text) : std::string(text == nullptr ? "" : text) {}
  } before_;
};

std::vector<std::string> question_of(const char* device) {
  return {testing::program("predict"), "--network", "squeezenet1_1", "--batch-size", "2", "--device", device, "--json"};
}

/// The tables in a folder.
std::vector<std::string> tables_in(const std::string& folder) {
  std::vector<std::string> found;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) {
    if (entry.path().extension() == ".csv") found.push_back(entry.path().string());
  }
  return found;
}

long lines_of(const std::string& text) { return std::count(text.begin(), text.end(), '\n'); }

TEST(CpuOfThisMachine, IsMeasuredOnceAndTheSameQuestionHasTheSameAnswer) {
  const testing::TemporaryFolder folder;
  const std::string cache = folder.file("cache");
  const CacheFolder used(cache);
  EXPECT_EQ(testing::spawn(question_of("T4")).err, "");
  EXPECT_FALSE(std::filesystem::exists(cache));  // nothing was measured for a GPU

  std::vector<Finished> first(3);  // at once
  {
    std::vector<std::jthread> users;
    for (Finished& one : first) users.emplace_back([&one] { one = testing::spawn(question_of("cpu")); });
  }
  std::string said;
  for (const Finished& one : first) {
    EXPECT_EQ(one.exit_code, 0) << one.err;
    EXPECT_EQ(one.out, first.front().out);
    said += one.err;
  }
  EXPECT_EQ(lines_of(said), 1) << said;
  EXPECT_THAT(said, HasSubstr("; the rates are kept in " + cache));
  ASSERT_EQ(tables_in(cache).size(), 1U);
  const std::string kept = tables_in(cache).front();
  const Finished again = testing::spawn(question_of(Device::this_cpu().name.c_str()));
  EXPECT_EQ(again.err, "");
  EXPECT_EQ(again.out, first.front().out);

  // What is kept is what answers.
  const Json row = json_of(testing::spawn({testing::program("devices"), "cpu", "--json"}))["devices"][0];
  std::string table = "name,kind,fp32_tflops,fp64_tflops,fp32_vector_tflops,fp64_vector_tflops,mem_bw_gbs\n\"" +
                      row["name"].get<std::string>() + "\",cpu,0.01,0.01,0.01,0.01,1\n";
  std::ofstream(kept) << table;
  const Finished slower = testing::spawn(question_of("cpu"));
  EXPECT_EQ(slower.err, "");
  EXPECT_GT(json_of(slower)["step_sec"]["p50"], json_of(again)["step_sec"]["p50"]);

  const Finished measured = testing::spawn({testing::program("devices"), "--measure", "--json"});
  EXPECT_EQ(lines_of(measured.err), 1) << measured.err;
  const Json devices = json_of(measured)["devices"];
  ASSERT_EQ(devices.size(), 1U);
  EXPECT_EQ(devices[0]["name"], row["name"]);
  EXPECT_GT(devices[0]["mem_bw_gbs"], 1);
  EXPECT_NE(testing::slurp(kept), table);
  expect_refusal(testing::spawn({testing::program("devices"), "T4", "--measure"}), 2, "--measure");
}

TEST(CpuOfThisMachine, AFolderThatHoldsNothingOfUseIsSaidInALine) {
  const testing::TemporaryFolder folder;
  const CacheFolder used(folder.path());
  EXPECT_EQ(testing::spawn(question_of("cpu")).exit_code, 0);
  ASSERT_EQ(tables_in(folder.path()).size(), 1U);
  const std::string kept = tables_in(folder.path()).front();
  // Every rate of a whole row, out of the range of real devices.
  std::vector<std::string> damages = {"", "name\n", "not a table", "name,mem_bw_gbs\ncpu,-1\n", "name,kind\ncpu,cpu\n"};
  const std::string name = '"' + Device::this_cpu().name + '"';
  const std::string rates =
      "name,kind,fp32_tflops,fp64_tflops,fp32_vector_tflops,fp64_vector_tflops,mem_bw_gbs\n" + name;
  for (const char* row : {",cpu,0.1,0.1,0.1,0.1,2.5e10\n", ",cpu,1e9,0.1,0.1,0.1,10\n", ",cpu,0.1,1e9,0.1,0.1,10\n",
                          ",cpu,0.1,0.1,1e9,0.1,10\n", ",cpu,0.1,0.1,0.1,1e9,10\n", ",cpu,0.1,0.1,0.1,0.1,\n"}) {
    damages.push_back(rates + row);
  }
  for (const std::string& broken : damages) {
    std::ofstream(kept, std::ios::trunc) << broken;
    const Finished finished = testing::spawn(question_of("cpu"));
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    EXPECT_EQ(lines_of(finished.err), 1) << finished.err;
    EXPECT_THAT(finished.err, HasSubstr(kept + ":"));
    EXPECT_THAT(finished.err, HasSubstr("measured this machine's CPU"));
    EXPECT_EQ(testing::spawn(question_of("cpu")).err, "") << broken;  // it holds them now
    std::ofstream(kept, std::ios::trunc) << broken;  // and who asks for another device does not need them
    const Finished other = testing::spawn(question_of("T4"));
    EXPECT_EQ(other.exit_code, 0) << broken << other.err;
    EXPECT_EQ(other.err, "") << broken;
  }
  CacheFolder::use(folder.write("file", ""));  // no folder can be made there
  const Finished finished = testing::spawn(question_of("cpu"));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  EXPECT_EQ(lines_of(finished.err), 1) << finished.err;
  EXPECT_THAT(finished.err, HasSubstr("the rates are not kept: "));
}

TEST_F(PredictProgram, AnUpdateOfTooManySamplesIsRefusedThroughEveryDoor) {
  const std::string huge = "4611686018427387904", why = "accumulate " + huge + " is too large";
  const std::vector<std::string> job = {"--network", "resnet50", "--batch-size", "8", "--device", "T4"};
  std::vector<std::string> option = {testing::program("predict"), "--accumulate", huge};
  option.insert(option.end(), job.begin(), job.end());
  expect_refusal(testing::spawn(option), 2, why);
  const std::string table =
      folder_->write("huge.csv", "network,batch_size,device,accumulate\nresnet50,8,T4," + huge + "\nresnet50,8,T4,2\n");
  const Finished rows = testing::spawn({testing::program("predict"), "--configs", table});
  EXPECT_EQ(rows.exit_code, 0) << rows.err;
  EXPECT_THAT(rows.err, AllOf(HasSubstr("1 of 2 rows have no answer"), HasSubstr(why)));
  const std::string request = R"({"network":"resnet50","batch_size":8,"device":"T4","fit_advice":false)";
  const Finished lines =
      testing::spawn({testing::program("predict"), "--jsonl"},
                     request + ",\"id\":1,\"accumulate\":" + huge + "}\n" + request + ",\"id\":2}\n");
  EXPECT_EQ(lines.exit_code, 0) << lines.err;
  EXPECT_THAT(lines.out, AllOf(HasSubstr(why), HasSubstr("\"id\":1"), HasSubstr("\"id\":2,\"images_per_sec\"")));
  const std::string runs = folder_->write("huge_agg.csv",
                                          "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,"
                                          "avg_time_std,thr_mean,thr_std,acc_mean,acc_std,network,device,accumulate\n"
                                          ",,8,25557032,1,782,5.1,0,9715,0,,,resnet50,T4," +
                                              huge + "\n");
  expect_refusal(
      testing::spawn({testing::program("evaluate"), "--model", folder_->file("model.json"), "--measured", runs}), 2,
      why);
}

/// With a batch larger than the epoch its only step is smaller: it does not compute more than the device can.
TEST_F(PredictProgram, UtilisationIsOfTheSamplesThatAStepHas) {
  const auto mfu = [](const std::string& batch, const std::string& images) {
    return testing::answer({testing::program("predict"), "--network", "resnet50", "--device", "A100-80GB-PCIe",
                            "--precision", "bf16", "--batch-size", batch, "--train-images", images})
        .at("mfu")
        .get<double>();
  };
  EXPECT_NEAR(mfu("1024", "64"), mfu("64", "64"), 0.05 * mfu("64", "64"));
  EXPECT_LT(mfu("65536", "64"), 1);
}

TEST_F(PredictProgram, ARequestNamesItsSizes) {
  for (const std::string table : {"network,batch_size\ncifar_cnn,32\n", "network\nsqueezenet1_1\n", "hello\nworld\n"}) {
    const Finished finished = predict({"--configs", folder_->write("sizes.csv", table)});
    EXPECT_EQ(finished.exit_code, 2) << table << finished.out;
    EXPECT_THAT(finished.err, AllOf(HasSubstr("sizes.csv:2"), HasSubstr("is missing")));
  }
  const Finished lines = predict({"--jsonl"}, "{\"network\": \"cifar_cnn\"}\n{\"network\": \"squeezenet1_1\"}\n");
  EXPECT_THAT(lines.out, AllOf(HasSubstr("depth is missing"), HasSubstr("batch_size is missing"))) << lines.out;
}

TEST_F(PredictProgram, OneDocumentGoesToStandardOutput) {
  const Finished finished = predict({"--batch-size", "32", "--json", "--out", "/dev/stdout"});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.err, HasSubstr("--out and --json both write to stdout"));
}

TEST_F(PredictProgram, ATableWithoutAFileGoesToStandardOutput) {
  const std::string table = folder_->write("sizes.csv", "batch_size\n32\n64\n"), out = folder_->file("written.csv");
  EXPECT_EQ(predict({"--configs", table, "--out", out}).exit_code, 0);
  const Finished printed = predict({"--configs", table});
  EXPECT_EQ(printed.exit_code, 0) << printed.err;
  EXPECT_EQ(printed.out, testing::slurp(out));
}

/// The rows of a predictions.csv without quotes, each by its columns.
std::vector<std::map<std::string, std::string>> rows_of(const std::string& path) {
  std::ifstream file(path);
  const auto fields_of = [](const std::string& line) {
    std::vector<std::string> fields(1);
    bool is_quoted = false;
    for (const char c : line) {
      if (c == '"') {
        is_quoted = !is_quoted;
      } else if (c == ',' && !is_quoted) {
        fields.emplace_back();
      } else {
        fields.back() += c;
      }
    }
    return fields;
  };
  std::string line;
  std::getline(file, line);
  const std::vector<std::string> header = fields_of(line);
  std::vector<std::map<std::string, std::string>> rows;
  while (std::getline(file, line)) {
    const std::vector<std::string> fields = fields_of(line);
    EXPECT_EQ(fields.size(), header.size()) << line;
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < fields.size(); ++i) row[header.at(i)] = fields[i];
  }
  return rows;
}

/// What nobody says may be otherwise: an interval is as wide whether options or a table leave a field out.
/// By number, in every form that an answer has; 0.95 is the upper end of the interval.
TEST_F(PredictProgram, AQuantileIsAskedForByNumber) {
  const std::vector<std::string> job = {
      "--network", "squeezenet1_1", "--batch-size", "24",         "--epochs", "3", "--startup-sec",
      "9",         "--quantile",    "0.95",         "--quantile", "0.999"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), job.begin(), job.end());
    return more;
  };
  const Json one = answer(with({"--json"}));
  ASSERT_EQ(one.at("quantiles").size(), 2);
  EXPECT_EQ(one.at("quantiles")[0].at("total_sec"), one.at("total_sec").at("p95"));
  EXPECT_EQ(one.at("quantiles")[0].at("step_sec"), one.at("step_sec").at("p95"));
  const double q999 = one.at("quantiles")[1].at("total_sec").get<double>();
  EXPECT_GT(q999, one.at("total_sec").at("p95").get<double>());
  EXPECT_THAT(predict(job).out, AllOf(HasSubstr("95 % below"), HasSubstr("99.9 % below")));
  EXPECT_FALSE(answer({"--network", "squeezenet1_1", "--batch-size", "24", "--json"}).contains("quantiles"));

  const std::string file = folder_->file("quantiles.csv");
  std::vector<std::string> swept = with({"--sweep", "batch_size=24,48", "--out", file});
  swept.erase(swept.begin() + 2, swept.begin() + 4);
  EXPECT_THAT(predict(swept).out, HasSubstr("99.9 % below"));
  std::ifstream table(file);
  std::string header, row;
  std::getline(table, header);
  std::getline(table, row);
  EXPECT_THAT(header, ::testing::EndsWith(",step_sec_q0.95,step_sec_q0.999,total_sec_q0.95,total_sec_q0.999"));
  EXPECT_DOUBLE_EQ(std::stod(row.substr(row.rfind(',') + 1)), q999);

  const Finished lines = predict({"--jsonl", "--quantile", "0.9"},
                                 "{\"network\": \"squeezenet1_1\", \"batch_size\": 24}\n"
                                 "{\"network\": \"squeezenet1_1\", \"batch_size\": 24, \"quantiles\": [0.8, 0.99]}\n");
  std::istringstream answers(lines.out);
  std::getline(answers, row);
  EXPECT_EQ(Json::parse(row).at("quantiles").at(0).at("q"), 0.9);
  std::getline(answers, row);
  EXPECT_EQ(Json::parse(row).at("quantiles").size(), 2);
  for (const char* bad : {"0", "1", "-0.5", "99.9", "x", "nan"})
    expect_refusal(predict({"--network", "squeezenet1_1", "--batch-size", "24", "--quantile", bad}), 2, "uantile");
}

TEST_F(PredictProgram, ATableSaysNoMoreThanAnOption) {
  const std::string standard = testing::program("predict"), out = folder_->file("unstated.csv");
  const auto options = [&](std::vector<std::string> more) {
    more.insert(more.begin(), {standard, "--network", "resnet50", "--batch-size", "48", "--device", "A100-SXM4-80GB",
                               "--precision", "fp16", "--json"});
    return Json::parse(testing::spawn(more).out, nullptr, false).at("time_sec");
  };
  const auto table = [&](const std::string& rows) {
    const std::string file = folder_->write("unstated_configs.csv", rows);
    EXPECT_EQ(testing::spawn({standard, "--configs", file, "--out", out}).exit_code, 0);
    const Json listed = Json::parse(testing::spawn({standard, "--configs", file, "--json"}).out, nullptr, false);
    const auto written = rows_of(out);
    EXPECT_EQ(std::stod(written.at(0).at("time_sec_p95")), listed.at(0).at("time_sec").at("p95").get<double>());
    return listed.at(0).at("time_sec");
  };
  const Json open = options({}), said = options({"--layout", "nchw", "--compiled", "0"});
  EXPECT_LT(said.at("p95"), open.at("p95"));
  const std::string columns = "network,batch_size,device,precision", values = "resnet50,48,A100-SXM4-80GB,fp16";
  EXPECT_EQ(table(columns + "\n" + values + "\n"), open);
  EXPECT_EQ(table(columns + ",layout,compiled\n" + values + ",,\n"), open);  // an empty cell says nothing
  EXPECT_EQ(table(columns + ",layout,compiled\n" + values + ",nchw,0\n"), said);
}

TEST_F(PredictProgram, AColumnThatIsNearlyAFieldIsRefusedAndOthersAreNotRead) {
  for (const auto& [column, field] :
       {std::pair("lyaout", "layout"), std::pair("precison", "precision"), std::pair("Optimizer", "optimizer"),
        std::pair("train images", "train_images"), std::pair("classe", "classes")}) {
    const std::string table = folder_->write("near.csv", "batch_size," + std::string(column) + "\n32,\n");
    expect_refusal(predict({"--configs", table}), 2,
                   "near.csv:1: column \"" + std::string(column) + "\" is not known; did you mean " + field + "?");
  }
  expect_refusal(predict({"--configs", folder_->write("near.csv", "batch\n32\n")}), 2, "did you mean batch_size?");
  expect_refusal(predict({"--configs", folder_->write("near.csv", "batch_size,num_gpus\n32,8\n")}), 2,
                 "near.csv:1: column \"num_gpus\": several devices are the fields gpus_per_node");
  expect_refusal(predict({"--batch-size", "32", "--sweep", "nodes=1,2"}), 2,
                 "field \"nodes\": several devices are the fields gpus_per_node (8, 1+3, 8x32) and parallel (ddp, "
                 "fsdp, tp=2,pp=4)");
  const std::string other = folder_->write("other.csv", "batch_size,cost,load,cuda,n,name,lr,host\n32,,,,,,,\n");
  EXPECT_EQ(predict({"--configs", other}).exit_code, 0);
  expect_refusal(predict({"--batch-size", "32", "--sweep", "lyaout=nchw,nhwc"}), 2,
                 "field \"lyaout\" is not known; did you mean layout?");
}

TEST_F(PredictProgram, ATableHasWhatTheScreenShows) {
  const std::string prices =
      folder_->write("table_prices.csv", "device,price_per_hour,currency\nT4,0.36,EUR\nL4,0.72,EUR\n");
  const std::vector<std::string> asked = {"--epochs", "4", "--budget-sec", "7200", "--prices", prices};
  const auto check = [&](std::vector<std::string> command) {
    const std::string out = folder_->file("shown.csv");
    command.insert(command.begin(), testing::program("predict"));
    command.insert(command.end(), asked.begin(), asked.end());
    std::vector<std::string> to_file = command;
    to_file.insert(to_file.end(), {"--out", out});
    const Finished finished = testing::spawn(to_file);
    ASSERT_EQ(finished.exit_code, 0) << finished.err;
    command.emplace_back("--json");
    const Json list = Json::parse(testing::spawn(command).out, nullptr, false);
    const auto rows = rows_of(out);
    ASSERT_EQ(rows.size(), 2U);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto number = [&](const char* column) { return std::stod(rows[i].at(column)); };
      for (const char* level : {"p05", "p50", "p95"}) {
        for (const char* name : {"step_sec", "total_sec", "price", "tokens_per_sec", "epochs_in_budget"}) {
          EXPECT_EQ(number((std::string(name) + "_" + level).c_str()), list[i].at(name).at(level).get<double>())
              << name;
        }
      }
      EXPECT_EQ(number("memory_bytes"), list[i].at("memory_bytes").get<double>());
      EXPECT_EQ(number("usable_bytes"), list[i].at("memory").at("usable").get<double>());
      EXPECT_EQ(rows[i].at("verdict"), list[i].at("verdict"));
      EXPECT_EQ(rows[i].at("currency"), "EUR");
    }
  };
  check({"--network", "gpt2", "--batch-size", "2", "--precision", "fp16", "--train-images", "9000", "--sweep",
         "device=T4,L4"});
  check(
      {"--configs",
       folder_->write("shown_configs.csv", "network,batch_size,device,train_images\ngpt2,2,T4,9000\ngpt2,2,L4,9000\n"),
       "--precision", "fp16"});
  const Finished screen = testing::spawn({testing::program("predict"), "--network", "resnet50", "--batch-size", "32",
                                          "--sweep", "device=T4,L4", "--epochs", "90", "--price-per-hour", "0.5"});
  EXPECT_EQ(screen.exit_code, 0) << screen.err;
  EXPECT_THAT(screen.out, AllOf(HasSubstr(" total"), HasSubstr(" price"), HasSubstr(" days "),
                                ::testing::EndsWith("\nassumed --train-images 1281167\n")));
}

TEST_F(PredictProgram, ANameOfADeviceIsRefusedInTheSameWordsEverywhere) {
  const std::vector<std::string> command = {testing::program("predict"), "--network", "resnet50", "--batch-size", "32"};
  const auto with = [&](std::vector<std::string> more) {
    more.insert(more.begin(), command.begin(), command.end());
    return testing::spawn(more);
  };
  const std::string table = folder_->write("named.csv", "device\nH100\n"),
                    unknown = folder_->write("unnamed.csv", "device\nRTX 9999\n");
  const char* of_several = "device \"H100\" may be any of H100-PCIe-80GB, H100-SXM5-80GB";
  expect_refusal(with({"--sweep", "device=H100"}), 2, of_several);
  expect_refusal(with({"--configs", table}), 2, of_several);
  for (const auto& how :
       {std::vector<std::string>{"--device", "RTX 9999"}, {"--sweep", "device=RTX 9999"}, {"--configs", unknown}}) {
    expect_refusal(with(how), 2, "device \"RTX 9999\" is not known");
    expect_refusal(with(how), 2, "the nearest are RTX ");
  }
}

TEST_F(PredictProgram, AnEpochOfFewerImagesThanABatchIsSaid) {
  const std::vector<std::string> job = {testing::program("predict"),
                                        "--network",
                                        "resnet18",
                                        "--batch-size",
                                        "64",
                                        "--device",
                                        "T4",
                                        "--precision",
                                        "fp16"};
  const auto with = [&](const std::string& images) {
    std::vector<std::string> command = job;
    command.insert(command.end(), {"--train-images", images});
    return testing::spawn(command).out;
  };
  EXPECT_THAT(with("48"), HasSubstr("48 samples, fewer than a step's 64: its only step is smaller"));
  EXPECT_THAT(with("64"), ::testing::Not(HasSubstr("drop_last")));
}

TEST_F(PredictProgram, OfOtherSoftwareNoAllocatorIsMadeUp) {
  const auto memory = [](const std::string& software) {
    const Finished finished = testing::spawn({testing::program("predict"), "--network", "resnet50", "--batch-size",
                                              "64", "--device", "T4", "--precision", "fp16", "--software", software});
    EXPECT_EQ(finished.exit_code, 0) << finished.err;
    return finished.out;
  };
  EXPECT_THAT(memory("pytorch"), HasSubstr("GB reserved by PyTorch"));
  EXPECT_THAT(memory("jax"),
              AllOf(HasSubstr("jax may reserve more, as it is set"), ::testing::Not(HasSubstr("PyTorch"))));
}

TEST_F(PredictProgram, SweepsNetworks) {
  const Json swept =
      answer({"--sweep", "network=CIFAR_ResNet18,squeezenet1_1,resnet18", "--batch-size", "32", "--json"});
  ASSERT_EQ(swept.size(), 3U);
  EXPECT_TRUE(swept[0].at("in_domain"));
  EXPECT_TRUE(swept[1].at("in_domain"));
  EXPECT_EQ(swept[2].at("reason"), "other_network");
  EXPECT_THAT(swept[2].at("key").get<std::string>(), HasSubstr("input=3x224x224;classes=1000;train_images=1281167;"));
  // What an option says holds for every network of the sweep.
  const Json small = answer({"--sweep", "network=squeezenet1_1,resnet18", "--batch-size", "32", "--input", "3x96x96",
                             "--train-images", "50000", "--json"});
  for (const Json& one : small) {
    EXPECT_THAT(one.at("key").get<std::string>(), HasSubstr("input=3x96x96;classes=1000;train_images=50000;"));
  }
}

TEST_F(PredictProgram, RefusesOptionsThatWouldHaveNoEffect) {
  const std::string table = folder_->write("one.csv", "batch_size\n32\n");
  for (const std::vector<std::string>& options :
       std::vector<std::vector<std::string>>{{"--configs", table, "--sweep", "batch_size=1,2"},
                                             {"--batch-size", "3", "--out", ""},
                                             {"--jsonl", "--configs", table},
                                             {"--jsonl", "--out", folder_->file("p.csv")},
                                             {"--jsonl", "--sweep", "batch_size=1,2"},
                                             {"--jsonl", "--json"},
                                             {"--sweep", "batch_size=1,2", "--batch-size", "3"},
                                             {"--sweep", "device=no such card,nor this", "--batch-size", "3"},
                                             {"--batch-size", "3", "--depth", "2"}}) {
    const Finished finished = predict(options);
    EXPECT_EQ(finished.exit_code, 2) << options[0] << ' ' << options[1] << finished.out;
    EXPECT_EQ(finished.out, "");
  }
  EXPECT_FALSE(std::filesystem::exists(folder_->file("p.csv")));
}

TEST_F(PredictProgram, AnOptionBesideATableIsForRowsThatLackTheField) {
  const std::string full = folder_->write("full.csv", "network,batch_size,device\nsqueezenet1_1,32,T4\n");
  for (const auto& [option, value, message] :
       {std::tuple("--network", "vgg16", "network is a column of "),
        std::tuple("--batch-size", "4", "batch_size is a "), std::tuple("--device", "L4", "device is a column of "),
        std::tuple("--depth", "3", "depth is given, but no ")}) {
    expect_refusal(predict({"--configs", full, option, value}), 2, message);
    expect_refusal(predict({"--configs", full, option, value, "--json"}), 2, "full.csv");
  }
  const Json plain = answer({"--network", "squeezenet1_1", "--batch-size", "32", "--device", "T4", "--json"});
  const std::string lacks = folder_->write("lacks.csv", "network,batch_size\nsqueezenet1_1,32\n");
  EXPECT_EQ(answer({"--configs", lacks, "--device", "T4", "--json"}), Json::array({plain}));
  const std::string some = folder_->write("some.csv", "network,batch_size\nsqueezenet1_1,\nsqueezenet1_1,64\n");
  EXPECT_EQ(answer({"--configs", some, "--batch-size", "32", "--device", "T4", "--json"}).at(0), plain);
}

TEST_F(PredictProgram, TakesOwnDevices) {
  const std::string own = folder_->write("own.csv", "name,kind,vendor,aliases,mem_gb\nMine,gpu,NVIDIA,my card,0.001\n");
  const std::vector<std::string> job = {"--network", "squeezenet1_1", "--batch-size", "32",
                                        "--device",  "my card",       "--json"};
  EXPECT_EQ(predict(job).exit_code, 2);
  std::vector<std::string> with_file = job;
  with_file.insert(with_file.end(), {"--device-file", own});
  const Json json = answer(with_file);
  EXPECT_THAT(json.at("key").get<std::string>(), HasSubstr(";device=Mine;"));
  EXPECT_EQ(json.at("reason"), "other_device");
  EXPECT_FALSE(json.at("fits"));
}

TEST(PredictWithoutDevice, MeansThisMachinesGpuAndWhatIsFreeOfIt) {
  const auto ask = [](std::vector<std::string> options) {
    options.insert(options.begin(),
                   {"/usr/bin/env", std::string("LD_LIBRARY_PATH=") + PERFPRED_TEST_NVML, testing::program("predict"),
                    "--network", "resnet50", "--batch-size", "32", "--json"});
    return testing::spawn(options);
  };
  const Finished own = ask({});
  EXPECT_EQ(own.exit_code, 0) << own.err;
  EXPECT_THAT(own.err,
              HasSubstr("this machine's first GPU, NVIDIA GeForce RTX 4090, of which other programs hold 3.00 GB"));
  EXPECT_EQ(own.out, ask({"--device", "RTX 4090", "--reserved-by-others", "3000000000"}).out);
  EXPECT_EQ(ask({"--reserved-by-others", "1GB"}).out, ask({"--device", "RTX 4090", "--reserved-by-others", "1GB"}).out);
  const Finished named = ask({"--device", "L4"});
  EXPECT_EQ(named.err, "");
  EXPECT_EQ(Json::parse(named.out)["memory"]["usable"],
            Json::parse(ask({"--device", "L4", "--reserved-by-others", "0"}).out)["memory"]["usable"]);
}

TEST_F(PredictProgram, RunsUnderOneNameOfAnOwnDeviceAnswerForAllItsNames) {
  std::vector<AggregateRow> rows;
  for (const std::int64_t batch : {16, 32, 64, 128}) {
    Workload workload = Workload::zoo("squeezenet1_1", batch);
    workload.device = "my card";
    rows.push_back(testing::row_of(workload, 1000.0 / static_cast<double>(batch)));
  }
  const std::string model = folder_->file("own.json");
  const std::string own = folder_->write(
      "own.csv",
      "name,kind,vendor,aliases,fp32_tflops,fp32_vector_tflops,mem_bw_gbs\nMine,gpu,NVIDIA,my card,40,40,800\n");
  DeviceCatalogue devices;
  devices.add(own);
  TimeRegressor::fit(rows, {.devices = devices}).save(model);
  const auto answer = [&](const std::string& device) {
    return json_of(testing::spawn({testing::program("predict"), "--model", model, "--device-file", own, "--network",
                                   "squeezenet1_1", "--batch-size", "32", "--device", device, "--json"}));
  };
  const Json measured = answer("my card");
  EXPECT_EQ(measured.at("provenance"), "runs");
  for (const char* name : {"Mine", "MINE", "My-Card"}) EXPECT_EQ(answer(name), measured) << name;
}

}  // namespace
}  // namespace perfpred
