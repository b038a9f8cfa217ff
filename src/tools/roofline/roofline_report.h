// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "tools/chart.h"
#include "tools/roofline/roofline_study.h"

namespace perfpred {

/// The points as a table for people.
[[nodiscard]] std::string roofline_text(std::span<const StudyPoint> points);

/// Writes tables, plots and report.md, which shows them. @returns the paths of all files
/// @throws InputError if there is no point or the folder cannot be made, Error if gnuplot is missing or the disk
/// refuses
std::vector<std::string> write_roofline_report(const RooflineStudy& study, const std::string& folder,
                                               const ChartStyle& style = {});

}  // namespace perfpred
