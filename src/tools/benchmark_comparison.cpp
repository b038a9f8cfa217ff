// SPDX-License-Identifier: Apache-2.0
#include "tools/benchmark_comparison.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "statistics/confidence.h"
#include "text/enum_names.h"
#include "text/json.h"
#include "text/parse.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;

constexpr double same_within = 1.03;

/// Logarithms of one benchmark's times in seconds.
struct Times {
  std::string name;
  std::vector<double> logs;
  std::optional<double> known_error;  // standard error of a single repetition
};

double unit_in_seconds(const std::string& unit, const std::string& path) {
  if (unit == "ns") return 1e-9;
  if (unit == "us") return 1e-6;
  if (unit == "ms") return 1e-3;
  if (unit == "s") return 1;
  throw InputError(fmt::format("{}: time unit \"{}\" is not known", path, shown(unit)));
}

/// Of the logarithm, from the ends of a 95 % interval. @throws InputError for one whose ends are in the wrong order
std::optional<double> stated_error(const Json& row, const std::string& name, const std::string& path) {
  if (!row.contains("low_ms") || !row.contains("high_ms")) return std::nullopt;
  const double low = row["low_ms"].get<double>(), high = row["high_ms"].get<double>();
  if (!(low >= 0 && high >= low && std::isfinite(high))) {
    throw InputError(
        fmt::format("{}: benchmark \"{}\" has an interval from {} to {} ms", path, shown(name), low, high));
  }
  return low > 0 ? std::optional(std::log(high / low) / (2 * z95)) : std::nullopt;
}

std::vector<Times> read_times(const std::string& path) {
  const Json document = read_json<Json>(path);
  if (!document.is_object() || !document.contains("benchmarks") || !document["benchmarks"].is_array()) {
    throw InputError(fmt::format("{}: is not a JSON result of Google Benchmark", path));
  }
  std::vector<Times> all;
  try {
    for (const Json& row : document["benchmarks"]) {
      if (row.value("run_type", "iteration") != "iteration" || row.value("error_occurred", false)) continue;
      const std::string name = row.value("run_name", row.at("name").get<std::string>());
      const double sec = row.at("real_time").get<double>() * unit_in_seconds(row.value("time_unit", "ns"), path);
      if (!(sec > 0)) throw InputError(fmt::format("{}: benchmark \"{}\" has no positive time", path, shown(name)));
      auto found = std::find_if(all.begin(), all.end(), [&name](const Times& t) { return t.name == name; });
      if (found == all.end()) {
        all.push_back({name, {}, std::nullopt});
        found = all.end() - 1;
      }
      found->logs.push_back(std::log(sec));
      if (const auto error = stated_error(row, name, path)) found->known_error = error;
    }
  } catch (const Json::exception&) {
    throw InputError(fmt::format("{}: a benchmark lacks its name or time", path));
  }
  if (all.empty()) throw InputError(path + ": has no benchmark that was run");
  return all;
}

/// Mean of the logarithms, its squared standard error and its degrees of freedom.
struct Estimate {
  double mean = 0;
  double error2 = 0;
  double freedom = 0;
};

std::optional<Estimate> estimate(const Times& times) {
  const auto n = static_cast<double>(times.logs.size());
  Estimate result;
  for (const double x : times.logs) result.mean += x / n;
  if (times.logs.size() < 2) {
    if (!times.known_error) return std::nullopt;
    constexpr double many = 1e6;
    result.error2 = *times.known_error * *times.known_error;
    result.freedom = many;
    return result;
  }
  for (const double x : times.logs) result.error2 += (x - result.mean) * (x - result.mean) / (n - 1) / n;
  result.freedom = n - 1;
  return result;
}

ComparedBenchmark compare(const Times& before, const Times& after) {
  ComparedBenchmark row;
  row.name = before.name;
  const auto a = estimate(before);
  const auto b = estimate(after);
  if (!a || !b) {
    row.ratio = std::exp(after.logs.front() - before.logs.front());
    return row;
  }
  const double error2 = a->error2 + b->error2;
  const double freedom =
      error2 > 0 ? error2 * error2 / (a->error2 * a->error2 / a->freedom + b->error2 * b->error2 / b->freedom) : 1;
  const double reach = student_quantile(z95, freedom) * std::sqrt(error2);
  const double difference = b->mean - a->mean;
  row.ratio = std::exp(difference);
  row.low = std::exp(difference - reach);
  row.high = std::exp(difference + reach);
  if (*row.low > 1 / same_within && *row.high < same_within) {
    row.verdict = Verdict::same;
  } else if (*row.high < 1) {
    row.verdict = Verdict::faster;
  } else if (*row.low > 1) {
    row.verdict = Verdict::slower;
  }
  return row;
}

}  // namespace

std::string_view to_string(Verdict verdict) { return enumerator_name_of<Verdict::unknown>(verdict); }

std::vector<ComparedBenchmark> compare_benchmarks(const std::string& old_path, const std::string& new_path) {
  const std::vector<Times> before = read_times(old_path);
  const std::vector<Times> after = read_times(new_path);
  const auto find = [](const std::vector<Times>& list, const std::string& name) {
    return std::find_if(list.begin(), list.end(), [&name](const Times& t) { return t.name == name; });
  };
  std::vector<ComparedBenchmark> rows;
  std::vector<ComparedBenchmark> alone;
  for (const Times& times : before) {
    const auto other = find(after, times.name);
    if (other == after.end()) {
      alone.emplace_back().name = times.name;
    } else {
      rows.push_back(compare(times, *other));
    }
  }
  for (const Times& times : after) {
    if (find(before, times.name) == before.end()) alone.emplace_back().name = times.name;
  }
  rows.insert(rows.end(), alone.begin(), alone.end());
  return rows;
}

std::string comparison_text(const std::vector<ComparedBenchmark>& rows) {
  std::size_t width = 4;
  for (const ComparedBenchmark& row : rows) width = std::max(width, printable(row.name).size());
  std::string text = fmt::format("{:{}}  {:10}  new/old (95 %)\n", "name", width, "verdict");
  for (const ComparedBenchmark& row : rows) {
    const std::string interval = row.low ? fmt::format(" ({:.3f} to {:.3f})", *row.low, *row.high) : "";
    const std::string_view verdict = row.verdict == Verdict::unknown ? "can't tell" : to_string(row.verdict);
    text += fmt::format("{:{}}  {:10}  {}{}\n", printable(row.name), width, verdict,
                        row.ratio ? fmt::format("{:.3f}", *row.ratio) : "-", interval);
  }
  return text;
}

}  // namespace perfpred
