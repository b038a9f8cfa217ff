// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/time_regressor.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <cctype>
#include <cmath>
#include <filesystem>
#include <fstream>
#include <set>

#include "ann_of_one_answer.h"
#include "made_up_rows.h"
#include "refusal.h"
#ifdef PERFPRED_WITH_XGBOOST
#include <perfpred/xgboost/trees.h>
#endif

namespace perfpred {
namespace {

class EveryKind : public ::testing::TestWithParam<const char*> {
#ifdef PERFPRED_WITH_XGBOOST
  void SetUp() override { enable_xgboost(); }
#endif
  AnnOfOneAnswer ann_;
};

TEST_P(EveryKind, SavesAndLoadsBitIdentically) {
  const std::string file = scratch(GetParam());
  TimeRegressor model = TimeRegressor::fit(made_up_rows(), {.kind = GetParam(), .seed = 4});
  if (model.kind() == "hybrid") {
    const Workload seen = Workload::cifar_cnn(3, 32, 512);
    ASSERT_TRUE(model.observe(std::vector<perfpred::Run>{run_of(seen, made_up_time(seen, 0.004))}).empty());
  }
  model.save(file);
  const TimeRegressor again = TimeRegressor::load(file);
  for (const int batch : {32, 50, 777, 4096}) {
    const Workload workload = Workload::cifar_cnn(5, 48, batch);
    const Prediction a = model.predict(workload), b = again.predict(workload);
    EXPECT_TRUE(same(a.time_sec, b.time_sec));
    EXPECT_EQ(a.reason, b.reason);
    EXPECT_EQ(a.model_id, b.model_id);
    EXPECT_EQ(a.training_set_id, b.training_set_id);
  }
  const std::vector<AggregateRow> before = model.fitted_rows(), after = again.fitted_rows();
  ASSERT_EQ(before.size(), after.size());
  for (std::size_t i = 0; i < before.size(); ++i) {
    EXPECT_EQ(before[i].workload, after[i].workload);
    EXPECT_EQ(before[i].avg_time_mean, after[i].avg_time_mean);
  }
  again.save(file + ".2");
  std::ifstream one(file), two(file + ".2");
  EXPECT_EQ(std::string(std::istreambuf_iterator<char>(one), {}), std::string(std::istreambuf_iterator<char>(two), {}));
  std::filesystem::remove(file);
  std::filesystem::remove(file + ".2");
}

TEST_P(EveryKind, ManyAtOnceEqualsOneByOne) {
  const TimeRegressor model = TimeRegressor::fit(made_up_rows(), {.kind = GetParam(), .seed = 4});
  std::vector<Workload> workloads;
  for (int i = 0; i < 300; ++i) workloads.push_back(Workload::cifar_cnn(2 + i % 4, 16 + i, 32 + 5 * i));
  const std::vector<Prediction> many = model.predict(workloads);
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    EXPECT_NEAR(many[i].time_sec.p95 / model.predict(workloads[i]).time_sec.p95, 1, 1e-9);
    EXPECT_NEAR(many[i].time_sec.p50 / model.predict(workloads[i]).time_sec.p50, 1, 1e-9);
  }
}

/// Pointers to everything in a document; of a list the last item.
void add_pointers(const nlohmann::json& value, const nlohmann::json::json_pointer& at,
                  std::vector<nlohmann::json::json_pointer>& all) {
  if (!at.empty()) all.push_back(at);
  if (value.is_array() && !value.empty()) add_pointers(value.back(), at / (value.size() - 1), all);
  if (!value.is_object()) return;
  for (const auto& [name, item] : value.items()) add_pointers(item, at / name, all);
}

TEST_P(EveryKind, ADamagedFileIsToldByFileAndField) {
  const std::string file = scratch(GetParam());
  TimeRegressor fitted = TimeRegressor::fit(made_up_rows(), {.kind = GetParam(), .seed = 4});
  if (fitted.kind() == "hybrid")
    (void)fitted.observe(std::vector<perfpred::Run>{run_of(made_up_rows()[3].workload, 9)});
  fitted.save(file);
  nlohmann::json changed = nlohmann::json::parse(std::ifstream(file));
  std::vector<nlohmann::json::json_pointer> pointers;
  add_pointers(changed, nlohmann::json::json_pointer(), pointers);
  const std::set<std::string> may_be_null = {"depth", "base_filters", "batch_size", "sample"};
  for (const nlohmann::json::json_pointer& pointer : pointers) {
    std::string name;  // of the field that this is, or is an item of
    for (auto at = pointer; name.empty(); at.pop_back()) {
      if (!std::isdigit(static_cast<unsigned char>(at.back().front()))) name = at.back();
    }
    if (name == "software") continue;                              // nobody reads it
    if (pointer.to_string().starts_with("/ops/model/")) continue;  // op_time_model_test damages those
    const nlohmann::json good = changed.at(pointer);
    for (const nlohmann::json& other :
         {nlohmann::json(), nlohmann::json("text"), nlohmann::json(-1), nlohmann::json(0.5), nlohmann::json(1e300),
          nlohmann::json(400), nlohmann::json::array(), nlohmann::json::array({1}), nlohmann::json::object()}) {
      changed[pointer] = other;
      std::ofstream(file) << changed.dump();
      changed[pointer] = good;
      const std::string complaint = testing::refusal<ModelError>([&] {
        const TimeRegressor model = TimeRegressor::load(file);
        for (const Workload& workload : {model.example(), Workload::cifar_cnn(5, 48, 777)}) {
          const Quantiles sec = model.predict(workload).time_sec;
          EXPECT_TRUE(sec.p05 > 0 && std::isfinite(sec.p95)) << pointer.to_string() << " " << other;
        }
      });
      const bool of_this_type = good.type() == other.type() || (good.is_number() && other.is_number());
      if (complaint.empty() && (of_this_type || (other.is_null() && may_be_null.contains(name)))) continue;
      EXPECT_THAT(complaint, ::testing::AllOf(::testing::StartsWith(file + ": "),
                                              ::testing::Not(::testing::HasSubstr("json.exception"))))
          << pointer.to_string() << " " << other;
      EXPECT_TRUE(of_this_type || complaint.find(name) != std::string::npos) << complaint << " " << pointer.to_string();
    }
  }
  std::filesystem::remove(file);
}

#ifdef PERFPRED_WITH_XGBOOST
const auto kinds = ::testing::Values("hybrid", "linear", "ann", "forest", "boosting");
#else
const auto kinds = ::testing::Values("hybrid", "linear", "ann");
#endif
INSTANTIATE_TEST_SUITE_P(TimeRegressor, EveryKind, kinds);

TEST(TimeRegressor, TheOrderOfRowsInAFileDoesNotMatter) {
  const std::string file = scratch("order");
  const TimeRegressor model = TimeRegressor::fit(made_up_rows());
  model.save(file);
  nlohmann::json json = nlohmann::json::parse(std::ifstream(file));
  for (nlohmann::json& column : json["fitted"]) std::reverse(column.begin(), column.end());
  std::ofstream(file) << json.dump();
  EXPECT_EQ(TimeRegressor::load(file).fitted_rows(), model.fitted_rows());
  std::filesystem::remove(file);
}

TEST(TimeRegressor, NamesInAFileMayHaveAnySpelling) {
  const std::string file = scratch("spelling");
  const std::vector<AggregateRow> rows = as_group(made_up_rows(), 1, [](Workload& w) { w.device = "T4"; });
  TimeRegressor::fit(rows).save(file);
  std::ifstream saved(file);
  std::string text(std::istreambuf_iterator<char>(saved), {});
  for (const auto& [from, to] :
       {std::pair<std::string, std::string>("device=T4", "device=Tesla T4"),
        std::pair<std::string, std::string>(R"("device":"T4")", R"("device":"Tesla T4")"),
        std::pair<std::string, std::string>("network=cifar_cnn", "network=CIFAR_CNN"),
        std::pair<std::string, std::string>(R"("network":"cifar_cnn")", R"("network":"CIFAR_CNN")")}) {
    ASSERT_NE(text.find(from), std::string::npos);
    for (std::size_t at = 0; (at = text.find(from, at)) != std::string::npos; at += to.size())
      text.replace(at, from.size(), to);
  }
  std::ofstream(file) << text;
  TimeRegressor model = TimeRegressor::load(file);
  std::filesystem::remove(file);
  const Workload& known = rows[7].workload;
  EXPECT_TRUE(model.was_fitted_on(known));
  EXPECT_EQ(model.predict(known).reason, DomainViolation::none);
  EXPECT_TRUE(model.observe(std::vector<perfpred::Run>{run_of(known, *rows[7].avg_time_mean)}).empty());
  EXPECT_EQ(model.fitted_rows().size(), rows.size());
  EXPECT_EQ(model.predict(model.on_device(known, "tesla_t4")).reason, DomainViolation::none);
}

TEST(TimeRegressor, FilesOfFormat6AreRead) {
  const std::string file = scratch("six");
  TimeRegressor model = TimeRegressor::fit(made_up_rows());
  model.save(file);
  auto json = nlohmann::json::parse(std::ifstream(file));
  json["format"] = 6;  // which had the op model as an object
  json["ops"]["model"] = nlohmann::json::parse(json["ops"]["model"].get<std::string>());
  std::ofstream(file) << json.dump();
  const TimeRegressor again = TimeRegressor::load(file);
  for (const Workload& asked :
       {Workload::cifar_cnn(3, 32, 128), Workload::zoo("resnet50", 32).trained_like(Workload::cifar_cnn(1, 1, 1))}) {
    Workload on = asked;
    on.device = "T4";
    EXPECT_EQ(model.predict(on).time_sec.p50, again.predict(on).time_sec.p50);
  }
  std::filesystem::remove(file);
}

TEST(TimeRegressor, BadModelFilesAreNamed) {
  const std::string file = scratch("bad");
  TimeRegressor::fit(made_up_rows()).save(file);
  const nlohmann::json good = nlohmann::json::parse(std::ifstream(file));
  const auto complaint = [&](const nlohmann::json& json) {
    std::ofstream(file) << json.dump();
    return testing::refusal<ModelError>([&] { (void)TimeRegressor::load(file); });
  };
  for (const char* name : {"format", "kind", "workloads", "fitted", "groups", "training_set", "model_id"}) {
    nlohmann::json json = good;
    json.erase(name);
    EXPECT_THAT(complaint(json), ::testing::HasSubstr(name));
  }
  nlohmann::json json = good;
  json["format"] = 1;
  EXPECT_THAT(complaint(json), ::testing::HasSubstr("format 1 is not known"));
  json = good;
  json["workloads"]["rows"][0].erase(0);
  EXPECT_THAT(complaint(json), ::testing::HasSubstr("rows"));
  json = good;
  json["fitted"]["workload"][3] = 1'000'000;
  EXPECT_THAT(complaint(json), ::testing::HasSubstr("workload"));
  json = good;
  json["fitted"]["n"].erase(0);
  EXPECT_THAT(complaint(json), ::testing::HasSubstr("\"n\" is not as long as"));
  json = good;
  json["groups"][0]["model"].erase("physics");
  EXPECT_THAT(complaint(json), ::testing::HasSubstr("physics"));
  for (const nlohmann::json& other : {nlohmann::json("{"), nlohmann::json("[]"), nlohmann::json(3)}) {
    json = good;
    json["ops"]["model"] = other;
    EXPECT_THAT(complaint(json), ::testing::HasSubstr("the text of an op model"));
  }
  EXPECT_THAT(complaint(nlohmann::json::array()), ::testing::HasSubstr("not a model file"));
  std::filesystem::remove(file);
  EXPECT_THROW((void)TimeRegressor::load(file), Error);
}

}  // namespace
}  // namespace perfpred
