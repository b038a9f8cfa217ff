// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>

#include "tools/chart.h"

namespace perfpred {

/// How many times as wide and high as a chart of one panel this one should be for its panels to be legible.
[[nodiscard]] double times_as_large(const Chart& chart);

/// The commands by which gnuplot draws a chart, without `set terminal`. Sizes are pixels.
[[nodiscard]] std::string chart_script(const Chart& chart, const std::string& title, double width, double height);

}  // namespace perfpred
