// SPDX-License-Identifier: Apache-2.0
#include "tools/roofline/roofline_tables.h"

#include <algorithm>
#include <utility>

#include "text/csv.h"
#include "text/files.h"
#include "text/parse.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

using CsvTable = std::vector<std::vector<std::string>>;

CsvTable summary_table(std::span<const StudyPoint> points) {
  CsvTable table = {{"environment", "device", "network", "batch_size", "iterations", "mean_ms", "std_ms", "min_ms",
                     "max_ms", "images_per_sec", "flops_per_sec", "ai", "bound", "margin", "efficiency", "ridge"}};
  static constexpr std::initializer_list<const char*> settings = {"precision", "input",      "classes", "optimizer",
                                                                  "layout",    "cuda_graph", "threads"};
  table[0].insert(table[0].end(), settings.begin(), settings.end());
  for (const StudyPoint& p : points) {
    if (!p.steps) continue;
    const TimedSteps& s = *p.steps;
    table.push_back({p.environment, p.roof ? p.device : "", p.network, std::to_string(s.workload.batch_size),
                     std::to_string(s.iterations), number_text(s.mean_ms), number_text(s.std_ms), number_text(s.min_ms),
                     number_text(s.max_ms), number_text(s.images_per_sec), number_text(p.flops_per_sec),
                     number_text(p.ai), p.bound ? std::string(to_string(*p.bound)) : "", number_text(p.margin),
                     number_text(p.efficiency), p.roof ? number_text(p.roof->ridge(p.precision)) : ""});
    for (const char* field : settings) table.back().push_back(field_text(s.workload, field));
  }
  return table;
}

/// One column per environment.
CsvTable environments_table(std::span<const StudyPoint> points, double TimedSteps::*value) {
  CsvTable table = {{"network", "batch_size", "setting"}};
  const std::vector<std::string> environments = environments_of(points);
  table[0].insert(table[0].end(), environments.begin(), environments.end());
  for (const ComparedSteps& row : compare_environments(points)) {
    const StudyPoint& any = row.any();
    table.push_back({any.network, std::to_string(any.steps->workload.batch_size), any.setting});
    for (const StudyPoint* p : row.by_environment) table.back().push_back(p ? number_text((*p->steps).*value) : "");
  }
  return table;
}

CsvTable speedups_table(std::span<const StudyPoint> points) {
  CsvTable table = {{"network", "batch_size", "setting", "environment", "baseline", "speedup"}};
  for (const Speedup& s : speedups_of(points)) {
    table.push_back({s.fast->network, std::to_string(s.fast->steps->workload.batch_size), s.fast->setting,
                     s.fast->environment, s.slow->environment, number_text(s.times)});
  }
  return table;
}

}  // namespace

const StudyPoint& ComparedSteps::any() const {
  return **std::find_if(by_environment.begin(), by_environment.end(), [](const auto* p) { return p != nullptr; });
}

std::vector<ComparedSteps> compare_environments(std::span<const StudyPoint> points) {
  const std::vector<std::string> environments = environments_of(points);
  std::vector<ComparedSteps> rows;
  std::multimap<std::string, std::size_t> rows_of_label;
  for (const StudyPoint& p : points) {
    if (!p.steps) continue;
    const auto column = static_cast<std::size_t>(std::find(environments.begin(), environments.end(), p.environment) -
                                                 environments.begin());
    const auto [begin, end] = rows_of_label.equal_range(p.label);
    const auto free =
        std::find_if(begin, end, [&](const auto& row) { return rows[row.second].by_environment[column] == nullptr; });
    const std::size_t row = free == end ? rows.size() : free->second;
    if (free == end) {
      rows_of_label.emplace(p.label, row);
      rows.push_back({std::vector<const StudyPoint*>(environments.size())});
    }
    rows[row].by_environment[column] = &p;
  }
  return rows;
}

std::vector<Speedup> speedups_of(std::span<const StudyPoint> points) {
  std::vector<Speedup> speedups;
  for (const ComparedSteps& row : compare_environments(points)) {
    for (auto a = row.by_environment.begin(); a != row.by_environment.end(); ++a) {
      for (auto b = a + 1; b != row.by_environment.end(); ++b) {
        if (*a == nullptr || *b == nullptr) continue;
        const auto rate = [](const StudyPoint* p) { return p->steps->images_per_sec; };
        const auto [fast, slow] = rate(*a) >= rate(*b) ? std::pair(*a, *b) : std::pair(*b, *a);
        speedups.push_back({fast, slow, rate(fast) / rate(slow)});
      }
    }
  }
  return speedups;
}

std::vector<std::string> write_roofline_tables(std::span<const StudyPoint> points, const std::string& folder) {
  if (environments_of(points).empty()) return {};
  std::vector<std::string> files;
  const auto write = [&](const std::string& name, const CsvTable& table) {
    std::string text;
    for (const auto& row : table) text += csv_line(row);
    files.push_back(folder + "/" + name);
    write_file(files.back(), text);
  };
  write("summary.csv", summary_table(points));
  write("throughput.csv", environments_table(points, &TimedSteps::images_per_sec));
  write("times.csv", environments_table(points, &TimedSteps::mean_ms));
  write("speedups.csv", speedups_table(points));
  return files;
}

}  // namespace perfpred
