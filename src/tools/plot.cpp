// SPDX-License-Identifier: Apache-2.0
#include "tools/plot.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <set>
#include <tuple>
#include <utility>

#include "statistics/moments.h"
#include "text/json.h"
#include "tools/chart.h"
#include "workload/workload_labels.h"

namespace perfpred {
namespace {

/// A measured quantity, for titles and axes.
struct Quantity {
  const char *name, *unit;
  [[nodiscard]] std::string label() const { return fmt::format("{} ({})", name, unit); }
};
constexpr Quantity epoch_time = {"time per epoch", "s"};
constexpr const char* accuracy_label = "test accuracy (fraction)";

Axis accuracy_axis(const char* label) { return {.label = label, .high = 1.0}; }

Quantity throughput_of(std::span<const Workload> workloads) { return {"throughput", throughput_unit(workloads)}; }

template <typename Rows>
std::vector<Workload> workloads_in(const Rows& rows) {
  std::vector<Workload> workloads;
  for (const auto& row : rows) workloads.push_back(row.workload);
  return workloads;
}

/// Adds rows that differ in nothing but the batch size as one line.
void add_architectures(Chart& chart, const std::vector<AggregateRow>& rows,
                       const std::function<ChartPoint(const AggregateRow&)>& point) {
  const auto fields = differing_fields(workloads_in(rows), {"batch_size", "train_images"});
  for (const AggregateRow& row : rows) {
    Series& line = chart.series_of(name_of(row.workload, fields), Series::Style::lines_points);
    line.group = row.workload.network.family();
    line.points.push_back(point(row));
  }
  for (Series& line : chart.series) line.sort_by_x();
}

/// Nothing if no row was measured.
std::optional<Chart> comparison_chart(std::span<const PredictionRow> rows,
                                      std::optional<double> PredictionRow::*measured_member,
                                      Quantiles PredictionRow::*predicted_member, const Quantity& quantity) {
  Series inside = {.label = "inside the fitted range", .color = 0}, outside = {.label = "outside", .color = 1};
  double low = HUGE_VAL, high = 0, error = 0;
  for (const PredictionRow& row : rows) {
    if (!(row.*measured_member)) continue;
    const double measured = *(row.*measured_member);
    const Quantiles& predicted = row.*predicted_member;
    (row.in_domain ? inside : outside).points.push_back({measured, predicted.p50, predicted.p05, predicted.p95});
    low = std::min({low, measured, predicted.p50});
    high = std::max({high, measured, predicted.p50});
    error += std::abs(predicted.p50 / measured - 1);
  }
  const std::size_t count = inside.points.size() + outside.points.size();
  if (count == 0) return std::nullopt;
  Chart chart;
  chart.title = fmt::format("Predicted and measured {} ({} configurations, mean error {:.1f} %)", quantity.name, count,
                            100 * error / static_cast<double>(count));
  chart.x = {.label = "measured " + quantity.label(), .log_base = 10};
  chart.y = {.label = "predicted " + quantity.label() + ", 90 % interval", .log_base = 10};
  const auto line = [&](const char* label, Series::Style style, double factor) {
    return Series{.label = label, .style = style, .points = {{low, low * factor}, {high, high * factor}}, .color = 6};
  };
  chart.series = {line("equal", Series::Style::lines, 1), line("10 % off", Series::Style::guide, 0.9),
                  line("", Series::Style::guide, 1.1), std::move(inside), std::move(outside)};
  return chart;
}

/// Positions on the axis of a field: its numbers, or the order of the rows where a value is not a number.
Axis sweep_axis(const WorkloadColumn& field, std::span<const PredictionRow> rows, std::vector<double>& positions) {
  Axis axis = {.label = std::string(field.name)};
  std::replace(axis.label.begin(), axis.label.end(), '_', ' ');
  for (const PredictionRow& row : rows) {
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

Chart repeats_chart(std::vector<std::string> names, std::vector<Series> series) {
  Chart chart;
  chart.title = "Repeats: spread of the runs of one configuration";
  chart.x = {.categories = std::move(names)};
  chart.y = {.label = "time per epoch against the mean (%)"};
  chart.series = std::move(series);
  return chart;
}

Series mean_series() { return {.label = "mean, one standard deviation", .color = 6}; }

/// Runs that are left out of the mean must not set the scale: those beyond it stand at its end, with their value.
void limit_scale(Chart& chart, const Series& kept, const Series& means, Series rejected) {
  constexpr double room = 1.3, least = 1;  // of the largest deviation; per cent
  double extent = least;
  for (const ChartPoint& p : kept.points) extent = std::max(extent, room * std::abs(p.y));
  for (const ChartPoint& p : means.points) extent = std::max(extent, room * p.high.value_or(0));
  for (ChartPoint& p : rejected.points) {
    if (std::abs(p.y) <= extent) continue;
    p.name = fmt::format("{:+.0f} %", p.y);
    p.y = std::copysign(extent, p.y);
  }
  chart.y.low = -1.1 * extent;
  chart.y.high = 1.1 * extent;
  if (!rejected.points.empty()) chart.series.push_back(std::move(rejected));
}

}  // namespace

Plotter::Plotter(std::string folder, ChartStyle style) : folder_(std::move(folder)), style_(std::move(style)) {}

void Plotter::draw_as(const Chart& chart, const std::string& name) {
  for (std::string& file : draw(chart, fmt::format("{}/{}", folder_, name), style_)) {
    if (std::find(files_.begin(), files_.end(), file) == files_.end()) files_.push_back(std::move(file));
  }
}

void Plotter::aggregate(std::span<const AggregateRow> rows) {
  const auto rows_with = [&](const std::function<bool(const AggregateRow&)>& wanted) {
    std::vector<AggregateRow> some;
    std::copy_if(rows.begin(), rows.end(), std::back_inserter(some),
                 [&](const AggregateRow& row) { return row.avg_time_mean && wanted(row); });
    return some;
  };
  const auto timed = rows_with([](const AggregateRow&) { return true; });
  const auto accurate = rows_with([](const AggregateRow& row) { return row.acc_mean.has_value(); });
  const auto repeated = rows_with([](const AggregateRow& row) { return row.n >= 2; });
  if (timed.empty()) throw NoPlot("no configuration has a time: there is nothing to plot");

  if (!accurate.empty()) {
    Chart chart;
    chart.title = "Accuracy and time";
    chart.x = {.label = epoch_time.label(), .log_base = 10};
    chart.y = accuracy_axis(accuracy_label);
    add_architectures(chart, accurate, [](const AggregateRow& row) {
      const double acc = *row.acc_mean, spread = row.acc_std.value_or(0);
      return ChartPoint{*row.avg_time_mean, acc, acc - spread, acc + spread};
    });
    draw_as(chart, "accuracy_time");
  }

  Chart chart;
  chart.title = "Throughput and batch size";
  chart.x = {.label = "batch size", .log_base = 2};
  chart.y = {.label = throughput_of(workloads_in(timed)).label(), .log_base = 10};
  add_architectures(chart, timed, [](const AggregateRow& row) {
    const double thr = *row.thr_mean, spread = row.thr_std.value_or(0);
    return ChartPoint{static_cast<double>(row.workload.batch_size), thr, spread < thr ? thr - spread : thr,
                      thr + spread};
  });
  draw_as(chart, "throughput_batch");

  if (repeated.empty()) return;
  const auto fields = differing_fields(workloads_in(repeated), {});
  std::vector<std::string> names;
  Series means = mean_series();
  for (const AggregateRow& row : repeated) {
    const double spread = 100 * row.avg_time_std.value_or(0) / *row.avg_time_mean;
    means.points.push_back({static_cast<double>(names.size()), 0, -spread, spread});
    names.push_back(name_of(row.workload, fields));
  }
  draw_as(repeats_chart(std::move(names), {std::move(means)}), "repeats");
}

void Plotter::repeats(std::span<const Run> runs) {
  Aggregator aggregator;
  std::map<std::string, std::vector<const Run*>> by_key;
  std::vector<std::string> order;
  for (const Run& run : runs) {
    if (!run.avg_time_sec) continue;
    aggregator.add(run);
    auto& group = by_key[run.workload.key()];
    if (group.empty()) order.push_back(run.workload.key());
    group.push_back(&run);
  }
  std::erase_if(order, [&](const std::string& key) { return by_key[key].size() < 2; });
  if (order.empty()) throw NoPlot("no configuration was timed more than once: there are no repeats to plot");
  std::set<std::tuple<std::string, std::string, std::optional<double>>> left_out;
  aggregator.for_each_rejected(
      [&](const RejectedRun& run) { left_out.emplace(run.key, run.timestamp_utc, run.avg_time_sec); });

  std::vector<Workload> workloads;
  for (const std::string& key : order) workloads.push_back(by_key[key].front()->workload);
  const auto fields = differing_fields(workloads, {});
  std::vector<std::string> names;
  Series kept = {.label = "one run", .color = 0}, rejected = {.label = "rejected run", .color = 1};
  Series means = mean_series();
  for (std::size_t i = 0; i < order.size(); ++i) {
    const auto& group = by_key[order[i]];
    const auto is_kept = [&](const Run* run) {
      return !left_out.contains({order[i], run->timestamp_utc, run->avg_time_sec});
    };
    const bool none = std::none_of(group.begin(), group.end(), is_kept);
    Moments times;
    for (const Run* run : group) {
      if (none || is_kept(run)) times.add(*run->avg_time_sec);
    }
    const auto x = static_cast<double>(i);
    for (const Run* run : group) {
      Series& series = none || is_kept(run) ? kept : rejected;
      series.points.push_back({x - 0.15, 100 * (*run->avg_time_sec / times.mean() - 1)});
    }
    const double spread = 100 * times.deviation() / times.mean();
    means.points.push_back({x + 0.15, 0, -spread, spread});
    names.push_back(name_of(workloads[i], fields));
  }
  Chart chart = repeats_chart(std::move(names), {kept, means});
  limit_scale(chart, kept, means, std::move(rejected));
  draw_as(chart, "repeats");
}

void Plotter::predictions(std::span<const PredictionRow> rows, std::span<const PredictionRow> baseline) {
  const std::vector<Workload> workloads = workloads_in(rows);
  const auto times = comparison_chart(rows, &PredictionRow::measured_time_sec, &PredictionRow::time_sec, epoch_time);
  const auto rates = comparison_chart(rows, &PredictionRow::measured_images_per_sec, &PredictionRow::images_per_sec,
                                      throughput_of(workloads));
  if (!times || !rates) {
    throw NoPlot("no prediction has both measured_time_sec and measured_images_per_sec to compare it with");
  }
  draw_as(*times, "predicted_time");
  draw_as(*rates, "predicted_throughput");

  const auto fields = differing_fields(workloads, {});
  std::map<std::string, double> baseline_sec;
  for (const PredictionRow& row : baseline) baseline_sec[row.workload.key()] = row.time_sec.p50;
  Series measured = {.label = "measured", .style = Series::Style::bars};
  Series predicted = {.label = "predicted, 90 % interval", .style = Series::Style::bars};
  Series other = {.label = "baseline", .style = Series::Style::bars};
  Chart bars;
  bars.title = "Measured and predicted " + std::string(epoch_time.name);
  bars.y.label = epoch_time.label();
  for (const PredictionRow& row : rows) {
    if (!row.measured_time_sec) continue;
    const auto x = static_cast<double>(bars.x.categories.size());
    bars.x.categories.push_back(name_of(row.workload, fields));
    measured.points.push_back({x, *row.measured_time_sec});
    predicted.points.push_back({x, row.time_sec.p50, row.time_sec.p05, row.time_sec.p95});
    if (const auto known = baseline_sec.find(row.workload.key()); known != baseline_sec.end())
      other.points.push_back({x, known->second});
  }
  constexpr std::size_t max_bars = 40;
  if (bars.x.categories.size() > max_bars) return;
  bars.series = {std::move(measured), std::move(predicted), std::move(other)};
  draw_as(bars, "predicted_bars");
}

void Plotter::log(const RunLog& log, const std::string& name) {
  const std::string stem = file_stem(std::filesystem::path(name).stem().string());
  using Measure = std::optional<double> LoggedEpoch::*;
  const auto curves = [&](const char* title, const char* label, Measure train, Measure validation, const char* ending) {
    Chart chart;
    chart.title = title;
    chart.x = {.label = "epoch", .whole = true};
    chart.y = train == &LoggedEpoch::train_acc ? accuracy_axis(label) : Axis{.label = label};
    for (const auto& [measure, text] : {std::pair(train, "training"), std::pair(validation, "validation")}) {
      Series series = {.label = text, .style = Series::Style::lines_points};
      for (const LoggedEpoch& epoch : log.epochs) {
        if (epoch.*measure) series.points.push_back({static_cast<double>(epoch.epoch), *(epoch.*measure)});
      }
      if (!series.points.empty()) chart.series.push_back(std::move(series));
    }
    if (chart.series.empty()) return false;
    draw_as(chart, fmt::format("{}_{}", stem, ending));
    return true;
  };
  const bool loss =
      curves("Loss of a run", "cross-entropy (nats)", &LoggedEpoch::train_loss, &LoggedEpoch::val_loss, "loss");
  const bool accuracy =
      curves("Accuracy of a run", "accuracy (fraction)", &LoggedEpoch::train_acc, &LoggedEpoch::val_acc, "accuracy");
  if (!loss && !accuracy) throw NoPlot("no epoch has a loss or an accuracy");
}

void Plotter::sweep(std::span<const PredictionRow> rows) {
  const std::vector<Workload> workloads = workloads_in(rows);
  const auto fields = differing_fields(workloads, {});
  if (fields.size() != 1) {
    std::vector<std::string_view> names;
    for (const WorkloadColumn* field : fields) names.push_back(field->name);
    throw NoPlot(fmt::format("the rows of a sweep must differ in one field; these differ in {}",
                             names.empty() ? "none" : fmt::format("{}", fmt::join(names, ", "))));
  }
  std::vector<double> positions;
  Chart chart;
  chart.x = sweep_axis(*fields.front(), rows, positions);
  for (const auto& [quantiles, quantity, name] :
       {std::tuple(&PredictionRow::time_sec, epoch_time, "sweep_time"),
        std::tuple(&PredictionRow::images_per_sec, throughput_of(workloads), "sweep_throughput")}) {
    chart.title = "What if: " + chart.x.label;
    chart.y = {.label = "predicted " + quantity.label(), .log_base = 10};
    Series intervals = {.label = "90 % interval", .style = Series::Style::band, .color = 0};
    Series medians = {.label = "median", .style = Series::Style::lines_points, .color = 0};
    Series outside = {.label = "outside the fitted range", .color = 1};
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const Quantiles& q = rows[i].*quantiles;
      intervals.points.push_back({positions[i], q.p50, q.p05, q.p95});
      medians.points.push_back({positions[i], q.p50});
      if (!rows[i].in_domain) outside.points.push_back({positions[i], q.p50});
    }
    if (chart.x.categories.empty()) {
      intervals.sort_by_x();
      medians.sort_by_x();
      chart.series = {std::move(intervals), std::move(medians)};
    } else {
      intervals.style = Series::Style::points;
      intervals.label = "median, 90 % interval";
      chart.series = {std::move(intervals)};
    }
    if (!outside.points.empty()) chart.series.push_back(std::move(outside));
    draw_as(chart, name);
  }
}

void Plotter::pareto(const PlanFront& plan) {
  if (plan.front.empty()) throw NoPlot("the plan has no Pareto front");
  Series front = {.label = "no run is cheaper and worth more", .style = Series::Style::lines_points, .color = 0};
  Series planned = {.label = "planned", .color = 1};
  for (auto& [series, runs] : {std::pair(&front, &plan.front), std::pair(&planned, &plan.planned)}) {
    for (const PlanFront::Run& run : *runs) series->points.push_back({run.cost_sec, run.value});
  }
  front.sort_by_x();
  Chart chart;
  chart.title = "Cost and value of single runs";
  chart.x = {.label = "cost of the run (s)", .log_base = 10};
  chart.y = {.label = plan.value_of == "acc"   ? accuracy_label
                      : plan.value_of == "thr" ? "throughput (samples/s)"
                                               : "value of the run"};
  chart.series.push_back(std::move(front));
  chart.series.push_back(std::move(planned));
  draw_as(chart, "pareto");
}

void Plotter::charts(std::span<const std::pair<std::string, Chart>> named) {
  for (const auto& [name, chart] : named) draw_as(chart, name);
}

void Plotter::plot(const std::string& file, const std::function<void()>& draw) {
  if (file.empty()) return;
  try {
    draw();
  } catch (const NoPlot& reason) {
    left_out_.push_back(fmt::format("{}: {}", file, reason.what()));
  }
}

const std::vector<std::string>& Plotter::files() const {
  if (files_.empty() && !left_out_.empty()) throw InputError(left_out_.front());
  return files_;
}

PlanFront read_plan_front(const std::string& path) {
  PlanFront plan;
  try {
    const auto document = read_json<nlohmann::json>(path);
    plan.value_of = document.value("value_of", "");
    for (auto& [runs, key] : {std::pair(&plan.front, "pareto"), std::pair(&plan.planned, "items")}) {
      for (const auto& run : document.at(key)) {
        runs->push_back({run.at("cost_sec").get<double>(), run.at("value").get<double>()});
      }
    }
  } catch (const nlohmann::json::exception&) {
    throw InputError(path + ": is not the JSON of a plan with its Pareto front");
  }
  return plan;
}

}  // namespace perfpred
