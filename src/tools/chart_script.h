// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <utility>

#include "tools/chart.h"

namespace perfpred {

/// Width and height in pixels at which the panels and categories of a chart are legible.
[[nodiscard]] std::pair<int, int> usual_size(const Chart& chart);

/// The commands by which gnuplot draws a chart, without `set terminal`.
[[nodiscard]] std::string chart_script(const Chart& chart, const std::string& title);

}  // namespace perfpred
