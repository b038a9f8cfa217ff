// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace perfpred {

struct ChartPoint {
  double x = 0, y = 0;
  std::optional<double> low = {}, high = {};  ///< ends of its error bar, or of the band there
  std::string name = {};                      ///< beside it
};

/// One set of points of a chart; either all of them have `low` and `high` or none.
struct Series {
  enum class Style {
    points,
    lines,
    lines_points,
    bars,   ///< beside those of other series; x counts categories from 0
    guide,  ///< thin dashed grey line, for orientation
    band,   ///< area between low and high
  };
  std::string label = {};  ///< in the legend; empty: not there
  Style style = Style::points;
  std::vector<ChartPoint> points = {};
  std::optional<int> color = {};  ///< one number, one colour and point type; else the next
};

struct Axis {
  std::string label = {};                    ///< with its unit
  double log_base = 0;                       ///< 0: linear
  std::vector<std::string> categories = {};  ///< texts at 0, 1, 2, ... in place of numbers
};

/// A chart, drawn by gnuplot.
struct Chart {
  std::string title;
  Axis x, y;
  std::vector<Series> series;
};

/// Writes `stem`.png and `stem`.svg, each whole or not at all. @returns both paths
/// @throws Error if gnuplot is missing or fails, InputError if no file can be made there
std::vector<std::string> draw(const Chart& chart, const std::string& stem);

/// A text as the name of a file: letters and digits in lower case, all else as `_`.
[[nodiscard]] std::string file_stem(const std::string& text);

}  // namespace perfpred
