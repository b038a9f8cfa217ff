// SPDX-License-Identifier: Apache-2.0
#include "tools/study_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "statistics/estimate.h"
#include "tools/markdown.h"
#include "workload/workload_columns.h"
#include "workload/workload_labels.h"

namespace perfpred {
namespace {

template <typename Row>
WorkloadFields fields_of(const std::vector<Row>& rows) {
  std::vector<Workload> workloads;
  for (const Row& row : rows) workloads.push_back(row.workload);
  return differing_fields(workloads, {});
}

std::string measured_section(const std::vector<AggregateRow>& rows) {
  std::set<std::string> networks, devices;
  std::vector<const AggregateRow*> timed;
  std::int64_t runs = 0, rejected = 0;
  for (const AggregateRow& row : rows) {
    networks.emplace(row.workload.network.family());
    devices.insert(row.workload.device);
    runs += row.n;
    rejected += row.n_rejected;
    if (row.avg_time_mean) timed.push_back(&row);
  }
  std::string out =
      fmt::format("## What was measured\n\n{} configurations of {} on {}: {} runs, {} of them rejected.\n\n",
                  rows.size(), fmt::join(networks, ", "), fmt::join(devices, ", "), runs, rejected);
  if (timed.empty()) return out;
  const WorkloadFields fields = fields_of(rows);
  std::sort(timed.begin(), timed.end(), [](auto* a, auto* b) { return *a->avg_time_mean < *b->avg_time_mean; });
  out += markdown_head({"", "configuration", "time per epoch (s)", "samples/s", "accuracy"});
  for (const auto& [what, row] :
       {std::pair("shortest epoch", timed.front()), std::pair("median", timed[timed.size() / 2]),
        std::pair("longest epoch", timed.back())}) {
    out += markdown_row({what, name_of(row->workload, fields), fmt::format("{:.4g}", *row->avg_time_mean),
                         fmt::format("{:.4g}", *row->thr_mean),
                         row->acc_mean ? fmt::format("{:.3f}", *row->acc_mean) : "-"});
  }
  return out + "\n";
}

/// Logarithms of ratios of times between pairs of configurations that differ in one field only, by its two values.
std::map<std::pair<double, double>, std::vector<double>> effects_of(const WorkloadColumn& field,
                                                                    const std::vector<AggregateRow>& rows) {
  std::map<std::string, std::map<double, double>> others;  // all other fields, then the field's value: seconds
  for (const AggregateRow& row : rows) {
    const std::string value = field.get(row.workload);
    if (!row.avg_time_mean || value.empty()) continue;
    std::string rest = row.env;
    for (const WorkloadColumn& other : workload_columns()) {
      if (other.name != field.name) rest += '|' + other.get(row.workload);
    }
    others[rest].emplace(std::stod(value), *row.avg_time_mean);
  }
  std::map<std::pair<double, double>, std::vector<double>> steps;
  for (const auto& [rest, times] : others) {
    for (auto from = times.begin(), to = std::next(from); to != times.end(); ++from, ++to) {
      steps[{from->first, to->first}].push_back(std::log(to->second / from->second));
    }
  }
  return steps;
}

std::string effects_section(const std::vector<AggregateRow>& rows) {
  constexpr std::size_t fewest = 3;  // pairs, for a range to mean something
  std::string table;
  for (const char* name : {"depth", "base_filters", "batch_size"}) {
    for (const auto& [ends, ratios] : effects_of(workload_column(name), rows)) {
      if (ratios.size() < fewest) continue;
      double mean = 0;
      for (const double ratio : ratios) mean += ratio / static_cast<double>(ratios.size());
      const auto [low, high] = std::minmax_element(ratios.begin(), ratios.end());
      table += markdown_row({name, fmt::format("{:g} to {:g}", ends.first, ends.second), std::to_string(ratios.size()),
                             fmt::format("{:.2f}", std::exp(mean)),
                             fmt::format("{:.2f} .. {:.2f}", std::exp(*low), std::exp(*high))});
    }
  }
  if (table.empty()) return "";
  return "## What changes the time\n\nTime per epoch, relative to the same configuration with the smaller value: "
         "geometric mean over the pairs that differ in nothing else, and range. Steps with fewer than three pairs are "
         "left out.\n\n" +
         markdown_head({"field", "from, to", "pairs", "times", "range"}) + table + "\n";
}

std::string repeats_section(const std::vector<Run>& runs) {
  if (runs.empty()) return "";
  Aggregator aggregator;
  for (const Run& run : runs) aggregator.add(run);
  std::vector<double> spreads;
  for (const AggregateRow& row : aggregator.rows()) {
    if (row.n >= 2) spreads.push_back(*row.avg_time_std / *row.avg_time_mean);
  }
  std::string out = "## Repeats\n\n";
  if (!spreads.empty()) {
    std::sort(spreads.begin(), spreads.end());
    out += fmt::format(
        "{} configurations were run more than once. Standard deviation over mean: median {:.2f} %, largest {:.2f} %.\n",
        spreads.size(), 100 * spreads[spreads.size() / 2], 100 * spreads.back());
  }
  aggregator.for_each_rejected([&](const RejectedRun& run) {
    out += fmt::format("- rejected: {} at {}: {}\n", run.key, run.timestamp_utc, run.reason);
  });
  return out + "\n";
}

std::string errors_section(const std::vector<PredictionRow>& rows) {
  constexpr std::size_t listed = 40;
  std::vector<std::pair<double, const PredictionRow*>> errors;
  double sum = 0;
  std::size_t covered = 0;
  for (const PredictionRow& row : rows) {
    if (!row.measured_time_sec) continue;
    errors.emplace_back(row.time_sec.p50 / *row.measured_time_sec - 1, &row);
    sum += std::abs(errors.back().first);
    if (covers(row.time_sec, *row.measured_time_sec)) ++covered;
  }
  if (errors.empty()) return "";
  const auto n = static_cast<double>(errors.size());
  std::stable_sort(errors.begin(), errors.end(),
                   [](const auto& a, const auto& b) { return std::abs(a.first) > std::abs(b.first); });
  std::string out = fmt::format(
      "## Predictions\n\n{} configurations, mean error {:.1f} %, the 90 % interval holds {:.0f} %. The largest errors "
      "first{}:\n\n",
      errors.size(), 100 * sum / n, 100 * static_cast<double>(covered) / n,
      errors.size() > listed ? fmt::format(" ({} of {})", listed, errors.size()) : "");
  out += markdown_head({"configuration", "measured (s)", "predicted (s)", "90 % interval", "error"});
  const WorkloadFields fields = fields_of(rows);
  if (errors.size() > listed) errors.resize(listed);
  for (const auto& [error, row] : errors) {
    const Quantiles& q = row->time_sec;
    out += markdown_row({name_of(row->workload, fields), fmt::format("{:.4g}", *row->measured_time_sec),
                         fmt::format("{:.4g}", q.p50), fmt::format("{:.4g} .. {:.4g}", q.p05, q.p95),
                         fmt::format("{:+.1f} %", 100 * error)});
  }
  return out + "\n";
}

std::string sweep_section(const std::vector<PredictionRow>& rows) {
  if (rows.empty()) return "";
  const WorkloadFields fields = fields_of(rows);
  std::string out =
      "## What if\n\n" + markdown_head({"configuration", "time per epoch (s)", "90 % interval", "samples/s"});
  for (const PredictionRow& row : rows) {
    out += markdown_row({name_of(row.workload, fields), fmt::format("{:.4g}", row.time_sec.p50),
                         fmt::format("{:.4g} .. {:.4g}", row.time_sec.p05, row.time_sec.p95),
                         fmt::format("{:.4g}", row.images_per_sec.p50)});
  }
  return out + "\n";
}

std::string plan_section(const PlanFront& plan) {
  if (plan.front.empty() && plan.planned.empty()) return "";
  double cost = 0, value = 0;
  for (const PlanFront::Run& run : plan.planned) {
    cost += run.cost_sec;
    value += run.value;
  }
  return fmt::format(
      "## Plan\n\n{} runs are planned: {:.6g} s, value {:.6g}. {} runs are on the Pareto front: none is "
      "cheaper and worth more.\n\n",
      plan.planned.size(), cost, value, plan.front.size());
}

}  // namespace

std::string study_report(const Study& study, const std::vector<std::string>& pictures) {
  std::string out = "# Report\n\n";
  if (!study.rows.empty()) out += measured_section(study.rows) + effects_section(study.rows);
  return out + repeats_section(study.runs) + errors_section(study.predictions) + sweep_section(study.sweep) +
         plan_section(study.plan) + "## Plots\n\n" + markdown_pictures(pictures);
}

}  // namespace perfpred
