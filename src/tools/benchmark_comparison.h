// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// Whether a time has changed; `unknown` if the interval includes both.
enum class Verdict { same, faster, slower, unknown };

[[nodiscard]] std::string_view to_string(Verdict verdict);

/// One benchmark in two results: new time / old time with its 95 % confidence interval, as far as they are known.
struct ComparedBenchmark {
  std::string name;
  Verdict verdict = Verdict::unknown;
  std::optional<double> ratio, low, high;
};

/// Compares two JSON results of Google Benchmark, in the order of the old one; benchmarks that are in one result only
/// come last and are `unknown`. The interval is Welch's on the logarithms of the repetitions. A benchmark with one
/// repetition has an interval if it has the counters `low_ms` and `high_ms` (95 % bounds of its time). An interval
/// within 3 % of 1 means `same`; otherwise one that excludes 1 means `faster` or `slower`.
/// @throws InputError if a file cannot be read or is not such a result
[[nodiscard]] std::vector<ComparedBenchmark> compare_benchmarks(const std::string& old_path,
                                                                const std::string& new_path);

/// The rows as a table for people.
[[nodiscard]] std::string comparison_text(const std::vector<ComparedBenchmark>& rows);

}  // namespace perfpred
