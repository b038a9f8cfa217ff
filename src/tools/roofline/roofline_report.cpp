// SPDX-License-Identifier: Apache-2.0
#include "tools/roofline/roofline_report.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "text/files.h"
#include "tools/markdown.h"
#include "tools/roofline/roofline_plots.h"
#include "tools/roofline/roofline_tables.h"
#include "workload/workload_labels.h"

namespace perfpred {
namespace {

using Points = std::span<const StudyPoint>;

std::string bound_text(const StudyPoint& point) {
  return point.bound ? fmt::format("{} (margin {:.2f})", to_string(*point.bound), *point.margin) : "unknown";
}

/// Whether some environment is not simply a device.
bool has_environments(Points points) {
  return std::any_of(points.begin(), points.end(),
                     [](const StudyPoint& p) { return p.steps && p.environment != p.device; });
}

std::string devices_section(Points points) {
  std::string out = "## Devices\n\n" + markdown_head({"device", "precision", "peak (TFLOP/s)", "bandwidth (GB/s)",
                                                      "ridge (FLOP/byte)", "source"});
  for (const Roofline* roof : roofs_of(points)) {
    for (const Precision precision : precisions_on(points, roof->device().name)) {
      out += markdown_row({roof->device().name, std::string(to_string(precision)),
                           fmt::format("{:.4g}", roof->peak(precision) / 1e12),
                           fmt::format("{:.4g}", roof->bandwidth() / 1e9),
                           fmt::format("{:.2f}", roof->ridge(precision)), roof->device().source});
    }
  }
  return out;
}

std::string points_section(Points points) {
  std::string out =
      "\n## Points\n\nA point lies left of the ridge if memory bounds it. Efficiency is the achieved rate over the "
      "rate "
      "that the roof allows at that intensity. The margin is 0 at the ridge and near 1 far from it.\n\n";
  out += markdown_head({"environment", "device", "what", "precision", "FLOP/byte", "TFLOP/s", "bound", "efficiency"});
  for (const StudyPoint& p : points) {
    out += markdown_row({p.environment, p.device, p.label, std::string(to_string(p.precision)),
                         fmt::format("{:.2f}", p.ai), fmt::format("{:.4g}", p.flops_per_sec / 1e12), bound_text(p),
                         percent_text(p.efficiency)});
  }
  return out;
}

std::string steps_section(Points points) {
  std::string out =
      "\n## Steps\n\n" + markdown_head({"environment", "network", "batch", "setting", "iterations", "mean (ms)", "std",
                                        "min", "max", throughput_unit(workloads_of(points))});
  const auto ms = [](const std::optional<double>& value) { return value ? fmt::format("{:.2f}", *value) : "-"; };
  for (const StudyPoint& p : points) {
    if (!p.steps) continue;
    const TimedSteps& s = *p.steps;
    out += markdown_row({p.environment, p.network, std::to_string(s.workload.batch_size), p.setting,
                         std::to_string(s.iterations), ms(s.mean_ms), ms(s.std_ms), ms(s.min_ms), ms(s.max_ms),
                         fmt::format("{:.1f}", s.images_per_sec)});
  }
  return out;
}

std::string speedups_section(Points points) {
  const std::vector<Speedup> speedups = speedups_of(points);
  if (speedups.empty()) return "";
  std::string out = "\n## Speed-ups\n\n" + markdown_head({"what", "faster", "slower", "times"});
  for (const Speedup& s : speedups) {
    out += markdown_row({s.fast->label, s.fast->environment, s.slow->environment, fmt::format("{:.2f}", s.times)});
  }
  return out;
}

std::string best_and_worst_section(Points points) {
  std::string out = "\n## Best and worst\n\nBy efficiency where the peaks are known, else by FLOP/s.\n\n" +
                    markdown_head({"environment", "best", "", "worst", ""});
  const auto merit = [](const StudyPoint* p) { return p->efficiency.value_or(p->flops_per_sec); };
  const auto merit_text = [](const StudyPoint& p) {
    return p.roof ? percent_text(p.efficiency) : fmt::format("{:.4g} TFLOP/s", p.flops_per_sec / 1e12);
  };
  for (const std::string& environment : environments_of(points)) {
    std::vector<const StudyPoint*> some;
    for (const StudyPoint& p : points) {
      if (p.steps && p.environment == environment) some.push_back(&p);
    }
    const auto [worst, best] =
        std::minmax_element(some.begin(), some.end(), [&](auto* a, auto* b) { return merit(a) < merit(b); });
    out += markdown_row({environment, (*best)->label, merit_text(**best), (*worst)->label, merit_text(**worst)});
  }
  return out;
}

std::string report(const RooflineStudy& study, const std::vector<std::string>& plots) {
  const Points points = study.points();
  std::string out = "# Roofline report\n\n";
  if (!study.warnings().empty()) {
    out += "## Read this first\n\n";
    for (const std::string& warning : study.warnings()) out += fmt::format("- {}\n", warning);
    out += "\n";
  }
  out += devices_section(points) + points_section(points);
  if (!environments_of(points).empty()) {
    out += steps_section(points) + speedups_section(points) + best_and_worst_section(points);
  }
  out += "\n## Plots\n\n" + markdown_pictures(plots);
  return out +
         "FLOPs and bytes of a step (forward, loss, backward, optimizer) are counted operator by operator, without "
         "reuse in caches; a multiplication and an addition are 2.\n";
}

}  // namespace

std::string roofline_text(Points points) {
  const bool environments = has_environments(points);
  constexpr const char* line = "{:<27} {:<28} {:>9} {:>9} {:>11} {:>9}  {:<10} {:>6} {:>11}";
  std::string out = fmt::format(line, "device", "point", "precision", "FLOP/byte", "GFLOP/s", "ridge", "bound",
                                "margin", "efficiency") +
                    (environments ? "  environment\n" : "\n");
  for (const StudyPoint& p : points) {
    out += fmt::format(line, p.device, p.label, to_string(p.precision), fmt::format("{:.2f}", p.ai),
                       fmt::format("{:.1f}", p.flops_per_sec / 1e9),
                       p.roof ? fmt::format("{:.1f}", p.roof->ridge(p.precision)) : "-",
                       p.bound ? to_string(*p.bound) : "unknown", p.margin ? fmt::format("{:.2f}", *p.margin) : "-",
                       percent_text(p.efficiency));
    if (environments) out += "  " + p.environment;
    out += '\n';
  }
  return out;
}

std::vector<std::string> write_roofline_report(const RooflineStudy& study, const std::string& folder,
                                               const ChartStyle& style) {
  if (study.points().empty()) throw InputError("there is no point to report");
  make_folder(folder);
  std::vector<std::string> files = write_roofline_tables(study.points(), folder);
  const std::vector<std::string> plots = draw_rooflines(study.points(), folder, style);
  files.insert(files.end(), plots.begin(), plots.end());
  files.push_back(folder + "/report.md");
  write_file(files.back(), report(study, plots));
  return files;
}

}  // namespace perfpred
