// SPDX-License-Identifier: Apache-2.0
#include "tools/roofline_study.h"

#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <functional>
#include <set>
#include <utility>

#include "text/files.h"
#include "text/csv.h"
#include "tools/chart.h"

namespace perfpred {
namespace {

std::string percent(const std::optional<double>& fraction) {
  return fraction ? fmt::format("{:.1f} %", 100 * *fraction) : "unknown";
}

std::string bound_text(const RooflinePoint& point) {
  return point.bound ? fmt::format("{} (margin {:.2f})", to_string(*point.bound), *point.margin) : "unknown";
}

/// The roof of one precision as points of a line, over a range of intensities.
Series roof_line(const Roofline& roof, Precision precision, double from, double to, const std::string& label) {
  Series series = {.label = label, .style = Series::Style::lines};
  for (const double ai : {from, std::clamp(roof.ridge(precision), from, to), to}) {
    series.x.push_back(ai);
    series.y.push_back(roof.attainable(ai, precision) / 1e12);
  }
  return series;
}

std::pair<double, double> intensity_range(const std::vector<RooflinePoint>& points, const std::vector<double>& ridges) {
  double from = 1, to = 100;
  for (const RooflinePoint& p : points) {
    from = std::min(from, p.ai);
    to = std::max(to, p.ai);
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

/// Names beside points; those of points that nearly coincide stand together at the first of them.
std::vector<std::string> names_without_overlap(const std::vector<RooflinePoint>& points) {
  std::vector<std::string> names(points.size());
  for (std::size_t i = 0; i < points.size(); ++i) {
    std::size_t at = i;
    for (std::size_t j = 0; j < i && at == i; ++j) {
      const bool near = std::abs(std::log(points[i].ai / points[j].ai)) < std::log(1.3) &&
                        std::abs(std::log(points[i].flops_per_sec / points[j].flops_per_sec)) < std::log(1.25);
      if (near && !names[j].empty()) at = j;
    }
    const std::size_t blank = points[i].label.rfind(' ');
    const bool same_network = at != i && blank != std::string::npos &&
                              points[at].label.compare(0, blank + 1, points[i].label, 0, blank + 1) == 0;
    if (at != i) names[at] += ", ";
    names[at] += same_network ? points[i].label.substr(blank + 1) : points[i].label;
  }
  return names;
}

std::string markdown_row(const std::vector<std::string>& cells) {
  return fmt::format("| {} |\n", fmt::join(cells, " | "));
}

std::string markdown_head(const std::vector<std::string>& names) {
  return markdown_row(names) + markdown_row(std::vector<std::string>(names.size(), "---"));
}

}  // namespace

RooflineStudy::RooflineStudy(DeviceCatalogue catalogue, std::map<std::string, std::string> devices, Precision precision)
    : catalogue_(std::move(catalogue)), devices_(std::move(devices)), precision_(precision) {}

void RooflineStudy::set_roof(const Roofline& roof) { by_hand_ = std::make_shared<const Roofline>(roof); }

const Roofline* RooflineStudy::roof_of(const std::string& environment, const std::string& device) {
  if (const auto known = roof_by_environment_.find(environment); known != roof_by_environment_.end()) {
    return known->second.get();
  }
  environments_.push_back(environment);
  auto& roof = roof_by_environment_[environment];
  if (by_hand_) {
    roof = by_hand_;
    return roof.get();
  }
  std::string name = device;
  const auto mapped = devices_.find(environment), every = devices_.find("");
  const bool chosen = mapped != devices_.end() || every != devices_.end();
  if (chosen) name = mapped != devices_.end() ? mapped->second : every->second;
  const bool any_cpu = name == "CPU" || name == "cpu" || name == "unknown" || name.empty();
  if (any_cpu && !chosen) {
    warnings_.push_back(
        fmt::format("environment \"{}\" names no device, so its peaks are unknown; say which it was with "
                    "--device \"{}=NAME\" (cpu: this machine's, measured)",
                    environment, environment));
    return nullptr;
  }
  roof = std::make_shared<const Roofline>(catalogue_.find_measured(name));
  return roof.get();
}

void RooflineStudy::check_devices() const {
  for (const auto& [environment, device] : devices_) {
    if (environment.empty() || roof_by_environment_.contains(environment)) continue;
    std::string known;
    for (const std::string& name : environments_) {
      if (!name.empty()) known += fmt::format("{}\"{}\"", known.empty() ? " but of " : ", ", name);
    }
    throw InputError(fmt::format("--device {}={}: no measurement is of environment \"{}\"{}", environment, device,
                                 environment, known));
  }
}

std::vector<const Roofline*> RooflineStudy::roofs() const {
  std::vector<const Roofline*> all;
  for (const std::string& environment : environments_) {
    const Roofline* roof = roof_by_environment_.at(environment).get();
    const auto same = [roof](const Roofline* other) { return other->device().name == roof->device().name; };
    if (roof != nullptr && std::none_of(all.begin(), all.end(), same)) all.push_back(roof);
  }
  return all;
}

void RooflineStudy::add_step(Step step, const Roofline* roof, const OpGraph& graph, Precision precision) {
  const OpTotals totals = graph.totals();
  const double flops = totals.flops, bytes = static_cast<double>(totals.bytes());
  const double rate = flops / (step.mean_ms / 1e3);
  step.point = points_.size();
  if (roof != nullptr) {
    points_.push_back(roof->place(step.label, flops / bytes, rate, precision));
    precision_by_device_[roof->device().name] = precision;
    if (const StepLimits limits = roof->limits(graph, precision); limits.bound == Bound::launch) {
      points_.back().bound = limits.bound;
      points_.back().margin = limits.margin;
    }
    if (*points_.back().efficiency > 1) {
      warnings_.push_back(fmt::format("{}, {}: faster than the roof of {} in {} allows; device or precision is another",
                                      step.environment, step.label, roof->device().name, to_string(precision)));
    }
  } else {
    points_.push_back({step.environment, step.label, flops / bytes, rate, {}, {}, {}});
  }
  steps_.push_back(std::move(step));
}

void RooflineStudy::add(const IterationSummary& summary) {
  warnings_.insert(warnings_.end(), summary.warnings.begin(), summary.warnings.end());
  for (const IterationStats& row : summary.rows) {
    const Roofline* roof = roof_of(row.environment, row.device);
    Workload workload = Workload::zoo(row.network, row.batch_size);
    workload.optimizer = Optimizer::nesterov;
    workload.precision = precision_;
    add_step({row.environment, row.network, row.batch_size, row.iterations,
              fmt::format("{} b{}", row.network, row.batch_size), row.mean_ms, row.images_per_sec, row.std_ms,
              row.min_ms, row.max_ms, 0},
             roof, workload.graph(), precision_);
  }
}

void RooflineStudy::add(std::span<const AggregateRow> rows) {
  const std::size_t before = steps_.size();
  for (const AggregateRow& row : rows) {
    if (!row.avg_time_mean) continue;
    Workload workload = row.workload;
    if (workload.precision == Precision::unknown) workload.precision = precision_;
    const Roofline* roof = roof_of(workload.device, workload.device);
    std::string network = workload.network;
    if (workload.depth) network += fmt::format(" d{} f{}", *workload.depth, workload.base_filters.value_or(0));
    const double step_ms = *row.avg_time_mean * 1e3 / static_cast<double>(row.steps_per_epoch);
    add_step({workload.device,
              network,
              workload.batch_size,
              row.steps_per_epoch * row.n,
              fmt::format("{} b{}", network, workload.batch_size),
              step_ms,
              *row.thr_mean,
              {},
              {},
              {},
              0},
             roof, workload.graph(), workload.precision);
  }
  if (steps_.size() == before) throw InputError("no configuration has a time: there is no step to place");
}

void RooflineStudy::add(const NcuReport& report, const std::string& label) {
  const auto place = [&](const std::string& name, const NcuTotals& totals) {
    const auto ai = totals.arithmetic_intensity();
    if (totals.kernels > 0 && !(totals.time_sec > 0)) {
      warnings_.push_back(fmt::format("{}: its kernels took 0 s, so it has no rate and no point", name));
    }
    if (ai && *ai > 0 && totals.time_sec > 0) add(name, *ai, totals.flops_per_sec());
  };
  place(label, report.total);
  for (const NcuTotals& range : report.ranges) place(label + " " + range.name, range);
  warnings_.insert(warnings_.end(), report.warnings.begin(), report.warnings.end());
}

void RooflineStudy::add(const std::string& label, double ai, double flops_per_sec) {
  if (!by_hand_ && !devices_.contains("")) throw InputError("give --device, or --peak-flops and --peak-bw");
  const Roofline* roof = roof_of("", "");
  points_.push_back(roof->place(label, ai, flops_per_sec, precision_));
  precision_by_device_[roof->device().name] = precision_;
}

std::string RooflineStudy::text() const {
  std::string out = fmt::format("{:<27} {:<28}{:>10}{:>12}{:>10}  {:<10}{:>7}{:>12}\n", "device", "point", "FLOP/byte",
                                "GFLOP/s", "ridge", "bound", "margin", "efficiency");
  for (const RooflinePoint& p : points_) {
    std::string ridge = "-";
    for (const Roofline* roof : roofs()) {
      if (roof->device().name == p.device) {
        ridge = fmt::format("{:.1f}", roof->ridge(precision_by_device_.at(p.device)));
      }
    }
    out += fmt::format("{:<27} {:<28}{:>10.2f}{:>12.1f}{:>10}  {:<10}{:>7}{:>12}\n", p.device, p.label, p.ai,
                       p.flops_per_sec / 1e9, ridge, p.bound ? to_string(*p.bound) : "unknown",
                       p.margin ? fmt::format("{:.2f}", *p.margin) : "-", percent(p.efficiency));
  }
  return out;
}

std::vector<std::string> RooflineStudy::write(const std::string& folder) const {
  if (points_.empty()) throw InputError("there is nothing to report");
  make_folder(folder);
  std::vector<std::string> files = write_tables(folder);
  const std::vector<std::string> plots = write_plots(folder);
  files.insert(files.end(), plots.begin(), plots.end());
  files.push_back(folder + "/report.md");
  write_file(files.back(), report(plots));
  return files;
}

std::vector<std::string> RooflineStudy::write_tables(const std::string& folder) const {
  if (steps_.empty()) return {};
  std::vector<std::string> files;
  const auto write_csv = [&](const char* name, const std::vector<std::vector<std::string>>& rows) {
    std::string text;
    for (const auto& row : rows) text += csv_line(row);
    files.push_back(fmt::format("{}/{}", folder, name));
    write_file(files.back(), text);
  };

  std::vector<std::vector<std::string>> summary = {{"environment", "device", "network", "batch_size", "iterations",
                                                    "mean_ms", "std_ms", "min_ms", "max_ms", "images_per_sec",
                                                    "flops_per_sec", "ai", "bound", "margin", "efficiency"}};
  // One row per network and batch size, one column per environment.
  std::vector<std::pair<std::string, std::map<std::string, const Step*>>> cells;
  for (const Step& step : steps_) {
    const RooflinePoint& p = points_[step.point];
    summary.push_back({step.environment, p.bound ? p.device : "", step.network, std::to_string(step.batch_size),
                       std::to_string(step.iterations), number_text(step.mean_ms), number_text(step.std_ms),
                       number_text(step.min_ms), number_text(step.max_ms), number_text(step.images_per_sec),
                       number_text(p.flops_per_sec), number_text(p.ai), p.bound ? std::string(to_string(*p.bound)) : "",
                       number_text(p.margin), number_text(p.efficiency)});
    auto at = std::find_if(cells.begin(), cells.end(), [&step](const auto& c) { return c.first == step.label; });
    if (at == cells.end()) at = cells.insert(cells.end(), {step.label, {}});
    at->second[step.environment] = &step;
  }
  write_csv("summary.csv", summary);

  for (const auto& [name, value] :
       {std::pair("throughput.csv", &Step::images_per_sec), std::pair("times.csv", &Step::mean_ms)}) {
    std::vector<std::vector<std::string>> table = {{"network", "batch_size"}};
    table[0].insert(table[0].end(), environments_.begin(), environments_.end());
    for (const auto& [label, by_environment] : cells) {
      const Step& any = *by_environment.begin()->second;
      std::vector<std::string> row = {any.network, std::to_string(any.batch_size)};
      for (const std::string& environment : environments_) {
        const auto found = by_environment.find(environment);
        row.push_back(found == by_environment.end() ? "" : number_text(found->second->*value));
      }
      table.push_back(std::move(row));
    }
    write_csv(name, table);
  }

  std::vector<std::vector<std::string>> speedups = {{"network", "batch_size", "environment", "baseline", "speedup"}};
  for (const auto& [label, by_environment] : cells) {
    for (const std::string& environment : environments_) {
      for (const std::string& baseline : environments_) {
        const auto fast = by_environment.find(environment), slow = by_environment.find(baseline);
        if (fast == by_environment.end() || slow == by_environment.end() || environment == baseline) continue;
        if (fast->second->images_per_sec < slow->second->images_per_sec) continue;
        speedups.push_back({fast->second->network, std::to_string(fast->second->batch_size), environment, baseline,
                            number_text(fast->second->images_per_sec / slow->second->images_per_sec)});
      }
    }
  }
  write_csv("speedups.csv", speedups);
  return files;
}

std::vector<std::string> RooflineStudy::write_plots(const std::string& folder) const {
  std::vector<std::string> files;
  const auto drawn = [&](const Chart& chart, const std::string& name) {
    for (std::string& file : draw(chart, fmt::format("{}/{}", folder, name))) files.push_back(std::move(file));
  };
  const auto points_of = [this](const std::string& device) {
    std::vector<RooflinePoint> some;
    std::copy_if(points_.begin(), points_.end(), std::back_inserter(some),
                 [&](const auto& p) { return p.device == device; });
    return some;
  };
  const auto point_series = [](const std::vector<RooflinePoint>& points, const std::string& label, bool named) {
    Series series = {.label = label};
    for (const RooflinePoint& p : points) {
      series.x.push_back(p.ai);
      series.y.push_back(p.flops_per_sec / 1e12);
    }
    if (named) series.names = names_without_overlap(points);
    return series;
  };
  constexpr std::size_t most_names = 16;  // more would cover each other

  const std::vector<const Roofline*> all = roofs();
  for (const Roofline* roof : all) {
    const std::string& device = roof->device().name;
    const Precision precision = precision_by_device_.at(device);
    const auto points = points_of(device);
    const auto [from, to] = intensity_range(points, {roof->ceilings().front().second / roof->bandwidth()});
    Chart chart = empty_roofline("Roofline of " + device);
    for (const double share : {0.5, 0.1, 0.01}) {
      Series line =
          roof_line(*roof, precision, from, to, fmt::format("{:.0f} % of {}", 100 * share, to_string(precision)));
      line.style = Series::Style::guide;
      for (double& y : line.y) y *= share;
      chart.series.push_back(std::move(line));
    }
    const auto ceilings = roof->ceilings();
    int color = 2;  // after those of the points
    for (std::size_t i = 0; i < ceilings.size();) {
      const double flops = ceilings[i].second;
      std::vector<std::string> names;
      for (; i < ceilings.size() && ceilings[i].second == flops; ++i) names.push_back(ceilings[i].first);
      chart.series.push_back({.label = fmt::format("{}: {:.4g} TFLOP/s", fmt::join(names, ", "), flops / 1e12),
                              .style = Series::Style::lines,
                              .x = {flops / roof->bandwidth(), to},
                              .y = {flops / 1e12, flops / 1e12},
                              .color = color++});
      if (color == 6) color = 7;  // black is the memory's
    }
    const double highest = roof->ceilings().front().second;
    chart.series.push_back({.label = fmt::format("memory: {:.4g} GB/s", roof->bandwidth() / 1e9),
                            .style = Series::Style::lines,
                            .x = {from, highest / roof->bandwidth()},
                            .y = {from * roof->bandwidth() / 1e12, highest / 1e12},
                            .color = 6});
    Series measured = point_series(points, "measured", points.size() <= most_names);
    measured.color = 1;
    chart.series.push_back(std::move(measured));
    drawn(chart, "roofline_" + file_stem(device));
  }

  if (all.size() > 1) {
    std::vector<double> ridges;
    for (const Roofline* roof : all) ridges.push_back(roof->ridge(precision_by_device_.at(roof->device().name)));
    const auto [from, to] = intensity_range(points_, ridges);
    Chart chart = empty_roofline("Rooflines of all devices");
    int color = 0;
    for (const Roofline* roof : all) {
      const std::string& device = roof->device().name;
      const Precision precision = precision_by_device_.at(device);
      Series line = roof_line(*roof, precision, from, to, fmt::format("{}, {}", device, to_string(precision)));
      Series dots = point_series(points_of(device), "", points_.size() <= most_names);
      line.color = dots.color = color++;
      chart.series.push_back(std::move(line));
      chart.series.push_back(std::move(dots));
    }
    std::set<std::string> unknown;
    for (const RooflinePoint& p : points_) {
      if (!p.bound) unknown.insert(p.device);
    }
    for (const std::string& environment : unknown) {
      Series dots =
          point_series(points_of(environment), environment + " (peaks unknown)", points_.size() <= most_names);
      dots.color = color++;
      chart.series.push_back(std::move(dots));
    }
    drawn(chart, "roofline");
  }
  if (steps_.empty()) return files;

  std::vector<std::string> networks;
  for (const Step& step : steps_) {
    if (std::find(networks.begin(), networks.end(), step.network) == networks.end()) networks.push_back(step.network);
  }
  std::vector<std::string> labels;
  for (const std::string& network : networks) {
    std::map<std::int64_t, std::string> by_batch;
    for (const Step& step : steps_) {
      if (step.network == network) by_batch.emplace(step.batch_size, step.label);
    }
    for (auto& [batch, label] : by_batch) labels.push_back(std::move(label));
  }
  // Bars become a forest with hundreds of configurations; batch scaling shows those.
  constexpr std::size_t most_bars = 40;
  const auto bars = [&](const char* title, const char* axis, const std::vector<std::string>& categories,
                        const char* name, const std::function<std::optional<double>(const Step&)>& value,
                        const std::string Step::*category) {
    if (categories.size() > most_bars) return;
    Chart chart;
    chart.title = title;
    chart.x.categories = categories;
    chart.y.label = axis;
    double low = 0, high = 0;
    for (const std::string& environment : environments_) {
      Series series = {.label = environment, .style = Series::Style::bars};
      for (std::size_t i = 0; i < categories.size(); ++i) {
        std::optional<double> best;
        for (const Step& step : steps_) {
          if (step.environment != environment || step.*category != categories[i]) continue;
          if (const auto v = value(step); v && (!best || *v > *best)) best = v;
        }
        if (!best) continue;
        series.x.push_back(static_cast<double>(i));
        series.y.push_back(*best);
        low = low == 0 ? *best : std::min(low, *best);
        high = std::max(high, *best);
      }
      chart.series.push_back(std::move(series));
    }
    if (high == 0) return;
    if (high > 50 * low) chart.y.log_base = 10;
    drawn(chart, name);
  };
  bars(
      "Throughput", "throughput (images/s)", labels, "throughput", [](const Step& s) { return s.images_per_sec; },
      &Step::label);
  bars(
      "Networks at their best batch size", "throughput (images/s)", networks, "models",
      [](const Step& s) { return s.images_per_sec; }, &Step::network);
  bars(
      "Efficiency", "share of what the roof allows (%)", labels, "efficiency",
      [this](const Step& s) -> std::optional<double> {
        const auto& efficiency = points_[s.point].efficiency;
        return efficiency ? std::optional(100 * *efficiency) : std::nullopt;
      },
      &Step::label);

  Chart scaling;
  scaling.title = "Batch scaling";
  scaling.x = {.label = "batch size (images)", .log_base = 2};
  scaling.y = {.label = "throughput (images/s)", .log_base = 10};
  for (const std::string& environment : environments_) {
    for (const std::string& network : networks) {
      std::map<std::int64_t, double> by_batch;
      for (const Step& step : steps_) {
        if (step.environment == environment && step.network == network) by_batch[step.batch_size] = step.images_per_sec;
      }
      if (by_batch.empty()) continue;
      Series series = {.label = environments_.size() > 1 ? fmt::format("{}, {}", environment, network) : network,
                       .style = Series::Style::lines_points};
      for (const auto& [batch, rate] : by_batch) {
        series.x.push_back(static_cast<double>(batch));
        series.y.push_back(rate);
      }
      scaling.series.push_back(std::move(series));
    }
  }
  drawn(scaling, "batch_scaling");
  return files;
}

std::string RooflineStudy::report(const std::vector<std::string>& plots) const {
  std::string out = "# Roofline report\n\n";
  if (!warnings_.empty()) {
    out += "## Read this first\n\n";
    for (const std::string& warning : warnings_) out += fmt::format("- {}\n", warning);
    out += "\n";
  }

  out += "## Devices\n\n" +
         markdown_head({"device", "precision", "peak (TFLOP/s)", "bandwidth (GB/s)", "ridge (FLOP/byte)", "source"});
  for (const Roofline* roof : roofs()) {
    const Precision precision = precision_by_device_.at(roof->device().name);
    out += markdown_row({roof->device().name, std::string(to_string(precision)),
                         fmt::format("{:.4g}", roof->peak(precision) / 1e12),
                         fmt::format("{:.4g}", roof->bandwidth() / 1e9), fmt::format("{:.2f}", roof->ridge(precision)),
                         roof->device().source});
  }
  out +=
      "\n## Points\n\nA point lies left of the ridge if memory bounds it. Efficiency is the achieved rate over what "
      "the roof "
      "allows at that intensity; the margin is 0 at the ridge and near 1 far from it.\n\n";
  out += markdown_head({"device", "what", "FLOP/byte", "TFLOP/s", "bound", "efficiency"});
  for (const RooflinePoint& p : points_) {
    out += markdown_row({p.device, p.label, fmt::format("{:.2f}", p.ai), fmt::format("{:.4g}", p.flops_per_sec / 1e12),
                         bound_text(p), percent(p.efficiency)});
  }

  if (!steps_.empty()) {
    out += "\n## Steps\n\n";
    out +=
        markdown_head({"environment", "network", "batch", "iterations", "mean (ms)", "std", "min", "max", "images/s"});
    const auto ms = [](const std::optional<double>& value) { return value ? fmt::format("{:.2f}", *value) : "-"; };
    for (const Step& s : steps_) {
      out += markdown_row({s.environment, s.network, std::to_string(s.batch_size), std::to_string(s.iterations),
                           fmt::format("{:.2f}", s.mean_ms), ms(s.std_ms), ms(s.min_ms), ms(s.max_ms),
                           fmt::format("{:.1f}", s.images_per_sec)});
    }

    std::string speedups;
    for (const Step& fast : steps_) {
      for (const Step& slow : steps_) {
        if (fast.label != slow.label || fast.environment == slow.environment) continue;
        if (fast.images_per_sec <= slow.images_per_sec) continue;
        speedups += markdown_row({fast.label, fast.environment, slow.environment,
                                  fmt::format("{:.2f}", fast.images_per_sec / slow.images_per_sec)});
      }
    }
    if (!speedups.empty()) {
      out += "\n## Speed-ups\n\n" + markdown_head({"what", "faster", "slower", "times"}) + speedups;
    }

    out += "\n## Best and worst\n\nBy efficiency where the peaks are known, else by FLOP/s.\n\n";
    out += markdown_head({"environment", "best", "", "worst", ""});
    for (const std::string& environment : environments_) {
      std::vector<const Step*> some;
      for (const Step& s : steps_) {
        if (s.environment == environment) some.push_back(&s);
      }
      if (some.empty()) continue;
      const auto merit = [this](const Step* s) {
        return points_[s->point].efficiency.value_or(points_[s->point].flops_per_sec);
      };
      const auto [worst, best] =
          std::minmax_element(some.begin(), some.end(), [&](auto* a, auto* b) { return merit(a) < merit(b); });
      const auto shown_merit = [this](const Step* s) {
        const RooflinePoint& p = points_[s->point];
        return p.efficiency ? percent(p.efficiency) : fmt::format("{:.4g} TFLOP/s", p.flops_per_sec / 1e12);
      };
      out += markdown_row({environment, (*best)->label, shown_merit(*best), (*worst)->label, shown_merit(*worst)});
    }
  }

  out += "\n## Plots\n\n";
  for (const std::string& plot : plots) {
    const std::filesystem::path path(plot);
    if (path.extension() == ".png") out += fmt::format("![{}]({})\n\n", path.stem().string(), path.filename().string());
  }
  out +=
      "FLOPs and bytes are those of one training step (forward, loss, backward, optimizer), counted operator by "
      "operator "
      "without reuse in caches; a multiplication and an addition are 2.\n";
  return out;
}

}  // namespace perfpred
