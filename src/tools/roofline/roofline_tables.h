// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tools/roofline/roofline_study.h"

namespace perfpred {

/// Steps that differ in nothing but their environment.
struct ComparedSteps {
  std::vector<const StudyPoint*> by_environment;  ///< in the order of environments_of(); null where not measured
  [[nodiscard]] const StudyPoint& any() const;
};

/// Every training step is in exactly one row. In order of appearance.
[[nodiscard]] std::vector<ComparedSteps> compare_environments(std::span<const StudyPoint> points);

struct Speedup {
  const StudyPoint *fast, *slow;
  double times;  ///< images/s over images/s, >= 1
};

/// Every pair of environments in which the same step was measured, once.
[[nodiscard]] std::vector<Speedup> speedups_of(std::span<const StudyPoint> points);

/// Writes summary.csv (a row per step), throughput.csv and times.csv (a column per environment) and speedups.csv; no
/// file if no point is a training step. @returns the paths. @throws InputError if no file can be made there, Error if
/// the disk refuses
std::vector<std::string> write_roofline_tables(std::span<const StudyPoint> points, const std::string& folder);

}  // namespace perfpred
