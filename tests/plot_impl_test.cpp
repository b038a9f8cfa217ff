// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <numeric>
#include <regex>
#include <string>

#include "refusal.h"
#include "runs/run_log.h"
#include "sample_rows.h"
#include "temporary_folder.h"
#include "text/parse.h"
#include "tools/chart.h"
#include "tools/plan_chart.h"
#include "tools/plot.h"
#include "tools/study_report.h"
#include "workload/workload_labels.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr const char* predictions_header =
    "network,depth,base_filters,batch_size,input,classes,train_images,optimizer,precision,layout,cuda_graph,device,"
    "threads,time_sec_p05,time_sec_p50,time_sec_p95,images_per_sec_p05,images_per_sec_p50,images_per_sec_p95,in_domain,"
    "reason";

AggregateRow aggregate_row(int depth, int filters, int batch, double sec) {
  AggregateRow row = testing::row_of(Workload::cifar_cnn(depth, filters, batch), sec);
  row.n = 2;
  row.avg_time_std = 0.01 * sec;
  row.thr_std = 500 / sec;
  row.acc_mean = 0.7;
  row.acc_std = 0.01;
  return row;
}

perfpred::Run run_of(double sec, const std::string& began = "") {
  perfpred::Run run;
  run.workload = Workload::cifar_cnn(2, 16, 32);
  run.params = run.workload.params();
  run.timestamp_utc = began;
  run.avg_time_sec = sec;
  run.images_per_sec = 50000 / sec;
  return run;
}

class PlotTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("gnuplot --version > /dev/null 2>&1") != 0) GTEST_SKIP() << "gnuplot is not installed";
  }

  /// A PNG file starts with its signature and a header with a size, and ends with an IEND chunk; an SVG file is one
  /// XML element. Both hold more than an empty page.
  static void expect_pictures(const std::vector<std::string>& files, std::size_t plots) {
    EXPECT_EQ(files.size(), 2 * plots);
    for (const std::string& file : files) {
      const std::string bytes = testing::slurp(file);
      if (file.ends_with(".png")) {
        EXPECT_THAT(bytes, StartsWith(std::string("\x89PNG\r\n\x1a\n\0\0\0\rIHDR", 16))) << file;
        EXPECT_EQ(bytes.substr(bytes.size() - 8, 4), "IEND") << file;
        EXPECT_GT(bytes.size(), 8000U) << file;
      } else {
        EXPECT_THAT(bytes, StartsWith("<?xml")) << file;
        EXPECT_THAT(bytes, HasSubstr("<svg")) << file;
        EXPECT_THAT(bytes.substr(bytes.size() - 16), HasSubstr("</svg>")) << file;
        EXPECT_THAT(bytes, HasSubstr("<path")) << file;
      }
    }
  }

  static std::vector<std::string> stems(const std::vector<std::string>& files) {
    std::vector<std::string> names;
    for (const std::string& file : files) {
      if (file.ends_with(".png")) names.push_back(std::filesystem::path(file).stem());
    }
    return names;
  }

  struct Text {
    double x, y, size;  ///< pixels
    std::string letters;
  };
  /// What an SVG file of gnuplot's says, and where.
  static std::vector<Text> texts(const std::string& file) {
    const std::string drawing = testing::slurp(file);
    const std::regex text(
        R"re(translate\(([0-9.]+),([0-9.]+)\)[^>]*font-size="([0-9.]+)"[^>]*>\s*<text>(?:<tspan[^>]*>)?([^<]*)<)re");
    std::vector<Text> all;
    for (std::sregex_iterator it(drawing.begin(), drawing.end(), text), end; it != end; ++it) {
      all.push_back({std::stod((*it)[1]), std::stod((*it)[2]), std::stod((*it)[3]), (*it)[4]});
    }
    return all;
  }

  testing::TemporaryFolder folder_;
};

TEST_F(PlotTest, AggregateGivesThreePlots) {
  Plotter plotter(folder_.file("new/plots"));
  const std::vector<AggregateRow> rows = {aggregate_row(2, 16, 32, 3.5), aggregate_row(2, 16, 64, 1.9),
                                          aggregate_row(3, 32, 32, 4.1)};
  plotter.aggregate(rows);
  EXPECT_THAT(stems(plotter.files()), ElementsAre("accuracy_time", "throughput_batch", "repeats"));
  expect_pictures(plotter.files(), 3);
  EXPECT_THAT(testing::slurp(folder_.file("new/plots/throughput_batch.svg")), HasSubstr("depth 3, 32 filters"));
}

TEST_F(PlotTest, ThroughputIsOfImagesOrOfSequences) {
  AggregateRow images = aggregate_row(2, 16, 32, 3.5), words = images;
  words.workload = Workload::zoo("gpt2", 8);
  const auto axis_of = [&](const std::vector<AggregateRow>& rows) {
    Plotter(folder_.path()).aggregate(rows);
    return testing::slurp(folder_.file("throughput_batch.svg"));
  };
  EXPECT_THAT(axis_of({images}), HasSubstr("throughput (images/s)"));
  EXPECT_THAT(axis_of({words}), HasSubstr("throughput (sequences/s)"));
  EXPECT_THAT(axis_of({images, words}), HasSubstr("throughput (samples/s)"));
}

TEST_F(PlotTest, RunsReplaceTheirAggregatesRepeats) {
  Plotter plotter(folder_.path());
  plotter.aggregate(std::vector{aggregate_row(2, 16, 32, 3.5)});
  plotter.repeats(std::vector{run_of(3.5), run_of(3.5)});
  EXPECT_THAT(stems(plotter.files()), ElementsAre("accuracy_time", "throughput_batch", "repeats"));
}

TEST_F(PlotTest, OneRowIsEnough) {
  Plotter plotter(folder_.path());
  AggregateRow row = aggregate_row(2, 16, 32, 3.5);
  row.n = 1;
  row.acc_mean = row.acc_std = std::nullopt;
  plotter.aggregate(std::vector{row});
  EXPECT_THAT(stems(plotter.files()), ElementsAre("throughput_batch"));
  expect_pictures(plotter.files(), 1);
}

TEST_F(PlotTest, RepeatsNeedTwoRuns) {
  Plotter plotter(folder_.path());
  std::vector<perfpred::Run> runs = {run_of(3.5)};
  EXPECT_THAT(testing::refusal([&] { plotter.repeats(runs); }), HasSubstr("no repeats"));
  runs.push_back(run_of(3.6));
  plotter.repeats(runs);
  expect_pictures(plotter.files(), 1);
}

TEST_F(PlotTest, ARejectedRunIsNamedAndDoesNotSetTheScale) {
  std::vector<perfpred::Run> runs = {run_of(3.5, "2026-01-01T00:00:00Z"), run_of(3.52, "2026-01-01T01:00:00Z"),
                                     run_of(35, "2026-01-01T02:00:00Z")};
  runs[2].epoch_times = {9, 10, 60};  // its timed epochs disagree
  Plotter plotter(folder_.path());
  plotter.repeats(runs);
  const std::string drawing = testing::slurp(folder_.file("repeats.svg"));
  EXPECT_THAT(drawing, HasSubstr("+897 %"));  // 35 over the mean of the other two, 3.51
  EXPECT_THAT(drawing, HasSubstr("rejected run"));
  EXPECT_THAT(drawing, ::testing::Not(HasSubstr(">200<")));
}

/// Sixty lines in one legend would hide the plot.
TEST_F(PlotTest, ManyLinesBecomePanels) {
  std::vector<AggregateRow> rows;
  for (int depth = 1; depth <= 5; ++depth) {
    for (int filters = 4; filters <= 48; filters += 4)
      rows.push_back(aggregate_row(depth, filters, 32, depth * filters));
  }
  Plotter(folder_.path()).aggregate(rows);
  const std::string drawing = testing::slurp(folder_.file("throughput_batch.svg"));
  std::size_t axes = 0;
  for (std::size_t at = drawing.find(">batch size<"); at != std::string::npos;
       at = drawing.find(">batch size<", at + 1)) {
    ++axes;
  }
  EXPECT_EQ(axes, 10U);  // six of the sixty lines in each
}

TEST_F(PlotTest, EachNamedPointHasANumberThatTheLegendExplains) {
  Chart chart;
  chart.x = chart.y = {.log_base = 10};
  Series crowd = {.label = "measured"};
  for (int i = 0; i < 60; ++i)
    crowd.points.push_back({100 + 0.5 * i, i % 2 == 0 ? 500.0 : 50.0, {}, {}, "network" + std::to_string(i)});
  crowd.points.push_back({400, 500, {}, {}, "on a line with them"});
  crowd.points.push_back({1000, 1000, {}, {}, "alone"});
  chart.series = {crowd};
  draw(chart, folder_.file("crowd"), {.formats = {"svg"}});
  std::vector<int> numbers;
  std::vector<Text> labels;
  for (const Text& text : texts(folder_.file("crowd.svg"))) {
    if (text.size > 13 || !std::regex_match(text.letters, std::regex("[0-9,-]+"))) continue;
    labels.push_back(text);
    const std::regex range("([0-9]+)(-([0-9]+))?");
    for (std::sregex_iterator at(text.letters.begin(), text.letters.end(), range), end; at != end; ++at) {
      const int from = std::stoi((*at)[1]), to = (*at)[3].matched ? std::stoi((*at)[3]) : from;
      for (int number = from; number <= to; ++number) numbers.push_back(number);
    }
  }
  std::sort(numbers.begin(), numbers.end());
  std::vector<int> all(62);
  std::iota(all.begin(), all.end(), 1);
  EXPECT_EQ(numbers, all);
  const std::string drawing = testing::slurp(folder_.file("crowd.svg"));
  for (int i = 0; i < 60; ++i) EXPECT_THAT(drawing, HasSubstr(": network" + std::to_string(i) + "<"));
  EXPECT_THAT(drawing, HasSubstr("62: alone<"));
  for (std::size_t i = 0; i < labels.size(); ++i) {
    for (std::size_t j = 0; j < i; ++j) {
      const Text& left = labels[i].x < labels[j].x ? labels[i] : labels[j];
      const double width = left.size * static_cast<double>(left.letters.size());
      const bool apart = std::abs(labels[i].x - labels[j].x) > width || std::abs(labels[i].y - labels[j].y) > 12;
      EXPECT_TRUE(apart) << labels[i].letters << " and " << labels[j].letters;
    }
  }
}

TEST_F(PlotTest, ALongLegendStandsWhollyBesideTheChart) {
  for (const std::size_t n : {14U, 120U}) {
    Chart chart;
    for (std::size_t i = 0; i < n; ++i) {
      chart.series.push_back({.label = "a rather long name of network " + std::to_string(i),
                              .points = {{1, 1.0 + static_cast<double>(i)}}});
    }
    draw(chart, folder_.file("legend"), {.formats = {"svg"}});
    double right = 0;
    std::vector<Text> legend;
    for (const Text& text : texts(folder_.file("legend.svg"))) {
      if (text.letters.starts_with("a rather")) {
        legend.push_back(text);
      } else {
        right = std::max(right, text.x);  // of the axis' numbers
      }
    }
    ASSERT_EQ(legend.size(), n);
    double before = 0;
    for (const Text& entry : legend) {
      EXPECT_GT(entry.x, right);
      EXPECT_GE(entry.y - before, entry.size);
      before = entry.y;
    }
  }
}

TEST_F(PlotTest, NumbersOfShortRunsOfAPlanDoNotOverlap) {
  Chart chart;
  chart.x.categories = {"device"};
  Series runs = {.label = "run", .style = Series::Style::spans};
  for (int i = 0; i < 100; ++i) runs.points.push_back({0, i + 0.5, i * 1.0, i + 1.0, "run " + std::to_string(i)});
  chart.series = {runs};
  draw(chart, folder_.file("plan"), {.formats = {"svg"}});
  const std::string drawing = testing::slurp(folder_.file("plan.svg"));
  const std::regex upright(
      R"re(translate\(([0-9.]+),[0-9.]+\) rotate\([^>]*font-size="([0-9.]+)"[^>]*>\s*<text>(?:<tspan[^>]*>)?[0-9,-]+<)re");
  double before = 0;
  int numbers = 0;
  for (std::sregex_iterator it(drawing.begin(), drawing.end(), upright), end; it != end; ++it) {
    EXPECT_GE(std::stod((*it)[1]) - before, std::stod((*it)[2]));
    before = std::stod((*it)[1]);
    ++numbers;
  }
  EXPECT_GT(numbers, 10);
}

TEST_F(PlotTest, ASmallPictureHasSmallLetters) {
  Chart chart;
  chart.title = "title";
  chart.series = {{.label = "measured", .points = {{1, 1}, {2, 2}}}};
  const auto size_of_title = [&](std::pair<int, int> size) {
    draw(chart, folder_.file("small"), {.size = size, .formats = {"svg"}});
    const std::vector<Text> all = texts(folder_.file("small.svg"));
    return std::find_if(all.begin(), all.end(), [](const Text& t) { return t.letters == "title"; })->size;
  };
  EXPECT_NEAR(size_of_title({750, 500}), size_of_title({1500, 1000}) / 2, 0.1);
  EXPECT_NEAR(size_of_title({3000, 500}), size_of_title({1500, 1000}) / 2, 0.1);
}

TEST_F(PlotTest, AStyleSetsTitleSizeAndFormats) {
  Plotter plotter(folder_.path(), ChartStyle::parse("My card", "900x600", "png,pdf"));
  plotter.aggregate(std::vector{aggregate_row(2, 16, 32, 3.5)});
  const std::string png = testing::slurp(folder_.file("repeats.png"));
  EXPECT_EQ(png.substr(16, 8), std::string("\0\0\x03\x84\0\0\x02\x58", 8));  // width and height of the header
  EXPECT_THAT(testing::slurp(folder_.file("repeats.pdf")), StartsWith("%PDF-"));
  EXPECT_FALSE(std::filesystem::exists(folder_.file("repeats.svg")));
  for (const char* size : {"900", "900x", "x600", "10x600", "900x600x2", "9e9x600"}) {
    EXPECT_THAT(testing::refusal([&] { (void)ChartStyle::parse("", size, "png"); }), HasSubstr("WIDTHxHEIGHT")) << size;
  }
  EXPECT_THAT(testing::refusal([] { (void)ChartStyle::parse("", "", "gif"); }), HasSubstr("png, svg, pdf"));
}

TEST_F(PlotTest, AReportHasTheFiguresOfItsTables) {
  Study study;
  for (const int filters : {16, 32, 64}) {
    for (const int depth : {2, 3}) study.rows.push_back(aggregate_row(depth, filters, 32, depth * filters));
  }
  study.plan.planned = {{30, 0.5}, {12, 0.25}};
  study.plan.front = {{12, 0.25}};
  const std::string report = study_report(study, {folder_.file("repeats.png"), folder_.file("repeats.svg")});
  EXPECT_THAT(report, HasSubstr("6 configurations of cifar_cnn"));
  EXPECT_THAT(report, HasSubstr("| depth | 2 to 3 | 3 | 1.50 | 1.50 .. 1.50 |"));
  EXPECT_THAT(report, HasSubstr("2 runs are planned: 42 s, value 0.75"));
  EXPECT_THAT(report, HasSubstr("![repeats](repeats.png)"));
}

TEST_F(PlotTest, PredictionsNeedMeasuredColumns) {
  const std::string escaped =
      "cifar_cnn,3,32,64,3x32x32,10,50000,adam,fp32,nchw,0,\"GPU 'a\"\"b\",,1.9,2,2.1,23000,25000,27000,true,";
  const std::string header = predictions_header;
  Plotter plotter(folder_.path());
  const std::string bare = folder_.write("bare.csv", header + "\n" + escaped + "\n");
  EXPECT_THAT(testing::refusal([&] { plotter.predictions(read_predictions(bare)); }), HasSubstr("measured_time_sec"));
  plotter.predictions(
      read_predictions(folder_.write("measured.csv", header + ",measured_time_sec,measured_images_per_sec\n" + escaped +
                                                         ",2.02,24800\n" + escaped + ",1.98,25100\n")));
  EXPECT_THAT(stems(plotter.files()), ElementsAre("predicted_time", "predicted_throughput", "predicted_bars"));
  expect_pictures(plotter.files(), 3);
}

TEST_F(PlotTest, PredictionsOfSomeNetworksAlone) {
  std::string text = std::string(predictions_header) + "\n";
  for (const std::string network : {"vgg16", "resnet18", "vgg16"})
    text += network + ",,,16,3x224x224,1000,50000,adam,fp32,nchw,0,T4,,1.9,2,2.1,23000,25000,27000,true,\n";
  const auto rows = read_predictions(folder_.write("rows.csv", text));
  EXPECT_EQ(of_networks(rows, {}).size(), 3u);
  EXPECT_EQ(of_networks(rows, {"VGG16"}).size(), 2u);
  EXPECT_EQ(of_networks(rows, {"vgg16", "ResNet18"}).size(), 3u);
  EXPECT_THAT(testing::refusal([&] { (void)of_networks(rows, {"bert_base"}); }), HasSubstr("no row of --network"));
}

TEST_F(PlotTest, ABaselineStandsBesideThePredictions) {
  const auto rows = [&](const std::string& name, const std::string& sec) {
    std::string text = std::string(predictions_header) + ",measured_time_sec,measured_images_per_sec\n";
    for (const char* batch : {"16", "32"})
      text += std::string("vgg16,,,") + batch + ",3x224x224,1000,50000,adam,fp32,nchw,0,T4,," + sec +
              ",23000,25000,27000,true,,2.02,24800\n";
    return read_predictions(folder_.write(name, text));
  };
  Plotter alone(folder_.file("alone")), beside(folder_.file("beside"));
  alone.predictions(rows("own.csv", "1.9,2,2.1"));
  beside.predictions(rows("own.csv", "1.9,2,2.1"), rows("other.csv", "3.9,4,4.1"));
  EXPECT_EQ(testing::slurp(folder_.file("alone/predicted_bars.svg")).find("baseline"), std::string::npos);
  EXPECT_NE(testing::slurp(folder_.file("beside/predicted_bars.svg")).find("baseline"), std::string::npos);
}

TEST_F(PlotTest, SweepDiffersInOneField) {
  const auto row = [](int batch, const std::string& optimizer) {
    return "cifar_cnn,3,32," + std::to_string(batch) + ",3x32x32,10,50000," + optimizer +
           ",fp32,nchw,0,unknown,,1.9,2,2.1,23000,25000,27000,true,\n";
  };
  const std::string header = std::string(predictions_header) + "\n";
  Plotter plotter(folder_.path());
  plotter.sweep(
      read_predictions(folder_.write("batch.csv", header + row(32, "adam") + row(512, "adam") + row(64, "adam"))));
  expect_pictures(plotter.files(), 2);
  Plotter by_name(folder_.file("by_name"));
  by_name.sweep(read_predictions(folder_.write("optimizer.csv", header + row(32, "adam") + row(32, "sgd"))));
  expect_pictures(by_name.files(), 2);
  const std::string both = folder_.write("both.csv", header + row(32, "adam") + row(64, "sgd"));
  EXPECT_THAT(testing::refusal([&] { plotter.sweep(read_predictions(both)); }), HasSubstr("batch_size, optimizer"));
  const std::string none = folder_.write("none.csv", header + row(32, "adam"));
  EXPECT_THAT(testing::refusal([&] { plotter.sweep(read_predictions(none)); }), HasSubstr("none"));
}

TEST_F(PlotTest, LogGivesCurvesOfWhatWasRecorded) {
  Plotter plotter(folder_.path());
  plotter.log(read_run_log(folder_.write(
                  "Run 1.jsonl",
                  "{\"network\":\"cifar_cnn\"}\n"
                  "{\"epoch\":1,\"sec\":1,\"train_loss\":2.1,\"train_acc\":null,\"val_loss\":2.2,\"val_acc\":null}\n"
                  "{\"epoch\":2,\"sec\":1,\"train_loss\":1.9,\"train_acc\":null,\"val_loss\":2.0,\"val_acc\":null}\n")),
              "Run 1");
  EXPECT_THAT(stems(plotter.files()), ElementsAre("run_1_loss"));
  expect_pictures(plotter.files(), 1);
  const std::string empty = folder_.write("empty.jsonl", "{\"epoch\":1,\"sec\":1}\n");
  EXPECT_THAT(testing::refusal([&] { plotter.log(read_run_log(empty), "empty"); }),
              HasSubstr("no epoch has a loss or an accuracy"));
}

TEST_F(PlotTest, ParetoNeedsAFront) {
  Plotter plotter(folder_.path());
  for (const auto& [value_of, label] :
       {std::pair(R"("value_of":"acc",)", "test accuracy (fraction)"),
        std::pair(R"("value_of":"thr",)", "throughput (samples/s)"), std::pair("", "value of the run")}) {
    plotter.pareto(read_plan_front(folder_.write(
        "plan.json", "{" + std::string(value_of) +
                         "\"items\":[{\"cost_sec\":20,\"value\":0.6}],"
                         "\"pareto\":[{\"cost_sec\":10,\"value\":0.5},{\"cost_sec\":30,\"value\":0.7}]}")));
    EXPECT_THAT(testing::slurp(folder_.file("pareto.svg")), HasSubstr(label));
  }
  expect_pictures(plotter.files(), 1);
  const std::string empty = folder_.write("empty.json", "{\"items\":[],\"pareto\":[]}");
  EXPECT_THAT(testing::refusal([&] { plotter.pareto(read_plan_front(empty)); }), HasSubstr("has no Pareto front"));
  const std::string broken = folder_.write("broken.json", "{\"items\":");
  EXPECT_THAT(testing::refusal([&] { plotter.pareto(read_plan_front(broken)); }), StartsWith(broken));
}

TEST_F(PlotTest, NamesOnAnAxisDoNotOverlap) {
  for (const int n : {8, 36, 140}) {
    Chart chart;
    chart.series = {{}};
    for (int i = 0; i < n; ++i) {
      chart.x.categories.push_back("depth 3, 16 filters, batch " + std::to_string(i));
      chart.series.front().points.push_back({static_cast<double>(i), 1});
    }
    (void)draw(chart, folder_.file("names"), {.formats = {"svg"}});
    double before = 0;
    int names = 0;
    for (const Text& text : texts(folder_.file("names.svg"))) {
      if (!text.letters.starts_with("depth 3")) continue;
      EXPECT_EQ(text.letters, chart.x.categories[static_cast<std::size_t>(names++)]);
      EXPECT_GE(text.y - before, text.size) << n;
      before = text.y;
    }
    EXPECT_EQ(names, n);
  }
}

TEST_F(PlotTest, NamesMayHaveAnyText) {
  const std::string odd = "a_b {c} 'd' \"e\" ^f @g \\n $1 %d `h` \xc3\xbc";
  Chart chart;
  chart.title = chart.y.label = odd;
  std::string umlauts = "x";  // long enough to be cut, and with two bytes a letter
  for (int i = 0; i < 50; ++i) umlauts += "\xc3\xbc";
  chart.x.categories = {odd, umlauts};
  chart.series = {{.label = odd, .style = Series::Style::bars, .points = {{0, 1}, {1, 2}}}};
  (void)draw(chart, folder_.file("odd"), {.formats = {"svg"}});
  const std::string escaped = "a_b {c} 'd' \"e\" ^f @g \\n $1 %d `h` \xc3\xbc";
  int whole = 0;
  for (const Text& text : texts(folder_.file("odd.svg"))) whole += text.letters == escaped ? 1 : 0;
  EXPECT_EQ(whole, 4);  // title, axis, name, legend
  EXPECT_TRUE(is_utf8(testing::slurp(folder_.file("odd.svg"))));
}

TEST_F(PlotTest, NothingTimedIsRefused) {
  Plotter plotter(folder_.path());
  AggregateRow row = aggregate_row(2, 16, 32, 3.5);
  row.n = 0;
  row.avg_time_mean = row.avg_time_std = row.thr_mean = row.thr_std = std::nullopt;
  EXPECT_THAT(testing::refusal([&] { plotter.aggregate(std::vector{row}); }), HasSubstr("nothing to plot"));
}

TEST(WorkloadLabels, LeaveOutWhatTheNetworkDecides) {
  Workload resnet, gpt2;
  resnet.network = "resnet50", resnet.input = {3, 224, 224}, resnet.classes = 1000;
  gpt2.network = "gpt2", gpt2.input = {64}, gpt2.classes = 50257;
  std::vector<Workload> workloads = {resnet, gpt2};
  EXPECT_EQ(label_of(gpt2, differing_fields(workloads, {"depth", "base_filters"})), "gpt2");
  workloads.push_back(gpt2);
  workloads.back().input = {128};
  EXPECT_EQ(label_of(gpt2, differing_fields(workloads, {"depth", "base_filters"})), "gpt2, input 64");
}

TEST(Chart, MissingGnuplotIsOneClearLine) {
  const testing::TemporaryFolder folder;
  const char* path = std::getenv("PATH");
  const std::string kept = path == nullptr ? "" : path;
  ::setenv("PATH", folder.path().c_str(), 1);
  Chart chart;
  chart.series = {{.points = {{1, 1}, {2, 2}}}};
  std::string message;
  try {
    (void)draw(chart, folder.file("x"));
  } catch (const Error& error) {
    message = error.what();
  }
  ::setenv("PATH", kept.c_str(), 1);
  EXPECT_THAT(message, HasSubstr("gnuplot is not installed"));
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(Chart, FileStem) {
  EXPECT_EQ(file_stem("RTX 4080 (Laptop)"), "rtx_4080_laptop");
  EXPECT_EQ(file_stem("../x"), "x");
  EXPECT_EQ(file_stem("//"), "unnamed");
}

TEST(PlanChart, HasABarForEachRunOnTheLineOfItsDevice) {
  const testing::TemporaryFolder folder;
  const std::string path = folder.write(
      "plan.json",
      R"({"n": 2, "candidates": 3, "value": 1.5, "devices": ["T4 #1", "T4 #2"], "budget_sec": {"T4 #1": 7200, "T4 #2": 14400},
          "items": [{"id": "night", "key": "network=resnet50;batch_size=64", "fields": {"batch_size": 64}, "device_index": 0,
                     "start_sec": 0, "end_sec": 3600},
                    {"id": null, "key": "network=resnet18;batch_size=8", "fields": {"network": "resnet18", "batch_size": 8},
                     "device_index": 1, "start_sec": 1800, "end_sec": 5400, "deadline_sec": 9000}]})");
  const Chart chart = plan_chart(path);
  EXPECT_THAT(chart.x.categories, ElementsAre("T4 #1", "T4 #2"));
  EXPECT_THAT(chart.y.label, HasSubstr("(hours)"));
  EXPECT_THAT(chart.title, HasSubstr("2 of 3 runs"));
  ASSERT_EQ(chart.series.size(), 2U);
  const std::vector<ChartPoint>& runs = chart.series[0].points;
  ASSERT_EQ(runs.size(), 2U);
  EXPECT_EQ(runs[0].name, "night");
  EXPECT_EQ(runs[1].name, "resnet18 batch_size=8");
  EXPECT_EQ(runs[1].x, 1);
  EXPECT_EQ(runs[1].low, 0.5);
  EXPECT_EQ(runs[1].high, 1.5);
  ASSERT_EQ(chart.series[1].points.size(), 2U);
  EXPECT_EQ(chart.series[1].points[1].y, 4);
  EXPECT_THAT(draw(chart, folder.file("plan"), {.formats = {"svg"}}), ElementsAre(folder.file("plan.svg")));
  EXPECT_THAT(testing::slurp(folder.file("plan.svg")), HasSubstr("night"));
  nlohmann::json plan = nlohmann::json::parse(testing::slurp(path));
  plan["free_from_sec"] = {0, 1800};
  const Chart later = plan_chart(folder.write("later.json", plan.dump()));
  ASSERT_EQ(later.series.size(), 3U);
  EXPECT_EQ(later.series[2].label, "device not free");
  ASSERT_EQ(later.series[2].points.size(), 1U);
  EXPECT_EQ(later.series[2].points[0].x, 1);
  EXPECT_EQ(later.series[2].points[0].low, 0);
  EXPECT_EQ(later.series[2].points[0].high, 0.5);
  const std::string other = folder.write("other.json", "{\"items\": [{}]}");
  EXPECT_THAT(testing::refusal([&] { (void)plan_chart(other); }), HasSubstr("is not the JSON of a plan"));
}

}  // namespace
}  // namespace perfpred
