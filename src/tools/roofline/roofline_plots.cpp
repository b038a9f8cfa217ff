// SPDX-License-Identifier: Apache-2.0
#include "tools/roofline/roofline_plots.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <utility>

#include "tools/chart.h"
#include "workload/workload_labels.h"

namespace perfpred {
namespace {

using Points = std::span<const StudyPoint>;
using PointList = std::vector<const StudyPoint*>;

constexpr std::size_t max_names = 40;  // more are clutter
constexpr std::size_t max_bars = 40;   // batch scaling shows larger tables
constexpr std::size_t black = 6;       // colour number

PointList points_where(Points points, const std::function<bool(const StudyPoint&)>& wanted) {
  PointList list;
  for (const StudyPoint& p : points) {
    if (wanted(p)) list.push_back(&p);
  }
  return list;
}

/// The roof of one precision as a line over a range of intensities.
Series roof_line(const Roofline& roof, Precision precision, std::pair<double, double> range, double share,
                 const std::string& label) {
  Series series = {.label = label, .style = Series::Style::lines};
  for (const double ai : {range.first, std::clamp(roof.ridge(precision), range.first, range.second), range.second}) {
    series.points.push_back({ai, share * roof.attainable(ai, precision) / 1e12});
  }
  return series;
}

std::pair<double, double> intensity_range(const PointList& points, const std::vector<double>& ridges) {
  double from = 1, to = 100;
  for (const StudyPoint* p : points) {
    from = std::min(from, p->ai);
    to = std::max(to, p->ai);
  }
  for (const double ridge : ridges) to = std::max(to, ridge);
  return {from / 2, to * 3};
}

Chart empty_roofline(const std::string& title) {
  Chart chart;
  chart.title = title;
  chart.x = {.label = "arithmetic intensity (FLOP/byte)", .log_base = 10};
  chart.y = {.label = "performance (TFLOP/s)", .log_base = 10};
  return chart;
}

Series dots(const PointList& points, const std::string& label, bool named, std::size_t color) {
  Series series = {.label = label, .color = color};
  for (const StudyPoint* p : points) {
    series.points.push_back({p->ai, p->flops_per_sec / 1e12, {}, {}, named ? p->label : ""});
  }
  return series;
}

Chart device_chart(Points points, const Roofline& roof) {
  const std::string& device = roof.device().name;
  const auto on_device = points_where(points, [&](const auto& p) { return p.roof && p.device == device; });
  const auto ceilings = roof.ceilings();
  const double highest = ceilings.front().second;
  const auto range = intensity_range(on_device, {highest / roof.bandwidth()});
  const std::vector<Precision> precisions = precisions_on(points, device);
  Chart chart = empty_roofline("Roofline of " + device);

  const Precision fastest = *std::max_element(precisions.begin(), precisions.end(),
                                              [&](Precision a, Precision b) { return roof.peak(a) < roof.peak(b); });
  for (const double share : {0.5, 0.1, 0.01}) {
    chart.series.push_back(
        roof_line(roof, fastest, range, share, fmt::format("{:.0f} % of {}", 100 * share, to_string(fastest))));
    chart.series.back().style = Series::Style::guide;
  }
  std::size_t color = precisions.size() + 1;  // after those of the points
  for (std::size_t i = 0; i < ceilings.size();) {
    const double flops = ceilings[i].second;
    std::vector<std::string> names;
    for (; i < ceilings.size() && ceilings[i].second == flops; ++i) names.push_back(ceilings[i].first);
    if (color % 7 == black) ++color;
    chart.series.push_back({.label = fmt::format("{}: {:.4g} TFLOP/s", fmt::join(names, ", "), flops / 1e12),
                            .style = Series::Style::lines,
                            .points = {{flops / roof.bandwidth(), flops / 1e12}, {range.second, flops / 1e12}},
                            .color = color++});
  }
  chart.series.push_back(
      {.label = fmt::format("memory: {:.4g} GB/s", roof.bandwidth() / 1e9),
       .style = Series::Style::lines,
       .points = {{range.first, range.first * roof.bandwidth() / 1e12}, {highest / roof.bandwidth(), highest / 1e12}},
       .color = black});
  std::size_t dot_color = 1;
  for (const Precision precision : precisions) {
    const auto some = points_where(
        points, [&](const StudyPoint& p) { return p.roof && p.device == device && p.precision == precision; });
    chart.series.push_back(
        dots(some, fmt::format("measured, {}", to_string(precision)), on_device.size() <= max_names, dot_color++));
  }
  return chart;
}

Chart all_devices_chart(Points points, const std::vector<const Roofline*>& roofs) {
  const bool named = points.size() <= max_names;
  std::vector<double> ridges;
  for (const StudyPoint& p : points) {
    if (p.roof) ridges.push_back(p.roof->ridge(p.precision));
  }
  const auto range = intensity_range(points_where(points, [](const auto&) { return true; }), ridges);
  Chart chart = empty_roofline("Rooflines of all devices");
  std::size_t color = 0;
  for (const Roofline* roof : roofs) {
    const std::string& device = roof->device().name;
    for (const Precision precision : precisions_on(points, device)) {
      chart.series.push_back(
          roof_line(*roof, precision, range, 1, fmt::format("{}, {}", device, to_string(precision))));
      chart.series.back().color = color;
      const auto some = points_where(
          points, [&](const StudyPoint& p) { return p.roof && p.device == device && p.precision == precision; });
      chart.series.push_back(dots(some, "", named, color++));
    }
  }
  for (const std::string& environment : environments_of(points)) {
    const auto some = points_where(points, [&](const auto& p) { return !p.roof && p.environment == environment; });
    if (!some.empty()) chart.series.push_back(dots(some, environment + " (peaks unknown)", named, color++));
  }
  return chart;
}

/// Bars of each environment over the steps' `category`, the best where several steps have the same.
std::optional<Chart> bar_chart(Points points, const std::string& title, const std::string& axis,
                               const std::vector<std::string>& categories,
                               const std::function<std::string(const StudyPoint&)>& category,
                               const std::function<std::optional<double>(const StudyPoint&)>& value) {
  if (categories.size() > max_bars) return std::nullopt;
  Chart chart;
  chart.title = title;
  chart.x.categories = categories;
  chart.y.label = axis;
  double low = 0, high = 0;
  for (const std::string& environment : environments_of(points)) {
    std::map<std::string, double> best;
    for (const StudyPoint& p : points) {
      const auto v = p.steps && p.environment == environment ? value(p) : std::nullopt;
      if (v) best[category(p)] = std::max(best[category(p)], *v);
    }
    Series series = {.label = environment, .style = Series::Style::bars};
    for (std::size_t i = 0; i < categories.size(); ++i) {
      const auto found = best.find(categories[i]);
      if (found == best.end()) continue;
      series.points.push_back({static_cast<double>(i), found->second});
      low = low == 0 ? found->second : std::min(low, found->second);
      high = std::max(high, found->second);
    }
    chart.series.push_back(std::move(series));
  }
  if (high == 0) return std::nullopt;
  if (high > 50 * low) chart.y.log_base = 10;
  return chart;
}

/// One line per environment, network and setting.
Chart batch_scaling_chart(Points points, const std::string& throughput) {
  const bool several = environments_of(points).size() > 1;
  Chart chart;
  chart.title = "Batch scaling";
  chart.x = {.label = "batch size", .log_base = 2};
  chart.y = {.label = throughput, .log_base = 10};
  for (const StudyPoint& p : points) {
    if (!p.steps) continue;
    const std::string label = fmt::format("{}{}{}{}", several ? p.environment + ", " : "", p.network,
                                          p.setting.empty() ? "" : ", ", p.setting);
    Series& line = chart.series_of(label, Series::Style::lines_points);
    line.group = p.network;
    line.points.push_back({static_cast<double>(p.steps->workload.batch_size), p.steps->images_per_sec});
  }
  for (Series& line : chart.series) line.sort_by_x();
  return chart;
}

void add_new(std::vector<std::string>& list, const std::string& text) {
  if (std::find(list.begin(), list.end(), text) == list.end()) list.push_back(text);
}

}  // namespace

std::vector<std::string> draw_rooflines(Points points, const std::string& folder, const ChartStyle& style) {
  std::vector<std::string> files;
  const auto drawn = [&](const std::optional<Chart>& chart, const std::string& name) {
    if (!chart) return;
    for (std::string& file : draw(*chart, fmt::format("{}/{}", folder, name), style)) files.push_back(std::move(file));
  };
  const std::vector<const Roofline*> roofs = roofs_of(points);
  for (const Roofline* roof : roofs) {
    drawn(device_chart(points, *roof), "roofline_" + file_stem(roof->device().name));
  }
  if (roofs.size() > 1) drawn(all_devices_chart(points, roofs), "roofline");
  if (environments_of(points).empty()) return files;

  PointList steps = points_where(points, [](const StudyPoint& p) { return p.steps.has_value(); });
  std::vector<std::string> networks, labels;  // labels by network, then batch size
  for (const StudyPoint* p : steps) add_new(networks, p->network);
  const auto order = [&](const StudyPoint* p) {
    return std::pair(std::find(networks.begin(), networks.end(), p->network), p->steps->workload.batch_size);
  };
  std::stable_sort(steps.begin(), steps.end(), [&](auto* a, auto* b) { return order(a) < order(b); });
  for (const StudyPoint* p : steps) add_new(labels, p->label);
  const auto label = [](const StudyPoint& p) { return p.label; };
  const std::string throughput = fmt::format("throughput ({})", throughput_unit(workloads_of(points)));
  const auto rate = [](const StudyPoint& p) { return std::optional(p.steps->images_per_sec); };
  drawn(bar_chart(points, "Throughput", throughput, labels, label, rate), "throughput");
  drawn(bar_chart(
            points, "Networks at their best batch size", throughput, networks,
            [](const StudyPoint& p) { return p.network; }, rate),
        "models");
  drawn(bar_chart(points, "Efficiency", "share of what the roof allows (%)", labels, label,
                  [](const StudyPoint& p) { return p.efficiency ? std::optional(100 * *p.efficiency) : std::nullopt; }),
        "efficiency");
  drawn(batch_scaling_chart(points, throughput), "batch_scaling");
  return files;
}

}  // namespace perfpred
