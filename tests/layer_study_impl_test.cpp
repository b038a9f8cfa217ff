// SPDX-License-Identifier: Apache-2.0
#include "evaluate/layer_study.h"

#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <random>
#include <string>

#include "refusal.h"
#include "temporary_folder.h"
#include "text/csv.h"
#include "tools/layer_report.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;

/// Linear layers whose steps take a picosecond for each product of an input with a weight.
std::vector<LayerRow> linear_layers(std::size_t count) {
  std::mt19937 random(7);
  std::vector<LayerRow> rows(count);
  for (LayerRow& row : rows) {
    row.layer.batch_size = 1 + static_cast<std::int64_t>(random() % 64);
    row.layer.in = 8 + static_cast<std::int64_t>(random() % 1000);
    row.layer.out = 8 + static_cast<std::int64_t>(random() % 1000);
    row.device = "T4";
    row.step_sec = 1e-12 * static_cast<double>(row.layer.batch_size * row.layer.in * row.layer.out);
    row.forward_sec = *row.step_sec / 3;
  }
  return rows;
}

LayerStudyOptions linear_only() {
  LayerStudyOptions options;
  options.kinds = {"linear"};
  return options;
}

TEST(LayerStudy, ARegressionOfLogarithmsFindsAProductOfSizes) {
  const DeviceCatalogue devices;
  const LayerStudy study = study_layers(linear_layers(60), devices, linear_only());
  ASSERT_EQ(study.scores.size(), 5U);  // all inputs, three without some, test
  for (const LayerScore& score : study.scores) EXPECT_LT(score.mape, 1e-6) << score.by << to_string(score.inputs);
  EXPECT_EQ(study.scores[0].n, 48U);
  EXPECT_EQ(study.scores[4].n, 12U);
  EXPECT_EQ(study.predictions.size(), 12U);
}

TEST(LayerStudy, FeaturesStandBesideTheirDevices) {
  std::vector<LayerRow> rows = linear_layers(2);
  rows[1].device = "a device of nobody";
  const testing::TemporaryFolder folder;
  write_layer_features(folder.file("features.csv"), rows, DeviceCatalogue());
  CsvReader csv(folder.file("features.csv"));
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.text(csv.required("arch")), "Turing");  // NVIDIA's data sheet: 320 GB/s, 40 multiprocessors
  EXPECT_EQ(csv.finite(csv.required("mem_bw_gbs")), 320);
  EXPECT_EQ(csv.finite(csv.required("sms")), 40);
  EXPECT_EQ(csv.finite(csv.required("cores")), 2560);
  EXPECT_EQ(csv.text(csv.required("bus")), "PCIe 3.0 x16");
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(csv.text(csv.required("device")), "a device of nobody");
  EXPECT_EQ(csv.text(csv.required("mem_bw_gbs")), "");
}

TEST(LayerStudy, AModelAnswersTheSameFromItsFile) {
  const DeviceCatalogue devices;
  const LayerStudy study = study_layers(linear_layers(60), devices, linear_only());
  const testing::TemporaryFolder folder;
  study.models.save(folder.file("layers.json"));
  LayerCase layer;
  layer.batch_size = 10;
  layer.in = 100;
  layer.out = 1000;
  const Device t4 = devices.find("T4");
  const LayerModels loaded = LayerModels::load(folder.file("layers.json"));
  EXPECT_NEAR(loaded.predict(layer, t4).p50, 1e-6, 1e-11);
  EXPECT_EQ(loaded.predict(layer, t4).p95, study.models.predict(layer, t4).p95);
  layer.type = LayerType::softmax;
  EXPECT_THAT(testing::refusal([&] { (void)loaded.predict(layer, t4); }), HasSubstr("softmax; it has linear"));
  EXPECT_THROW((void)LayerModels::load(folder.write("bad.json", R"({"kind":"layers","format":1,"layers":{"x":1}})")),
               ModelError);
}

TEST(LayerStudy, DevicesAreLeftOutWhereThereAreSeveral) {
  std::vector<LayerRow> rows = linear_layers(60);
  for (std::size_t i = 0; i < 30; ++i) {
    rows[i].device = "V100-SXM2-16GB";
    rows[i].step_sec = 0.5 * *rows[i].step_sec;
  }
  const LayerStudy study = study_layers(rows, DeviceCatalogue(), linear_only());
  std::vector<std::string> by;
  for (const LayerScore& score : study.scores) by.push_back(score.by);
  EXPECT_THAT(by, ::testing::IsSupersetOf({"without T4", "without V100-SXM2-16GB"}));
}

TEST(LayerStudy, ChartsShowKindsInputsAndRows) {
  const testing::TemporaryFolder folder;
  const LayerStudy study = study_layers(linear_layers(60), DeviceCatalogue(), linear_only());
  const auto charts = layer_charts(folder.write("study.json", to_json(study).dump()));
  ASSERT_EQ(charts.size(), 3U);
  EXPECT_EQ(charts[1].first, "layer_inputs");
  EXPECT_EQ(charts[1].second.series.size(), 4U);  // from sizes to all
  EXPECT_EQ(charts[2].first, "layer_predictions");
  EXPECT_THAT(testing::refusal([&] { (void)layer_charts(folder.write("x.json", "{}")); }), HasSubstr("x.json: is not"));
}

/// A fit may be so wrong that its error is no number, for which JSON has null.
TEST(LayerStudy, ChartsLeaveOutWhatIsNoNumber) {
  const testing::TemporaryFolder folder;
  LayerStudy study = study_layers(linear_layers(60), DeviceCatalogue(), linear_only());
  study.scores[1].mape = HUGE_VAL;
  study.predictions[0].sec.p95 = HUGE_VAL;
  const auto charts = layer_charts(folder.write("study.json", to_json(study).dump()));
  ASSERT_EQ(charts.size(), 3U);
  EXPECT_EQ(charts[1].second.series.size(), 3U);                 // of four
  EXPECT_EQ(charts[2].second.series.back().points.size(), 11U);  // of twelve
}

TEST(LayerStudy, SaysWhatItCannotFit) {
  const DeviceCatalogue devices;
  const auto refusal_of = [&](std::size_t rows, const LayerStudyOptions& options) {
    return testing::refusal([&] { (void)study_layers(linear_layers(rows), devices, options); });
  };
  EXPECT_THAT(refusal_of(24, linear_only()), HasSubstr("25 timed rows"));
  LayerStudyOptions options = linear_only();
  options.kinds = {"spline"};
  EXPECT_THAT(refusal_of(60, options), HasSubstr("spline"));
  options = linear_only();
  options.folds = 1;
  EXPECT_THAT(refusal_of(60, options), HasSubstr("at least 2"));
  EXPECT_THAT(testing::refusal([] { (void)parse_layer_inputs("sizes+colour"); }), HasSubstr("sizes+colour"));
}

}  // namespace
}  // namespace perfpred
