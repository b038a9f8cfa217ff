// SPDX-License-Identifier: Apache-2.0
// What a service answers, without a connection: each route, what it refuses, and that no request is lost, mixed or
// opens a file while models are taught and replaced.
#include <perfpred/answer.h>
#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/step_file.h>
#include <perfpred/time_regressor.h>
#include <perfpred/timeline.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <atomic>
#include <csignal>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <random>
#include <regex>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "child_process.h"
#include "refusal.h"
#include "sample_step.h"
#include "service/former_models.h"
#include "service/request_list.h"
#include "service/service.h"
#include "temporary_folder.h"
#include "tools/json_request.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;
using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

const std::string resnet50 = R"({"id": [7, "a"], "network": "resnet50", "batch_size": 64, "device": "L4"})";

/// A service of the standard model under the name `standard`, and of a file that begins as one under `lab`.
class ServiceTest : public ::testing::Test {
 protected:
  explicit ServiceTest(const ServiceLimits& limits = {})
      : file_(folder_.file("lab.json")),
        models_(files(), {}, [this](const std::string& line) { said_.push_back(line); }),
        service_(models_, metrics_, limits) {}

  HttpResponse post(const std::string& path, const std::string& body, const std::string& query = {}) {
    return service_.answer({"POST", path, query, "application/json; charset=utf-8", body});
  }
  HttpResponse get(const std::string& path, const std::string& query = {}) {
    return service_.answer({"GET", path, query});
  }

  static Json document(const HttpResponse& response, int status = 200) {
    EXPECT_EQ(response.status, status) << response.body;
    EXPECT_EQ(response.content_type, "application/json");
    return Json::parse(response.body);
  }
  static std::string error(const HttpResponse& response, int status = 400) {
    return document(response, status).value("error", "");
  }

  /// Seconds of an epoch of ResNet-50 by `lab`.
  Json epoch() { return document(post("/v1/predict", resnet50, "model=lab"))["time_sec"]; }

  /// A table of one finished run of it.
  std::string finished(double seconds, const std::string& when) {
    const std::string key = document(post("/v1/predict", resnet50))["key"];
    return "key,timestamp_utc,epochs,seconds,outcome\n" + key + "," + when + ",2," + std::to_string(2 * seconds) +
           ",ok\n";
  }

  HttpResponse observe(const std::string& table) {
    return service_.answer({"POST", "/v1/observe", "model=lab", "text/csv", table});
  }

  std::vector<ModelFile> files() {
    TimeRegressor::standard().save(file_);
    return {{"standard", ""}, {"lab", file_}};
  }

  testing::TemporaryFolder folder_;
  std::string file_;
  std::vector<std::string> said_;
  Metrics metrics_;
  ServedModels models_;
  Service service_;
};

TEST_F(ServiceTest, PredictsWhatTheLibraryAnswers) {
  const TimeRegressor model = TimeRegressor::standard();
  const ModelRequests requests(model, {});
  const AskedJob job = read_request(requests, parse_request(resnet50));
  Json expected = Json::parse(json_text(answer(model, job.workload, job.terms)));
  expected["id"] = {7, "a"};
  EXPECT_EQ(document(post("/v1/predict", resnet50)), expected);
}

TEST_F(ServiceTest, GivesEachOfAListAStatusAndItsId) {
  const Json said =
      document(post("/v1/predict", "[" + resnet50 + R"(, {"id": "b", "network": "resnet51"}, [], {"id": 3,)" +
                                       resnet50.substr(resnet50.find("\"network")) + "]"));
  ASSERT_EQ(said.size(), 4);
  Json single = document(post("/v1/predict", resnet50));
  single["status"] = 200;
  EXPECT_EQ(said[0], single);
  EXPECT_EQ(said[1]["status"], 400);
  EXPECT_EQ(said[1]["id"], "b");
  EXPECT_THAT(said[1]["error"].get<std::string>(), HasSubstr("resnet51"));
  EXPECT_EQ(said[2]["status"], 400);
  EXPECT_EQ(said[3]["status"], 200);
  EXPECT_EQ(said[3]["id"], 3);
  EXPECT_EQ(document(post("/v1/predict", " [ ] ")), Json::array());
}

TEST_F(ServiceTest, RefusesListsThatAreNone) {
  EXPECT_THAT(error(post("/v1/predict", "[{}")), HasSubstr("cut off"));
  EXPECT_THAT(error(post("/v1/predict", "[{}] x")), HasSubstr("followed by"));
  EXPECT_THAT(error(post("/v1/predict", "[{}]\"x\"")), HasSubstr("followed by"));
  EXPECT_THAT(error(post("/v1/predict", "")), HasSubstr("a request is a JSON object"));
  std::string many = "[{}";
  for (int i = 0; i < 1000; ++i) many += ",{}";
  EXPECT_THAT(error(post("/v1/predict", many + "]")), HasSubstr("more than 1000 requests"));
}

/// Against the JSON library's own reading of random documents.
TEST(RequestList, SplitsAsTheJsonLibraryReads) {
  std::mt19937 random(1);
  const std::vector<Json> pieces = {1,   "a,]\"\\[", nullptr, Json::array(), Json::object(), {{"k]", {1, {2, "}"}}}},
                                    -2.5};
  for (int round = 0; round < 300; ++round) {
    Json list = Json::array();
    for (std::size_t i = random() % 6; i > 0; --i)
      list.push_back({pieces[random() % 7], {{"x", pieces[random() % 7]}}});
    const std::string text = list.dump(round % 2 == 0 ? -1 : 2);
    const auto elements = split_list(text, 10);
    ASSERT_EQ(elements.size(), list.size()) << text;
    for (std::size_t i = 0; i < list.size(); ++i) EXPECT_EQ(Json::parse(elements[i]), list[i]);
  }
}

TEST(RequestList, RefusesTextsOfManyValues) {
  const auto list = [](const char* value, int count) {
    std::string text = "[";
    for (int i = 0; i < count; ++i) text += std::string(i > 0 ? "," : "") + value;
    return text + "]";
  };
  EXPECT_NO_THROW(check_json_memory(list("1024", 1'000'000)));
  EXPECT_THROW(check_json_memory(list("{}", 100'000)), InputError);
  EXPECT_THROW(check_json_memory(list("[]", 100'000)), InputError);
  EXPECT_NO_THROW(check_json_memory(resnet50));
  EXPECT_NO_THROW(check_json_memory(testing::linear_step().dump()));
}

TEST_F(ServiceTest, OpensNoFileOfARequest) {
  const std::string path = folder_.write("there.json", "{}");
  const auto with = [&](const std::string& field, const Json& value) {
    Json request = Json::parse(resnet50);
    if (field == "step" || field == "config") request.erase("network");
    request[field] = value;
    return request.dump();
  };
  for (const char* field : {"step", "config", "lengths", "prices"}) {
    EXPECT_THAT(error(post("/v1/predict", with(field, path))), HasSubstr("a service opens no file")) << field;
    EXPECT_THAT(document(post("/v1/predict", "[" + with(field, path) + "]"))[0]["error"].get<std::string>(),
                HasSubstr("a service opens no file"));
    EXPECT_THAT(error(post("/v1/layouts", with(field, path))), HasSubstr("a service opens no file")) << field;
  }
  for (const char* field : {"runs_agg", "device_file", "out", "prices"}) {
    EXPECT_THAT(error(post("/v1/plan", Json{{field, path}, {"budget_sec", 60}}.dump())),
                HasSubstr("a service opens no file"));
  }
  const Json table = {{"rows", "config,batch_size,device\n" + path + ",8,L4\n"}, {"budget_sec", 60}, {"epochs", 1}};
  EXPECT_THAT(error(post("/v1/plan", table.dump())), HasSubstr("a service opens no file"));
}

TEST_F(ServiceTest, TakesAConfigAsItsTextAndAsAnObject) {
  const std::string path = std::string(PERFPRED_SOURCE_DIR) + "/tests/data/transformers/llama.json";
  const std::string text = testing::slurp(path);
  Json request = {{"input", 128}, {"batch_size", 4}, {"device", "L4"}, {"network", add_config(path)}};
  const Json by_path = document(post("/v1/predict", request.dump()));
  request.erase("network");
  request["config"] = text;
  EXPECT_EQ(document(post("/v1/predict", request.dump())), by_path);
  request["config"] = Json::parse(text);
  EXPECT_EQ(document(post("/v1/predict", request.dump()))["step_sec"], by_path["step_sec"]);
  request["config"] = "{";
  EXPECT_THAT(error(post("/v1/predict", request.dump())), HasSubstr("config: "));
}

TEST_F(ServiceTest, TakesAStepFileAsItsText) {
  Json step = testing::linear_step();
  step["notes"] = {"communication is missing"};
  const std::string path = folder_.write("step.json", step.dump(2));
  Json request = {{"network", add_graph(path).name()}, {"batch_size", 16}, {"device", "L4"}, {"precision", "fp32"}};
  const Json by_path = document(post("/v1/predict", request.dump()));
  request = {{"step", step.dump(2)}, {"batch_size", 16}, {"device", "L4"}};
  Json said = document(post("/v1/predict", request.dump()));
  EXPECT_EQ(said["notes"], Json({"step: communication is missing"}));
  said.erase("notes");
  EXPECT_EQ(said, by_path);
  request["step"] = "{\"format\": 2}";
  EXPECT_THAT(error(post("/v1/predict", request.dump())), HasSubstr("step: is not a step file of format 1"));
}

TEST_F(ServiceTest, RefusesWhatIsNoRequestOfARoute) {
  EXPECT_THAT(error(get("/v1/nosuch"), 404), HasSubstr("/v1/openapi.json"));
  const HttpResponse wrong_method = get("/v1/predict");
  EXPECT_THAT(error(wrong_method, 405), HasSubstr("takes POST"));
  EXPECT_THAT(wrong_method.headers, Contains(std::pair<std::string, std::string>("Allow", "POST")));
  // A page of another site can send these without asking, but not application/json.
  for (const char* type : {"", "text/plain", "application/x-www-form-urlencoded", "multipart/form-data", "text/csv"}) {
    EXPECT_THAT(error(service_.answer({"POST", "/v1/predict", "", type, resnet50}), 415),
                HasSubstr("application/json"));
  }
  EXPECT_THAT(error(post("/v1/predict", resnet50, "model=nosuch"), 404), HasSubstr("there are standard, lab"));
  EXPECT_THAT(error(post("/v1/predict", resnet50, "modell=lab")), HasSubstr("?modell is not known"));
  EXPECT_EQ(document(post("/v1/predict", resnet50, "model=l%61b")), document(post("/v1/predict", resnet50)));
}

TEST_F(ServiceTest, ATraceIsThatOfTheLibrary) {
  const TimeRegressor model = TimeRegressor::standard();
  const ModelRequests requests(model, {});
  const AskedJob job = read_request(requests, parse_request(resnet50));
  const Json said = document(post("/v1/trace", resnet50));
  EXPECT_EQ(said, Json::parse(trace_json(timeline(model, job.workload, job.terms.job))));
  EXPECT_EQ(said["otherData"]["step_sec"], document(post("/v1/predict", resnet50))["step_sec"]);
  EXPECT_THAT(error(post("/v1/trace", R"({"network": "resnet51"})")), HasSubstr("resnet51"));
  EXPECT_THAT(error(post("/v1/trace", R"({"step": "/etc/passwd"})")), HasSubstr("a service opens no file"));
}

TEST_F(ServiceTest, ATraceOfTooManyKernelsHasThePassesAlone) {
  const Json said = document(post("/v1/trace", R"({"network": "llama3.1_70b", "input": 4096, "batch_size": 64,
      "accumulate": 16, "precision": "bf16", "device": "H100-SXM5-80GB"})"));
  std::set<std::string> passes;
  double end = 0;
  for (const Json& event : said["traceEvents"]) {
    if (event["ph"] != "X") continue;
    passes.insert(event["name"]);
    end = std::max(end, event["ts"].get<double>() + event["dur"].get<double>());
  }
  EXPECT_THAT(passes, ::testing::IsSupersetOf({"forward 1", "backward 16", "update"}));
  EXPECT_LE(passes.size(), 3 * 16 + 1) << "forward, loss and backward of each micro-batch, and the update";
  EXPECT_NEAR(end, 1e6 * said["otherData"]["step_sec"]["p50"].get<double>(), 1e-6 * end);
  EXPECT_THAT(said["otherData"]["simplified"].back().get<std::string>(), HasSubstr("too many kernels"));
}

TEST_F(ServiceTest, LayoutsAndPlansAreThoseOfTheLibrary) {
  const Json ranked = document(post("/v1/layouts", R"({"id": 1, "network": "gpt2", "input": 512, "batch_size": 32,
      "device": "A100-SXM4-80GB", "precision": "bf16", "gpus": 8, "top": 3})"));
  EXPECT_EQ(ranked["layouts"].size(), 3);
  EXPECT_EQ(ranked["id"], 1);
  const std::string jobs = R"("rows": {"id": ["a", "b"], "network": ["resnet18", "resnet50"], "batch_size": [64, 64],
      "device": ["L4", "L4"], "value": [1, 3]}, "epochs": 1)";
  const Json plan = document(post("/v1/plan", "{\"id\": \"p\", \"budget_sec\": \"1-0\", " + jobs + "}"));
  EXPECT_EQ(plan["n"], 2);
  EXPECT_EQ(plan["value"], 4);
  EXPECT_EQ(plan["id"], "p");
  EXPECT_THAT(error(post("/v1/plan",
                         "{\"budget_sec\": 5, \"objective\": \"cover-depth\", \"rows\": \"network,depth,"
                         "base_filters,batch_size,device,value\\ncifar_cnn,1,8,32,L4,1\\ncifar_cnn,2,8,32,L4,1\\n\", "
                         "\"epochs\": 100}"),
                    422),
              HasSubstr("a run of each kind"));
  EXPECT_THAT(error(post("/v1/plan", "{\"budget_sec\": 5}")), HasSubstr("rows"));
  EXPECT_THAT(error(post("/v1/plan", "{\"budget_sec\": 5, \"nosuch\": 1, " + jobs + "}")), HasSubstr("nosuch"));
}

TEST_F(ServiceTest, WhatItObservesIsInTheFileWhenItAnswers) {
  const Json before = epoch();
  const double measured = before["p50"].get<double>() * 1.1;
  const Json done = document(observe(finished(measured, "2026-01-01T00:00:00Z")));
  EXPECT_EQ(done["observed"], 1);
  EXPECT_EQ(done["set_aside"], Json::array());
  const Json after = epoch();
  EXPECT_LT(after["p95"].get<double>() / after["p05"].get<double>(),
            before["p95"].get<double>() / before["p05"].get<double>());
  const TimeRegressor read = TimeRegressor::load(file_);
  const ModelRequests requests(read, {});
  EXPECT_EQ(read.predict(read_request(requests, parse_request(resnet50)).workload).time_sec.p50,
            after["p50"].get<double>());
  EXPECT_EQ(document(observe(finished(measured, "2026-01-01T00:00:00Z")))["observed"], 0) << "observed before";
  EXPECT_EQ(document(get("/v1/models"))["models"][1]["rows"], 1);
}

/// A file of runs that lacks a column is of CIFAR-10; whoever asks for the network means its own samples.
TEST_F(ServiceTest, ARunOfANetworkSaysWhatItWasTrainedOn) {
  const auto with = [&](const std::string& more) {
    return post("/v1/observe",
                R"({"rows": {"network": ["resnet50"], "batch_size": [64], "device": ["L4"], "precision": ["bf16"],
                    "epochs": [1], "seconds": [2600])" +
                    more + "}}",
                "model=lab");
  };
  EXPECT_THAT(error(with("")), HasSubstr("rows: column input is missing"));
  EXPECT_THAT(error(with(R"(, "input": ["3x224x224"], "classes": [1000])")),
              HasSubstr("column train_images is missing"));
  EXPECT_EQ(document(with(R"(, "input": ["3x224x224"], "classes": [1000], "train_images": [1281167])"))["observed"], 1);
}

TEST_F(ServiceTest, WhatIsObservedChangesNoDefault) {
  const std::string other =
      "network,batch_size,device,precision,input,classes,train_images,optimizer,epochs,seconds,outcome\n"
      "resnet50,64,L4,bf16,3x512x512,10,5000,sgd,10,570,ok\n";
  const Json before = document(post("/v1/predict", resnet50, "model=lab"));
  ASSERT_EQ(document(observe(other))["observed"], 1);
  const Json after = document(post("/v1/predict", resnet50, "model=lab"));
  EXPECT_EQ(after["key"], before["key"]);
  EXPECT_EQ(after["assumed"], before["assumed"]);
  const TimeRegressor read = TimeRegressor::load(file_);
  EXPECT_EQ(
      ModelRequests(read, {}).of_fields({{"network", {"resnet50"}}, {"batch_size", {"64"}}, {"device", {"L4"}}}).key(),
      before["key"]);
}

TEST_F(ServiceTest, ObservesATableInJsonAndRefusesOthers) {
  const std::string table = finished(epoch()["p50"].get<double>(), "2026-01-01T00:00:00Z");
  EXPECT_EQ(document(post("/v1/observe", Json{{"rows", table}}.dump(), "model=lab"))["observed"], 1);
  EXPECT_THAT(error(post("/v1/observe", Json{{"rows", table}}.dump(), "model=standard"), 409),
              HasSubstr("has no file"));
  EXPECT_THAT(error(observe("key,outcome\n")), HasSubstr("rows:1: column \"avg_time_sec\" is missing"));
  EXPECT_THAT(error(post("/v1/observe", R"({"runs": "/etc/passwd"})", "model=lab")),
              HasSubstr("\"runs\" is not known"));
}

TEST_F(ServiceTest, CountsRunsOutsideTheirInterval) {
  const Json expected = epoch();
  const double inside = expected["p50"], outside = expected["p95"].get<double>() * 1.05;
  (void)observe(finished(inside, "2026-01-01T00:00:00Z"));
  EXPECT_THAT(get("/metrics").body, HasSubstr("perfpred_observed_outside_interval_ratio{model=\"lab\"} 0\n"));
  std::filesystem::remove(file_);
  TimeRegressor::standard().save(file_);
  models_.reload_replaced();
  (void)observe(finished(outside, "2026-01-02T00:00:00Z"));
  const std::string metrics = get("/metrics").body;
  EXPECT_THAT(metrics, HasSubstr("perfpred_observed_runs_total{model=\"lab\"} 2\n"));
  EXPECT_THAT(metrics, HasSubstr("perfpred_observed_outside_interval_ratio{model=\"lab\"} 0.5\n"));
}

/// As on a full disk: the file may not grow so far.
TEST_F(ServiceTest, AFullDiskLosesNothing) {
  const std::string before = testing::slurp(file_), table = finished(1000, "2026-01-01T00:00:00Z");
  const int code = testing::exit_code_of([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    const HttpResponse response = observe(table);
    return response.status == 500 && response.body.find("lab.json") != std::string::npos ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(testing::slurp(file_), before);
  EXPECT_EQ(folder_.entries(), 1) << "a part of a file is left";
}

TEST_F(ServiceTest, ServesAReplacedFileAndKeepsTheLastGoodOne) {
  const Json before = epoch();
  const auto kept = models_.find("lab");
  {
    TimeRegressor other = TimeRegressor::standard();
    const std::string table = finished(before["p50"].get<double>() * 1.2, "2026-01-01T00:00:00Z");
    testing::TemporaryFolder folder;
    other.save(folder.file("lab.json"));
    ServedModels taught({{"lab", folder.file("lab.json")}}, {}, [](const std::string&) {});
    Metrics metrics;
    ASSERT_EQ(Service(taught, metrics, {}).answer({"POST", "/v1/observe", "", "text/csv", table}).status, 200);
    std::filesystem::copy_file(folder.file("lab.json"), file_, std::filesystem::copy_options::overwrite_existing);
  }
  EXPECT_EQ(epoch(), before) << "nobody has looked yet";
  models_.reload_replaced();
  const Json after = epoch();
  EXPECT_NE(after, before);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("model lab is read again")));
  EXPECT_EQ(kept->regressor.fitted_rows().size(), 0) << "who has a model keeps it";

  folder_.write("lab.json", testing::slurp(file_).substr(0, 5000));  // half written
  for (int look = 0; look < 3; ++look) models_.reload_replaced();
  EXPECT_EQ(epoch(), after);
  EXPECT_THAT(said_, ElementsAre(HasSubstr("read again"), HasSubstr("model lab stays as it was: " + file_)));
  std::filesystem::remove(file_);
  for (int look = 0; look < 3; ++look) models_.reload_replaced();
  EXPECT_EQ(epoch(), after);
  EXPECT_EQ(said_.size(), 3);
}

/// A service that is taught, and goes back.
class RollBack : public ServiceTest {
 protected:
  /// Teaches it a run of which it learns; @returns what it says of an epoch then.
  Json teach(int day) {
    const double sec = epoch()["p50"].get<double>() * 1.05;
    EXPECT_EQ(document(observe(finished(sec, "2026-01-0" + std::to_string(day) + "T00:00:00Z")))["observed"], 1);
    return epoch();
  }
  HttpResponse back(const std::string& body = "{}") { return post("/v1/rollback", body, "model=lab"); }
  Json former() { return document(get("/v1/models"))["models"][1]["former"]; }
  std::string version(std::size_t place) { return file_ + "." + former().at(place).get<std::string>(); }
};

TEST_F(RollBack, GoesBackOneVersionAfterTheOther) {
  EXPECT_EQ(former(), Json::array());
  const Json first = epoch(), second = teach(1), third = teach(2);
  const std::string latest = testing::slurp(file_);
  const Json versions = former();
  ASSERT_EQ(versions.size(), 2);
  EXPECT_GT(versions[0], versions[1]);
  Json said = document(back());
  EXPECT_EQ(said["to"], versions[0]);
  EXPECT_EQ(said["former"], Json::array({versions[1]}));
  EXPECT_EQ(epoch(), second);
  EXPECT_EQ(testing::slurp(file_ + ".rolled_back"), latest);
  said = document(back());
  EXPECT_EQ(said["to"], versions[1]);
  EXPECT_EQ(epoch(), first);
  EXPECT_EQ(testing::slurp(file_), TimeRegressor::standard().text());
  EXPECT_THAT(error(back(), 409), HasSubstr("no former version"));
  EXPECT_EQ(teach(1), second) << "what was rolled back may be taught again";
}

TEST_F(RollBack, GoesBackToATime) {
  const Json first = epoch();
  (void)teach(1);
  (void)teach(2);
  const Json oldest = former()[1];
  EXPECT_THAT(error(back(R"({"to": "../lab.json"})"), 409), HasSubstr(oldest.get<std::string>()));
  EXPECT_THAT(error(back(R"({"time": "now"})")), HasSubstr("\"time\" is not known"));
  EXPECT_EQ(document(back(Json{{"to", oldest}}.dump()))["former"], Json::array());
  EXPECT_EQ(epoch(), first);
  EXPECT_THAT(error(post("/v1/rollback", "{}"), 409), HasSubstr("has no file"));
}

TEST_F(RollBack, LeavesOutVersionsThatAreNoModels) {
  const Json first = epoch();
  (void)teach(1);
  (void)teach(2);
  const std::string damaged = former()[0];
  folder_.write("lab.json." + damaged, testing::slurp(version(0)).substr(0, 5000));
  EXPECT_THAT(error(back(Json{{"to", damaged}}.dump()), 409), HasSubstr("version " + damaged));
  (void)document(back());
  EXPECT_EQ(epoch(), first);
  EXPECT_THAT(said_, Contains(HasSubstr("version " + damaged + " of model lab is left out: ")));
}

TEST_F(RollBack, PutsBackWhatIsServedIfTheFileIsDamaged) {
  const Json taught = teach(1);
  const std::string good = testing::slurp(file_), half = good.substr(0, good.size() / 2);
  folder_.write("lab.json", half);
  models_.reload_replaced();
  EXPECT_EQ(epoch(), taught);
  EXPECT_THAT(error(observe(finished(taught["p50"], "2026-01-05T00:00:00Z")), 500), HasSubstr(file_));
  EXPECT_THAT(
      [&] {
        ServedModels({{"lab", file_}}, {}, [](const std::string&) {});
      },
      ::testing::ThrowsMessage<ModelError>(HasSubstr("; before it was " + version(0))));
  EXPECT_EQ(document(back())["to"], Json());
  EXPECT_EQ(testing::slurp(file_), good);
  EXPECT_EQ(testing::slurp(file_ + ".rolled_back"), half);
  std::filesystem::remove(file_);
  EXPECT_EQ(document(back())["to"], Json());
  EXPECT_EQ(testing::slurp(file_), good);
}

TEST_F(RollBack, KeepsWhatAReplacedFileHad) {
  const Json first = epoch();
  const std::string taught = [&] {
    testing::TemporaryFolder folder;
    TimeRegressor::standard().save(folder.file("lab.json"));
    ServedModels others({{"lab", folder.file("lab.json")}}, {}, [](const std::string&) {});
    Metrics metrics;
    (void)Service(others, metrics, {})
        .answer({"POST", "/v1/observe", "", "text/csv",
                 finished(first["p50"].get<double>() * 1.05, "2026-01-01T00:00:00Z")});
    return testing::slurp(folder.file("lab.json"));
  }();
  folder_.write("next.json", taught);
  std::filesystem::rename(folder_.file("next.json"), file_);
  models_.reload_replaced();
  EXPECT_NE(epoch(), first);
  EXPECT_EQ(document(back())["former"], Json::array());
  EXPECT_EQ(epoch(), first);
}

TEST_F(RollBack, AFullDiskLeavesTheFile) {
  (void)teach(1);
  const std::string before = testing::slurp(file_);
  const int code = testing::exit_code_of([&] {
    std::signal(SIGXFSZ, SIG_IGN);
    const rlimit small{1000, 1000};
    ::setrlimit(RLIMIT_FSIZE, &small);
    return back().status == 500 ? 0 : 1;
  });
  EXPECT_EQ(code, 0);
  EXPECT_EQ(testing::slurp(file_), before);
  EXPECT_EQ(former().size(), 1);
  EXPECT_EQ(folder_.entries(), 2) << "a part of a file is left";
}

/// Against the rule in words: the ten newest, and the last one of each of the ten newest days.
TEST(FormerModels, KeepTheNewestAndTheLastOfEachDay) {
  const testing::TemporaryFolder folder;
  std::vector<std::string> all;
  for (int day = 10; day < 30; ++day) {
    for (const char* hour : {"03", "12", "21"})
      all.push_back("lab.json.202601" + std::to_string(day) + "T" + hour + "0000.000Z");
  }
  for (const std::string& name : all) folder.write(name, name);
  folder.write("lab.json.20260101T000000.000", "another's");
  folder.write("lab.json.rolled_back", "another's");
  const FormerModels former(folder.file("lab.json"));
  former.keep("of today");
  std::set<std::string> expected(all.end() - 9, all.end());  // and that of today
  for (int day = 21; day < 30; ++day) expected.insert("lab.json.202601" + std::to_string(day) + "T210000.000Z");
  std::vector<std::string> times = former.times();
  EXPECT_EQ(testing::slurp(former.file(times.front())), "of today");
  std::set<std::string> kept;
  for (auto time = times.begin() + 1; time != times.end(); ++time) kept.insert("lab.json." + *time);
  EXPECT_EQ(kept, expected);
  EXPECT_EQ(folder.entries(), expected.size() + 3);
  former.keep("of today");
  EXPECT_EQ(former.times(), times) << "the newest has it";
  folder.write("lab.json.29990101T000000.000Z", "the clock was wrong");
  former.keep("later");
  EXPECT_EQ(former.times().front(), "29990101T000000.001Z");
}

/// While one thread swaps two models and another observes, every answer is that of a whole model.
TEST_F(ServiceTest, NoRequestIsLostOrMixedWhileModelsChange) {
  const std::string list = "[" + resnet50 + "," + resnet50 + "," + resnet50 + "]";
  std::atomic<bool> done = false;
  std::thread swaps([&] {
    const std::string text = TimeRegressor::standard().text();
    while (!done) {
      folder_.write("next.json", text);
      std::filesystem::rename(folder_.file("next.json"), file_);
      models_.reload_replaced();
    }
  });
  std::thread teaches([&] {
    const double sec = epoch()["p50"];
    for (int i = 10; i < 20; ++i) (void)observe(finished(sec, "2026-01-01T00:00:" + std::to_string(i) + "Z"));
    done = true;
  });
  int asked = 0;
  for (; !done || asked < 20; ++asked) {
    const Json said = document(post("/v1/predict", list, "model=lab"));
    ASSERT_EQ(said.size(), 3);
    ASSERT_EQ(said[0]["status"], 200) << said[0];
    ASSERT_EQ(said[0], said[1]) << "of one request, answered by two models";
    ASSERT_EQ(said[0], said[2]);
  }
  swaps.join();
  teaches.join();
}

TEST_F(ServiceTest, SaysWhatItKnows) {
  const Json models = document(get("/v1/models"))["models"];
  ASSERT_EQ(models.size(), 2);
  EXPECT_EQ(models[0]["name"], "standard");
  EXPECT_EQ(models[0]["observes"], false);
  EXPECT_EQ(models[1]["observes"], true);
  std::set<std::string> devices;
  const Json catalogue = document(get("/v1/devices"));
  for (const Json& device : catalogue["devices"]) devices.insert(device["name"]);
  EXPECT_THAT(devices, Contains("H200-SXM-141GB"));
  EXPECT_EQ(document(get("/v1/networks", "word=wide_resnet50_2"))["networks"][0]["params"], 68883240);  // torchvision's
  EXPECT_EQ(document(get("/v1/fields")), Json::parse(request_fields().dump()));
  EXPECT_EQ(document(get("/healthz"))["status"], "ok");
}

TEST_F(ServiceTest, CountsRequests) {
  (void)post("/v1/predict", resnet50);
  (void)post("/v1/predict", "{}");
  (void)get("/whatever");
  const HttpResponse metrics = get("/metrics");
  EXPECT_THAT(metrics.content_type, HasSubstr("text/plain; version=0.0.4"));
  EXPECT_THAT(metrics.body, HasSubstr("perfpred_requests_total{route=\"/v1/predict\",status=\"200\"} 1\n"));
  EXPECT_THAT(metrics.body, HasSubstr("perfpred_requests_total{route=\"/v1/predict\",status=\"400\"} 1\n"));
  EXPECT_THAT(metrics.body, HasSubstr("perfpred_requests_total{route=\"other\",status=\"404\"} 1\n"));
  EXPECT_THAT(metrics.body, HasSubstr("perfpred_request_seconds_bucket{route=\"/v1/predict\",le=\"+Inf\"} 2\n"));
  const std::regex line(R"(# (HELP|TYPE) \w+ .+|\w+(\{\w+="[^"]*"(,\w+="[^"]*")*\})? [-+.e\d]+)");
  std::istringstream lines(metrics.body);
  for (std::string text; std::getline(lines, text);) EXPECT_TRUE(std::regex_match(text, line)) << text;
}

/// The hand-written document says what the service does.
TEST_F(ServiceTest, OpenApiIsTrue) {
  const Json api = document(get("/v1/openapi.json"));
  std::set<std::string> written, served;
  for (const auto& [path, methods] : api["paths"].items()) {
    for (const auto& method : methods.items()) written.insert(method.key() + " " + path);
  }
  for (const Service::Route& route : Service::routes()) {
    served.insert((route.method == "GET" ? "get " : "post ") + std::string(route.path));
  }
  EXPECT_EQ(written, served);

  std::set<std::string> fields = {"id"}, properties;
  const Json known_fields = request_fields();
  for (const Json& field : known_fields["fields"]) fields.insert(field["name"]);
  const Json& schemas = api["components"]["schemas"];
  for (const auto& property : schemas["Request"]["properties"].items()) properties.insert(property.key());
  EXPECT_EQ(properties, fields);

  const Json& known = schemas["Answer"]["properties"];
  for (const std::string more : {R"("epochs": 2, "price_per_hour": 3, "budget_sec": 9000, "quantiles": 0.9)",
                                 R"("batch_size": 65536)", R"("gpus_per_node": 2)"}) {
    Json asked = Json::parse("{" + more + "}");
    asked.update(Json::parse(resnet50));
    if (more.find("batch_size") != std::string::npos) asked["batch_size"] = 65536;
    const Json said = document(post("/v1/predict", asked.dump()));
    for (const auto& item : said.items()) EXPECT_TRUE(known.contains(item.key())) << item.key();
    for (const Json& name : schemas["Answer"]["required"]) EXPECT_TRUE(said.contains(name.get<std::string>())) << name;
    for (const auto& item : said["memory"].items()) {
      EXPECT_TRUE(known["memory"]["properties"].contains(item.key())) << item.key();
    }
  }
}

/// One file that needs no network.
TEST_F(ServiceTest, ThePageHoldsAllThatItNeeds) {
  const HttpResponse page = get("/");
  EXPECT_EQ(page.status, 200);
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_LT(page.body.size(), 150'000);
  EXPECT_EQ(page.body.find("<<*"), std::string::npos);
  std::string text = std::regex_replace(page.body, std::regex("http://www\\.w3\\.org/2000/svg"), "");
  EXPECT_EQ(text.find("http://"), std::string::npos);
  EXPECT_EQ(text.find("https://"), std::string::npos);
  EXPECT_EQ(text.find("src="), std::string::npos);
}

class HastyService : public ServiceTest {
 protected:
  HastyService() : ServiceTest({.requests = 1000, .answer_sec = 1e-9}) {}
};

TEST_F(HastyService, RefusesTheRestOfAListWhenTimeIsUp) {
  const Json said = document(post("/v1/predict", "[" + resnet50 + "]"));
  ASSERT_EQ(said.size(), 1);
  EXPECT_EQ(said[0]["status"], 503);
  EXPECT_THAT(said[0]["error"].get<std::string>(), HasSubstr("not answered within"));
}

TEST_F(HastyService, EndsASearchForLayoutsWhenTimeIsUp) {
  const HttpResponse late = post("/v1/layouts", R"({"network": "gpt2", "input": 512, "batch_size": 32,
      "device": "A100-SXM4-80GB", "precision": "bf16", "gpus": 8})");
  EXPECT_THAT(error(late, 422), HasSubstr("not ranked within"));
}

TEST(ModelFiles, HaveNames) {
  EXPECT_EQ(parse_model_file("lab=a/m.json").name, "lab");
  EXPECT_EQ(parse_model_file("lab=a/m.json").path, "a/m.json");
  EXPECT_EQ(parse_model_file("a/m.json").name, "m");
  for (const char* wrong : {"", "=m.json", "lab="}) {
    EXPECT_THAT(testing::refusal([&] { (void)parse_model_file(wrong); }), HasSubstr("name=model.json"));
  }
}

}  // namespace
}  // namespace perfpred
