// SPDX-License-Identifier: Apache-2.0
#include "tools/layer_report.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <map>
#include <optional>

#include "catalogue/device_table.h"
#include "statistics/estimate.h"
#include "text/csv.h"
#include "text/files.h"
#include "text/json.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr const char* cross_validation = "cross-validation";

std::string label_of(const LayerRow& row) {
  std::string text(to_string(row.layer.type));
  for (const Column<LayerCase>& column : layer_columns()) {
    const std::string value = column.get(row.layer);
    if (column.name != "layer" && !value.empty()) text += fmt::format(",{}={}", column.name, value);
  }
  return text;
}

std::optional<double> coverage(const std::vector<LayerPredictionRow>& rows) {
  if (rows.empty()) return std::nullopt;
  const auto inside = std::ranges::count_if(rows, [](const auto& p) { return covers(p.sec, *p.row.step_sec); });
  return static_cast<double>(inside) / static_cast<double>(rows.size());
}

/// A score as a chart takes it.
struct Bar {
  std::string layer, series;
  double mape;
};

/// Bars beside one another for each layer.
std::optional<Chart> bar_chart(const std::vector<Bar>& bars, const std::string& title) {
  if (bars.empty()) return std::nullopt;
  Chart chart;
  chart.title = title;
  chart.y.label = "mean error of the step time (%)";
  std::vector<std::string>& layers = chart.x.categories;
  for (const Bar& bar : bars) {
    auto place = std::ranges::find(layers, bar.layer);
    if (place == layers.end()) place = layers.insert(place, bar.layer);
    chart.series_of(bar.series, Series::Style::bars)
        .points.push_back({static_cast<double>(place - layers.begin()), 100 * bar.mape});
  }
  return chart;
}

Chart scatter(const nlohmann::json& predictions) {
  Chart chart;
  chart.title = fmt::format("Predicted and measured steps of single layers ({} of the test)", predictions.size());
  chart.x = {.label = "measured step (ms)", .log_base = 10};
  chart.y = {.label = "predicted step (ms), 90 % interval", .log_base = 10};
  std::map<std::string, Series> by_type;
  double low = 0, high = 0;
  for (const nlohmann::json& row : predictions) {
    const auto& [p05, p50, p95] = std::tie(row.at("p05_ms"), row.at("p50_ms"), row.at("p95_ms"));
    if (p05.is_null() || p50.is_null() || p95.is_null()) continue;  // not finite
    const auto type = row.at("type").get<std::string>();
    const double measured = row.at("measured_ms").get<double>();
    Series& series = by_type[type];
    series.label = type;
    series.points.push_back({measured, p50.get<double>(), p05.get<double>(), p95.get<double>()});
    low = low == 0 ? measured : std::min(low, measured);
    high = std::max(high, measured);
  }
  chart.series.push_back(
      {.label = "equal", .style = Series::Style::lines, .points = {{low, low}, {high, high}}, .color = 6});
  for (auto& [type, series] : by_type) chart.series.push_back(std::move(series));
  return chart;
}

}  // namespace

std::string layer_study_text(const LayerStudy& study) {
  constexpr const char* line = "{:<20} {:<10} {:<27} {:<32} {:>5} {:>8} {:>8}\n";
  std::string text = fmt::format(line, "layer", "kind", "inputs", "by", "rows", "mean %", "median %");
  for (const LayerScore& score : study.scores) {
    text += fmt::format(line, to_string(score.type), score.kind, to_string(score.inputs), score.by, score.n,
                        fmt::format("{:.1f}", 100 * score.mape), fmt::format("{:.1f}", 100 * score.median_ape));
  }
  if (const auto covered = coverage(study.predictions)) {
    text += fmt::format("90 % interval: covers {:.1f} % of the test rows\n", 100 * *covered);
  }
  return text;
}

nlohmann::json to_json(const LayerStudy& study) {
  nlohmann::json scores = nlohmann::json::array(), predictions = nlohmann::json::array();
  for (const LayerScore& score : study.scores) {
    scores.push_back({{"layer", to_string(score.type)},
                      {"kind", score.kind},
                      {"inputs", to_string(score.inputs)},
                      {"by", score.by},
                      {"n", score.n},
                      {"mape", score.mape},
                      {"median_ape", score.median_ape}});
  }
  for (const LayerPredictionRow& p : study.predictions) {
    predictions.push_back({{"layer", label_of(p.row)},
                           {"type", to_string(p.row.layer.type)},
                           {"device", p.row.device},
                           {"measured_ms", 1e3 * *p.row.step_sec},
                           {"p05_ms", 1e3 * p.sec.p05},
                           {"p50_ms", 1e3 * p.sec.p50},
                           {"p95_ms", 1e3 * p.sec.p95}});
  }
  return {{"scores", scores},
          {"predictions", predictions},
          {"coverage90", or_null(coverage(study.predictions))},
          {"notes", study.notes}};
}

namespace {

/// The columns of devices.csv that describe a device, beside its names.
Columns<Device> description_columns() {
  Columns<Device> some = device_table();
  std::erase_if(some, [](const Column<Device>& column) {
    return column.name == "name" || column.name == "aliases" || column.name == "source";
  });
  return some;
}

}  // namespace

void write_layer_features(const std::string& path, const std::vector<LayerRow>& rows, const DeviceCatalogue& devices) {
  std::map<LayerType, std::vector<LayerRow>> by_type;
  for (const LayerRow& row : rows) {
    if (row.step_sec) by_type[row.layer.type].push_back(row);
  }
  AtomicFile file(path);
  const Columns<Device> described = description_columns();
  for (const auto& [type, some] : by_type) {
    std::vector<std::string> names = {"layer", "device"};
    for (std::string& name : layer_feature_names(type, {})) names.push_back(std::move(name));
    names.emplace_back("step_ms");
    const std::vector<std::string> columns = names_of(described);
    names.insert(names.end(), columns.begin(), columns.end());
    file.write(csv_line(names));
    const FeatureTask task = layer_task(some, devices, {}, 0);
    for (std::size_t i = 0; i < some.size(); ++i) {
      std::vector<std::string> fields = {label_of(some[i]), some[i].device};
      for (const double value : task.features.row(static_cast<Eigen::Index>(i))) fields.push_back(number_text(value));
      fields.push_back(number_text(1e3 * *some[i].step_sec));
      const std::vector<std::string> known = fields_of(described, device_of(some[i], devices));
      fields.insert(fields.end(), known.begin(), known.end());
      file.write(csv_line(fields));
    }
  }
  file.commit();
}

std::vector<std::pair<std::string, Chart>> layer_charts(const std::string& path) {
  std::vector<Bar> kinds, inputs, devices;
  std::map<std::string, std::string> best;  // kind by layer: the one whose inputs were left out
  std::vector<std::pair<std::string, Chart>> charts;
  try {
    const auto document = read_json<nlohmann::json>(path);
    const nlohmann::json& scores = document.at("scores");
    const std::string all = to_string(LayerInputs{});
    for (const nlohmann::json& score : scores) {
      if (score.at("inputs") != all) best[score.at("layer")] = score.at("kind");
    }
    for (const nlohmann::json& score : scores) {
      if (score.at("mape").is_null()) continue;  // not finite
      const auto layer = score.at("layer").get<std::string>(), kind = score.at("kind").get<std::string>(),
                 by = score.at("by").get<std::string>(), given = score.at("inputs").get<std::string>();
      const double mape = score.at("mape").get<double>();
      if (by == cross_validation && given == all) kinds.push_back({layer, kind, mape});
      if (by == cross_validation && best.contains(layer) && kind == best[layer]) inputs.push_back({layer, given, mape});
      if (by.starts_with("without ")) devices.push_back({layer, by, mape});
    }
    for (const auto& [name, bars, title] :
         {std::tuple("layer_errors", &kinds, "Kinds of regression, by cross-validation"),
          std::tuple("layer_inputs", &inputs, "What inputs are worth"),
          std::tuple("layer_devices", &devices, "Devices that the fit has not seen")}) {
      if (std::optional<Chart> chart = bar_chart(*bars, title)) charts.emplace_back(name, *std::move(chart));
    }
    if (!document.at("predictions").empty()) charts.emplace_back("layer_predictions", scatter(document["predictions"]));
  } catch (const nlohmann::json::exception&) {
    throw InputError(path + ": is not the JSON of perfpred-evaluate --layers");
  }
  return charts;
}

}  // namespace perfpred
