// SPDX-License-Identifier: Apache-2.0
#include "tools/plot.h"

#include <perfpred/error.h>
#include <perfpred/prediction.h>
#include <perfpred/run.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <numeric>
#include <set>
#include <utility>

#include "text/json.h"
#include "text/csv.h"
#include "tools/chart.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

constexpr const char* epoch_time = "time per epoch (s)";
constexpr const char* throughput = "throughput (images/s)";

/// The fields in which workloads differ, without those that say how much is
/// measured and not what.
std::vector<const WorkloadColumn*> differing(std::span<const Workload> workloads,
                                             std::initializer_list<std::string_view> but) {
  std::vector<const WorkloadColumn*> fields;
  for (const WorkloadColumn& column : workload_columns()) {
    if (std::find(but.begin(), but.end(), column.name) != but.end()) continue;
    const bool differs = std::any_of(workloads.begin(), workloads.end(),
                                     [&](const Workload& w) { return column.get(w) != column.get(workloads.front()); });
    if (differs) fields.push_back(&column);
  }
  return fields;
}

std::string label_of(const Workload& workload, const std::vector<const WorkloadColumn*>& fields) {
  std::vector<std::string> parts;
  for (const WorkloadColumn* field : fields) {
    const std::string value = field->get(workload);
    if (value.empty()) continue;
    if (field->name == "base_filters") {
      parts.push_back(value + " filters");
    } else if (field->name == "batch_size") {
      parts.push_back("batch " + value);
    } else if (std::isdigit(static_cast<unsigned char>(value.front())) != 0) {
      parts.push_back(fmt::format("{} {}", field->name, value));
    } else {
      parts.push_back(value);
    }
  }
  return parts.empty() ? workload.network : fmt::format("{}", fmt::join(parts, ", "));
}

void sort_by_x(Series& series) {
  std::vector<std::size_t> order(series.x.size());
  std::iota(order.begin(), order.end(), 0U);
  std::stable_sort(order.begin(), order.end(),
                   [&series](std::size_t a, std::size_t b) { return series.x[a] < series.x[b]; });
  for (auto* values : {&series.x, &series.y, &series.low, &series.high}) {
    std::vector<double> sorted;
    for (const std::size_t i : order) {
      if (!values->empty()) sorted.push_back((*values)[i]);
    }
    *values = std::move(sorted);
  }
}

/// Rows that differ in nothing but the batch size, joined by a line.
std::vector<Series> by_architecture(const std::vector<const AggregateRow*>& rows,
                                    const std::function<void(const AggregateRow&, Series&)>& add) {
  std::vector<Workload> workloads;
  for (const AggregateRow* row : rows) workloads.push_back(row->workload);
  const auto fields = differing(workloads, {"batch_size", "train_images"});
  std::vector<Series> all;
  std::map<std::string, std::size_t> known;
  for (const AggregateRow* row : rows) {
    const std::string label = label_of(row->workload, fields);
    const auto [at, fresh] = known.emplace(label, all.size());
    if (fresh) all.push_back({.label = label, .style = Series::Style::lines_points});
    add(*row, all[at->second]);
  }
  return all;
}

/// One row of predictions.csv.
struct PredictedRow {
  Workload workload;
  Quantiles time, throughput;
  std::optional<double> measured_time, measured_throughput;
  bool in_domain = true;
};

Quantiles read_quantiles(const CsvReader& csv, const std::array<CsvColumn, 3>& columns) {
  const Quantiles q = {csv.positive(columns[0]), csv.positive(columns[1]), csv.positive(columns[2])};
  if (q.p05 > q.p50 || q.p50 > q.p95) throw InputError(csv.place("").prefix() + "quantiles that do not rise");
  return q;
}

std::vector<PredictedRow> read_predictions(const std::string& path, bool measured) {
  CsvReader csv(path);
  const auto quantiles = [&csv](const std::string& name) {
    return std::array{csv.required(name + "_p05"), csv.required(name + "_p50"), csv.required(name + "_p95")};
  };
  const auto time = quantiles("time_sec");
  const auto images = quantiles("images_per_sec");
  const CsvColumn in_domain = csv.optional("in_domain");
  CsvColumn measured_time, measured_throughput;
  if (measured) {
    measured_time = csv.required("measured_time_sec");
    measured_throughput = csv.required("measured_images_per_sec");
  }
  const WorkloadReader workload(csv, unstated_workload());
  std::vector<PredictedRow> rows;
  while (csv.next()) {
    PredictedRow row = {workload.read(csv), read_quantiles(csv, time), read_quantiles(csv, images), {}, {}, true};
    if (!csv.text(measured_time).empty()) row.measured_time = csv.positive(measured_time);
    if (!csv.text(measured_throughput).empty()) row.measured_throughput = csv.positive(measured_throughput);
    row.in_domain = csv.text(in_domain) != "false";
    rows.push_back(std::move(row));
  }
  if (rows.empty()) throw InputError(path + ": holds no predictions");
  return rows;
}

struct Comparison {
  double measured;
  Quantiles predicted;
  bool in_domain;
};

Chart comparison_chart(const std::vector<Comparison>& points, const std::string& what) {
  Series inside = {.label = "in the range fitted on"}, outside = {.label = "outside it"};
  double low = points.front().measured, high = low, error = 0;
  for (const Comparison& p : points) {
    Series& series = p.in_domain ? inside : outside;
    series.x.push_back(p.measured);
    series.y.push_back(p.predicted.p50);
    series.low.push_back(p.predicted.p05);
    series.high.push_back(p.predicted.p95);
    low = std::min({low, p.measured, p.predicted.p50});
    high = std::max({high, p.measured, p.predicted.p50});
    error += std::abs(p.predicted.p50 / p.measured - 1);
  }
  Chart chart;
  chart.title =
      fmt::format("Predicted and measured {} ({} configurations, mean error {:.1f} %)", what.substr(0, what.find(" (")),
                  points.size(), 100 * error / static_cast<double>(points.size()));
  chart.x = {.label = "measured " + what, .log_base = 10};
  chart.y = {.label = "predicted " + what + ", 90 % interval", .log_base = 10};
  const std::vector<double> ends = {low, high};
  chart.series.push_back({.label = "equal", .style = Series::Style::lines, .x = ends, .y = ends, .color = 6});
  for (const double factor : {0.9, 1.1}) {
    chart.series.push_back({.label = factor < 1 ? "10 % off" : "",
                            .style = Series::Style::guide,
                            .x = ends,
                            .y = {low * factor, high * factor}});
  }
  inside.color = 0;
  outside.color = 1;
  chart.series.push_back(std::move(inside));
  chart.series.push_back(std::move(outside));
  return chart;
}

/// Positions on the axis of a field: its numbers, or the order in which its
/// words come.
Axis sweep_axis(const WorkloadColumn& field, const std::vector<PredictedRow>& rows, std::vector<double>& positions) {
  Axis axis = {.label = std::string(field.name)};
  std::replace(axis.label.begin(), axis.label.end(), '_', ' ');
  for (const PredictedRow& row : rows) {
    const std::string text = field.get(row.workload);
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || end != text.data() + text.size()) {
      positions.clear();
      for (std::size_t i = 0; i < rows.size(); ++i) {
        positions.push_back(static_cast<double>(i));
        axis.categories.push_back(field.get(rows[i].workload));
      }
      return axis;
    }
    positions.push_back(value);
  }
  const auto [low, high] = std::minmax_element(positions.begin(), positions.end());
  if (*low > 0 && *high / *low >= 4) axis.log_base = 2;
  return axis;
}

Chart repeats_chart(std::vector<std::string> names, Series runs, Series means) {
  Chart chart;
  chart.title = "Repeats: spread of the runs of one configuration";
  chart.x = {.categories = std::move(names)};
  chart.y = {.label = "time per epoch against the mean (%)"};
  runs.label = "one run";
  means.label = "mean, one standard deviation";
  means.color = 6;
  runs.color = 0;
  chart.series = {std::move(runs), std::move(means)};
  return chart;
}

}  // namespace

Plotter::Plotter(std::string folder) : folder_(std::move(folder)) {}

void Plotter::draw_as(const Chart& chart, const std::string& name) {
  for (std::string& file : draw(chart, fmt::format("{}/{}", folder_, name))) {
    if (std::find(files_.begin(), files_.end(), file) == files_.end()) files_.push_back(std::move(file));
  }
}

void Plotter::aggregate(std::span<const AggregateRow> rows) {
  std::vector<const AggregateRow*> timed, accurate;
  for (const AggregateRow& row : rows) {
    if (row.avg_time_mean) timed.push_back(&row);
    if (row.avg_time_mean && row.acc_mean) accurate.push_back(&row);
  }
  if (timed.empty()) throw InputError("no configuration has a time: there is nothing to plot");

  if (!accurate.empty()) {
    Chart chart;
    chart.title = "Accuracy and time";
    chart.x = {.label = epoch_time, .log_base = 10};
    chart.y = {.label = "test accuracy (fraction)"};
    chart.series = by_architecture(accurate, [](const AggregateRow& row, Series& series) {
      const double spread = row.acc_std.value_or(0);
      series.x.push_back(*row.avg_time_mean);
      series.y.push_back(*row.acc_mean);
      series.low.push_back(*row.acc_mean - spread);
      series.high.push_back(*row.acc_mean + spread);
    });
    for (Series& series : chart.series) sort_by_x(series);
    draw_as(chart, "accuracy_time");
  }

  Chart chart;
  chart.title = "Throughput and batch size";
  chart.x = {.label = "batch size (images)", .log_base = 2};
  chart.y = {.label = throughput, .log_base = 10};
  chart.series = by_architecture(timed, [](const AggregateRow& row, Series& series) {
    const double thr = *row.thr_mean, spread = row.thr_std.value_or(0);
    series.x.push_back(static_cast<double>(row.workload.batch_size));
    series.y.push_back(thr);
    series.low.push_back(spread < thr ? thr - spread : thr);
    series.high.push_back(thr + spread);
  });
  for (Series& series : chart.series) sort_by_x(series);
  draw_as(chart, "throughput_batch");

  std::vector<const AggregateRow*> repeated;
  std::vector<Workload> workloads;
  for (const AggregateRow* row : timed) {
    if (row->n < 2) continue;
    repeated.push_back(row);
    workloads.push_back(row->workload);
  }
  if (repeated.empty()) return;
  const auto fields = differing(workloads, {});
  std::vector<std::string> names;
  Series means;
  for (const AggregateRow* row : repeated) {
    const double spread = 100 * row->avg_time_std.value_or(0) / *row->avg_time_mean;
    means.x.push_back(static_cast<double>(names.size()));
    means.y.push_back(0);
    means.low.push_back(-spread);
    means.high.push_back(spread);
    names.push_back(label_of(row->workload, fields));
  }
  draw_as(repeats_chart(std::move(names), {}, std::move(means)), "repeats");
}

void Plotter::repeats(std::span<const Run> runs) {
  std::map<std::string, std::vector<const Run*>> by_key;
  std::vector<std::string> order;
  for (const Run& run : runs) {
    if (!run.avg_time_sec) continue;
    auto& group = by_key[run.workload.key()];
    if (group.empty()) order.push_back(run.workload.key());
    group.push_back(&run);
  }
  std::vector<Workload> workloads;
  for (const std::string& key : order) {
    if (by_key[key].size() > 1) workloads.push_back(by_key[key].front()->workload);
  }
  if (workloads.empty())
    throw InputError(
        "no configuration was timed more than once: there are no "
        "repeats to plot");
  const auto fields = differing(workloads, {});
  std::vector<std::string> names;
  Series points, means;
  for (const Workload& workload : workloads) {
    const auto& group = by_key[workload.key()];
    const auto n = static_cast<double>(group.size());
    double mean = 0, squares = 0;
    for (const Run* run : group) mean += *run->avg_time_sec / n;
    for (const Run* run : group) {
      const double off = 100 * (*run->avg_time_sec / mean - 1);
      squares += off * off;
      points.x.push_back(static_cast<double>(names.size()) - 0.15);
      points.y.push_back(off);
    }
    const double spread = std::sqrt(squares / (n - 1));
    means.x.push_back(static_cast<double>(names.size()) + 0.15);
    means.y.push_back(0);
    means.low.push_back(-spread);
    means.high.push_back(spread);
    names.push_back(label_of(workload, fields));
  }
  draw_as(repeats_chart(std::move(names), std::move(points), std::move(means)), "repeats");
}

void Plotter::predictions(const std::string& path) {
  std::vector<Comparison> times, rates;
  for (const PredictedRow& row : read_predictions(path, true)) {
    if (row.measured_time) times.push_back({*row.measured_time, row.time, row.in_domain});
    if (row.measured_throughput) rates.push_back({*row.measured_throughput, row.throughput, row.in_domain});
  }
  if (times.empty() || rates.empty()) throw InputError(path + ": no row has a measured time and throughput");
  for (const auto& [points, what, name] :
       {std::tuple(&times, epoch_time, "predicted_time"), std::tuple(&rates, throughput, "predicted_throughput")}) {
    draw_as(comparison_chart(*points, what), name);
  }
}

void Plotter::log(const std::string& path) {
  const RunLog log = read_run_log(path);
  const std::string name = file_stem(std::filesystem::path(path).stem().string());
  using Measure = std::optional<double> LoggedEpoch::*;
  const auto curves = [&](const char* title, const char* label, Measure train, Measure validation, const char* ending) {
    Chart chart;
    chart.title = title;
    chart.x = {.label = "epoch"};
    chart.y = {.label = label};
    for (const auto& [measure, text] : {std::pair(train, "training"), std::pair(validation, "validation")}) {
      Series series = {.label = text, .style = Series::Style::lines_points};
      for (const LoggedEpoch& epoch : log.epochs) {
        if (!(epoch.*measure)) continue;
        series.x.push_back(epoch.epoch);
        series.y.push_back(*(epoch.*measure));
      }
      if (!series.x.empty()) chart.series.push_back(std::move(series));
    }
    if (chart.series.empty()) return false;
    draw_as(chart, fmt::format("{}_{}", name, ending));
    return true;
  };
  const bool loss =
      curves("Loss of a run", "cross-entropy (nats)", &LoggedEpoch::train_loss, &LoggedEpoch::val_loss, "loss");
  const bool accuracy =
      curves("Accuracy of a run", "accuracy (fraction)", &LoggedEpoch::train_acc, &LoggedEpoch::val_acc, "accuracy");
  if (!loss && !accuracy) throw InputError(path + ": no epoch has a loss or an accuracy");
}

void Plotter::sweep(const std::string& path) {
  const std::vector<PredictedRow> rows = read_predictions(path, false);
  std::vector<Workload> workloads;
  for (const PredictedRow& row : rows) workloads.push_back(row.workload);
  const auto fields = differing(workloads, {});
  if (fields.size() != 1) {
    std::vector<std::string_view> names;
    for (const WorkloadColumn* field : fields) names.push_back(field->name);
    throw InputError(fmt::format("{}: a sweep differs in one field, not in {}", path,
                                 names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  std::vector<double> positions;
  Chart chart;
  chart.x = sweep_axis(*fields.front(), rows, positions);
  for (const auto& [quantity, label, name] : {std::tuple(&PredictedRow::time, epoch_time, "sweep_time"),
                                              std::tuple(&PredictedRow::throughput, throughput, "sweep_throughput")}) {
    chart.title = "What if: " + chart.x.label;
    chart.y = {.label = fmt::format("predicted {}", label), .log_base = 10};
    Series band = {.label = "90 % interval", .style = Series::Style::band, .x = positions, .color = 0};
    Series middle = {.label = "median", .style = Series::Style::lines_points, .x = positions, .color = 0};
    for (const PredictedRow& row : rows) {
      const Quantiles& q = row.*quantity;
      middle.y.push_back(q.p50);
      band.low.push_back(q.p05);
      band.high.push_back(q.p95);
    }
    Series outside = {.label = "outside the range fitted on", .color = 1};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (rows[i].in_domain) continue;
      outside.x.push_back(positions[i]);
      outside.y.push_back((rows[i].*quantity).p50);
    }
    if (chart.x.categories.empty()) {
      sort_by_x(band);
      sort_by_x(middle);
    } else {
      middle.style = Series::Style::points;
      std::swap(middle.low, band.low);
      std::swap(middle.high, band.high);
      middle.label = "median, 90 % interval";
    }
    chart.series.clear();
    if (!band.low.empty()) chart.series.push_back(std::move(band));
    chart.series.push_back(std::move(middle));
    if (!outside.x.empty()) chart.series.push_back(std::move(outside));
    draw_as(chart, name);
  }
}

void Plotter::pareto(const std::string& path) {
  Series front = {.label = "no run is cheaper and worth more", .style = Series::Style::lines_points, .color = 0};
  Series planned = {.label = "planned", .color = 1};
  try {
    const auto plan = read_json<nlohmann::json>(path);
    for (auto& [series, key] : {std::pair(&front, "pareto"), std::pair(&planned, "items")}) {
      for (const auto& run : plan.at(key)) {
        series->x.push_back(run.at("cost_sec").get<double>());
        series->y.push_back(run.at("value").get<double>());
      }
    }
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("{}: is not a plan: {}", path, json_complaint(error)));
  }
  if (front.x.empty()) throw InputError(path + ": holds no front; perfpred-plan makes it with --pareto --json");
  sort_by_x(front);
  Chart chart;
  chart.title = "Cost and value of single runs";
  chart.x = {.label = "cost of the run (s)", .log_base = 10};
  chart.y = {.label = "value of the run (accuracy, or images/s)"};
  chart.series.push_back(std::move(front));
  chart.series.push_back(std::move(planned));
  draw_as(chart, "pareto");
}

}  // namespace perfpred
