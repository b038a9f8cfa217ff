// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace perfpred {

struct ChartPoint {
  double x = 0, y = 0;
  std::optional<double> low = {}, high = {};  ///< ends of its error bar, or of the band there
  std::string name = {};                      ///< in the legend, behind a number that also stands beside the point
};

/// One set of points of a chart; either all of them have `low` and `high` or none.
struct Series {
  enum class Style {
    points,
    lines,
    lines_points,
    bars,   ///< beside those of other series; x counts categories from 0
    guide,  ///< thin dashed grey line, for orientation; only its end must lie within the axes
    band,   ///< area between low and high
    spans,  ///< of categories, a bar from low to high for each point
  };
  std::string label = {};  ///< in the legend; empty: not there
  Style style = Style::points;
  std::vector<ChartPoint> points = {};
  std::optional<std::size_t> color = {};  ///< one number, one colour and point type; else the next
  std::string group = {};                 ///< series of one group stay together where a chart is split into panels

  void sort_by_x();
};

struct Axis {
  std::string label = {};                     ///< with its unit
  double log_base = 0;                        ///< 0: linear
  std::vector<std::string> categories = {};   ///< of `x`: names at 0, 1, 2, ... in place of numbers
  std::optional<double> low = {}, high = {};  ///< ends of a linear axis that do not follow from the points
  bool whole = false;                         ///< numbers between integers mean nothing
};

/// A chart, laid out and drawn by gnuplot. One with more grouped series than a legend can hold becomes a grid of panels
/// with common axes. Categories stand on the vertical axis, one below another, and y is then the horizontal one.
struct Chart {
  std::string title;
  Axis x, y;
  std::vector<Series> series;

  /// The series with this label; if there is none, a new one at the end.
  Series& series_of(const std::string& label, Series::Style style);
};

/// How charts are drawn, whatever they show.
struct ChartStyle {
  std::string title = {};  ///< before each chart's own
  /// Width and height in pixels of a PNG, 300..10000 each; others have these proportions. Empty: 1500 by 1000, more for
  /// many panels, categories, or a long legend. Where a side is shorter than that, letters and points shrink with it.
  std::optional<std::pair<int, int>> size = {};
  std::vector<std::string> formats = {"png", "svg"};  ///< of png, svg, pdf

  /// @param size  `1500x1000`, or empty @param formats  `png,svg,pdf`, or some of these @throws InputError
  static ChartStyle parse(std::string title, const std::string& size, const std::string& formats);
};

/// Writes `stem`.png and so on, each whole or not at all. @returns the paths
/// @throws Error if gnuplot is missing or fails, InputError if no file can be made there
std::vector<std::string> draw(const Chart& chart, const std::string& stem, const ChartStyle& style = {});

/// A text as the name of a file: letters and digits in lower case, all else as `_`.
[[nodiscard]] std::string file_stem(const std::string& text);

}  // namespace perfpred
