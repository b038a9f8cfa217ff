// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <vector>

#include "tools/chart.h"
#include "tools/roofline/roofline_study.h"

namespace perfpred {

/// Draws `roofline_<device>` for each device, `roofline` if there are several, and for training steps `throughput`,
/// `models`, `efficiency` and `batch_scaling`, each in the formats of the style. @returns the paths
/// @throws Error if gnuplot is missing or fails, InputError if no file can be made in the folder
std::vector<std::string> draw_rooflines(std::span<const StudyPoint> points, const std::string& folder,
                                        const ChartStyle& style = {});

}  // namespace perfpred
