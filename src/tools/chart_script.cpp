// SPDX-License-Identifier: Apache-2.0
#include "tools/chart_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>
#include <optional>
#include <span>
#include <utility>

#include "text/parse.h"

namespace perfpred {
namespace {

using Style = Series::Style;

// Okabe and Ito's colours, which colour-blind readers can tell apart; the strongest contrast first.
constexpr std::array<const char*, 7> colors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                               "#E69F00", "#56B4E9", "#000000"};
constexpr std::array<int, 7> point_types = {7, 5, 9, 11, 13, 4, 6};

const char* color_of(int number) { return colors[static_cast<std::size_t>(number) % colors.size()]; }
/// Colours repeat after seven; points and dashes then differ.
int point_type_of(int number) {
  const auto n = static_cast<std::size_t>(number);
  return point_types[(n + n / colors.size()) % point_types.size()];
}
std::size_t dash_of(int number) { return 1 + static_cast<std::size_t>(number) / colors.size(); }

/// In single quotes gnuplot takes everything literally except a quote and the end of the line.
std::string quoted_text(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "'";
}

/// What an axis shows, from end to end.
struct Span {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();
  bool log = false;

  void cover(double value, bool positive_only) {
    if (!std::isfinite(value) || (positive_only && value <= 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
  [[nodiscard]] bool empty() const { return low > high; }
  /// Where a value lies: 0 at the low end, 1 at the high one.
  [[nodiscard]] double share(double value) const {
    return log ? std::log(value / low) / std::log(high / low) : (value - low) / (high - low);
  }
};

/// gnuplot labels only the powers on a logarithmic axis, and a short axis may contain one or none.
std::string log_ticks(const Span& range, double base) {
  std::vector<std::string> ticks;
  const double decades = std::log10(range.high / range.low);
  std::vector<double> steps = {1};
  if (base == 10 && decades < 2.5) steps = {1, 2, 5};
  if (base == 10 && decades < 1) steps = {1, 1.5, 2, 3, 4, 5, 7};
  const int first = static_cast<int>(std::floor(std::log(range.low) / std::log(base))) - 1;
  const int last = static_cast<int>(std::ceil(std::log(range.high) / std::log(base))) + 1;
  const int stride = std::max(1, (last - first) / 16);
  for (int power = first; power <= last; power += stride) {
    for (const double step : steps) {
      const double at = step * std::pow(base, power);
      ticks.push_back(fmt::format("'{:.10g}' {:.10g}", at, at));
    }
  }
  return fmt::format("({})", fmt::join(ticks, ", "));
}

constexpr std::size_t max_slanted = 20, max_upright = 48;  // names on an axis that do not overlap
constexpr std::size_t longest_name = 40;                   // longer ones leave a chart no room
constexpr std::size_t longest_legend = 10;                 // grouped series of a chart that is not split
constexpr std::size_t panel_legend = 6;                    // series of a panel

/// A logarithmic axis that is too short to have powers to label is drawn linear.
Span shown_span(const Axis& axis, Span data, bool from_zero) {
  if (!axis.categories.empty()) return {-0.6, static_cast<double>(axis.categories.size()) - 0.4};
  if (axis.log_base > 0 && !data.empty() && (axis.log_base == 2 || data.high >= 3 * data.low)) {
    const double room = 1.02 * (axis.log_base == 2 ? std::pow(2.0, 0.3) : std::pow(data.high / data.low, 0.06));
    return {data.low / room, data.high * room, true};
  }
  if (data.empty()) data = {0, 1};
  if (from_zero) data.low = std::min(data.low, 0.0);
  const double extent = data.high - data.low;
  const double room = extent > 0 ? 0.06 * extent : std::max(0.1 * std::abs(data.high), 1e-9);
  const double low = from_zero ? data.low : data.low - room;
  return {axis.low.value_or(low), axis.high.value_or(data.high + room)};
}

std::string category_commands(const Axis& axis, char name) {
  const std::size_t n = axis.categories.size(), stride = (n + max_upright - 1) / max_upright;
  std::vector<std::string> ticks;
  std::size_t letters = 0;
  for (std::size_t i = 0; i < n; i += stride) {
    const std::string& whole = axis.categories[i];
    const std::string shown = whole.size() <= longest_name ? whole : whole.substr(0, longest_name - 3) + "...";
    ticks.push_back(fmt::format("{} {}", quoted_text(shown), i));
    letters = std::max(letters, shown.size() + 2);
  }
  const char* turned = letters * n <= 90  ? "norotate"
                       : n <= max_slanted ? "rotate by -30 left"
                                          : "rotate by -90 left font ',13'";
  const std::string label = stride > 1 ? fmt::format("set {}label 'one of {} is named'\n", name, stride) : "";
  return label + fmt::format("set {}tics ({}) {} nomirror\n", name, fmt::join(ticks, ", "), turned);
}

std::string axis_commands(const Axis& axis, char name, const Span& span) {
  std::string text = fmt::format("set {0}label {1}\nset {0}range [{2}:{3}]\n", name, quoted_text(axis.label),
                                 number_text(span.low), number_text(span.high));
  if (!axis.categories.empty()) return text + category_commands(axis, name);
  if (span.log) {
    return text +
           fmt::format("set logscale {0} {1}\nset {0}tics {2}\n", name, axis.log_base, log_ticks(span, axis.log_base));
  }
  if (axis.whole && span.high - span.low < 20) text += fmt::format("set {}tics 1\n", name);
  return text + fmt::format("set format {} '%g'\n", name);
}

/// Where a picture has its axes, by estimate: gnuplot alone knows.
struct Canvas {
  double width, height;                    ///< of the room between the axes, pixels
  double letter = 9, line = 22, mark = 9;  ///< sizes of a name's letter (font size 13) and of a point, pixels
};

struct Box {
  double left, low, right, high;
  [[nodiscard]] bool meets(const Box& b) const {
    return left < b.right && b.left < right && low < b.high && b.low < high;
  }
};

/// A line as a row of small boxes.
void add_line(std::vector<Box>& taken, const Series& series, const Span& x, const Span& y, const Canvas& canvas) {
  constexpr int pieces = 100;
  for (std::size_t i = 1; i < series.points.size(); ++i) {
    const ChartPoint &a = series.points[i - 1], &b = series.points[i];
    for (int k = 0; k <= pieces; ++k) {
      const double share = static_cast<double>(k) / pieces;
      const double at_x = (x.share(a.x) + share * (x.share(b.x) - x.share(a.x))) * canvas.width;
      const double at_y = (y.share(a.y) + share * (y.share(b.y) - y.share(a.y))) * canvas.height;
      taken.push_back({at_x - 2, at_y - 2, at_x + 2, at_y + 2});
    }
  }
}

/// What is in a panel already.
struct TakenRoom {
  std::vector<Box> marks_and_names, lines, guides;
};

bool is_free(const Box& box, const std::vector<Box>& taken) {
  return std::none_of(taken.begin(), taken.end(), [&](const Box& b) { return b.meets(box); });
}

/// Room for a text of this width beside a point, with no line between the two; the point itself may lie on one.
std::optional<Box> free_place(const Box& mark, double width, bool on_guides, const TakenRoom& taken,
                              const Canvas& canvas) {
  const double middle = (mark.left + mark.right) / 2;
  for (const double up : {0.0, -1.0, 0.5, 1.0, -2.0, 2.0, -3.0, 3.0}) {  // lines above the point; 0.5: beside it
    for (const bool right : {true, false}) {
      const double left = right ? mark.right + 1 : mark.left - 1 - width;
      const double low =
          up == 0.5 ? (mark.low + mark.high - canvas.line) / 2 : mark.high - canvas.mark + up * canvas.line;
      const Box box = {left, low, left + width, low + canvas.line};
      const double from = std::min(box.high, mark.high), to = std::max(box.low, mark.low);
      const bool apart = to <= from || is_free({middle - 1, from, middle + 1, to}, taken.lines);
      const bool inside = box.left >= 0 && box.right <= canvas.width && box.low >= 0 && box.high <= canvas.height;
      if (inside && apart && is_free(box, taken.marks_and_names) && is_free(box, taken.lines) &&
          (on_guides || is_free(box, taken.guides))) {
        return box;
      }
    }
  }
  return std::nullopt;
}

/// Names beside their points, each where it covers neither another name nor a point nor a line; those without room are
/// left out. They cover guides only where there is no other room.
std::string name_commands(const std::vector<const Series*>& panel, const Span& x, const Span& y, const Canvas& canvas) {
  TakenRoom taken;
  std::vector<std::pair<const ChartPoint*, Box>> named;
  for (const Series* series : panel) {
    const bool marks = series->style == Style::points || series->style == Style::lines_points;
    for (const ChartPoint& p : series->points) {
      const double at_x = x.share(p.x) * canvas.width, at_y = y.share(p.y) * canvas.height, half = canvas.mark;
      const Box mark = {at_x - half, at_y - half, at_x + half, at_y + half};
      if (marks) taken.marks_and_names.push_back(mark);
      if (!p.name.empty()) named.emplace_back(&p, mark);
    }
    if (series->style == Style::lines) add_line(taken.lines, *series, x, y, canvas);
    if (series->style == Style::guide) add_line(taken.guides, *series, x, y, canvas);
  }
  std::string text;
  for (const auto& [point, mark] : named) {
    const double name_width = static_cast<double>(point->name.size()) * canvas.letter;
    std::optional<Box> box = free_place(mark, name_width, false, taken, canvas);
    if (!box) box = free_place(mark, name_width, true, taken, canvas);
    if (!box) continue;
    taken.marks_and_names.push_back(*box);
    text += fmt::format("set label {} at graph {:.4f},{:.4f} left front font ',13'\n", quoted_text(point->name),
                        box->left / canvas.width, (box->low + canvas.line / 2) / canvas.height);
  }
  return text;
}

/// Rows `x y low high`; without error bars low and high are y.
std::string data_block(const Series& series, const std::string& name, double bar_shift) {
  std::string text = fmt::format("{} << EOD\n", name);
  for (const ChartPoint& p : series.points) {
    text += fmt::format("{} {} {} {}\n", p.x + bar_shift, p.y, p.low.value_or(p.y), p.high.value_or(p.y));
  }
  return text + "EOD\n";
}

/// What `plot` says of one series.
std::vector<std::string> plot_terms(const Series& series, const std::string& data, int color, double bar_width) {
  const std::string title = series.label.empty() ? "notitle" : fmt::format("title {}", quoted_text(series.label));
  const std::string ink = fmt::format("lc rgb '{}'", color_of(color));
  const std::string mark = fmt::format("{} pt {} ps 1.4", ink, point_type_of(color));
  const std::string bars = data + " using 1:2:3:4 with yerrorbars lw 1.2 pt 0 ";
  const bool intervals = series.points.front().low.has_value();
  std::vector<std::string> terms;
  switch (series.style) {
    case Style::points:
      terms = {fmt::format("{} using 1:2 with points {} {}", data, mark, title)};
      break;
    case Style::lines:
      terms = {fmt::format("{} using 1:2 with lines lw 2 dt {} {} {}", data, dash_of(color), ink, title)};
      break;
    case Style::lines_points:
      terms = {fmt::format("{} using 1:2 with linespoints lw 1.5 dt {} {} {}", data, dash_of(color), mark, title)};
      break;
    case Style::guide:
      terms = {fmt::format("{} using 1:2 with lines lw 1 dt 2 lc rgb '#808080' {}", data, title)};
      break;
    case Style::bars:
      terms = {fmt::format("{} using 1:2:({}) with boxes fs solid 0.85 border lc rgb '#303030' fc rgb '{}' {}", data,
                           number_text(bar_width * 0.92), color_of(color), title)};
      if (intervals) terms.push_back(bars + "lc rgb '#000000' notitle");
      return terms;
    case Style::band:
      return {fmt::format("{} using 1:3:4 with filledcurves fs transparent solid 0.25 noborder fc rgb '{}' {}", data,
                          color_of(color), title)};
  }
  if (intervals) terms.insert(terms.begin(), bars + ink + " notitle");
  return terms;
}

using Panel = std::vector<const Series*>;

/// All series in one panel, or, where too many are of groups, these packed in their order, the others in each.
std::vector<Panel> panels_of(const Chart& chart) {
  Panel all, common;
  std::vector<Panel> groups;  // neighbours of one group
  std::size_t grouped = 0;
  for (const Series& series : chart.series) {
    if (series.points.empty()) continue;
    all.push_back(&series);
    if (series.group.empty()) {
      common.push_back(&series);
      continue;
    }
    ++grouped;
    if (groups.empty() || groups.back().front()->group != series.group || groups.back().size() == panel_legend) {
      groups.emplace_back();
    }
    groups.back().push_back(&series);
  }
  if (grouped <= longest_legend) return {all};
  std::vector<Panel> panels;
  std::size_t free = 0;
  for (const Panel& group : groups) {
    if (group.size() > free) {
      panels.push_back(common);
      free = panel_legend;
    }
    panels.back().insert(panels.back().end(), group.begin(), group.end());
    free -= group.size();
  }
  return panels;
}

/// The data blocks and the `plot` command of one panel.
std::string panel_commands(const Panel& panel, std::size_t number) {
  const auto bars = static_cast<double>(
      std::count_if(panel.begin(), panel.end(), [](const Series* s) { return s->style == Style::bars; }));
  const double width = bars > 0 ? 0.8 / bars : 0;
  std::string data;
  std::vector<std::string> terms;
  double bar = 0;
  int next_color = 0;
  for (std::size_t i = 0; i < panel.size(); ++i) {
    const Series& series = *panel[i];
    const std::string name = fmt::format("$data{}_{}", number, i);
    data += data_block(series, name, series.style == Style::bars ? width * (bar++ + 0.5) - 0.4 : 0);
    const int color = series.color ? *series.color : series.style == Style::guide ? 0 : next_color++;
    for (std::string& term : plot_terms(series, name, color, width)) terms.push_back(std::move(term));
  }
  return fmt::format("{}plot {}\n", data, fmt::join(terms, ", \\\n  "));
}

/// Rows that the legend below a panel of a grid may need: gnuplot makes as few as its longest label lets, by widths of
/// the terminal's letters.
std::size_t legend_rows(const Panel& panel, double width) {
  constexpr double letter = 12, mark = 60, share = 0.75;  // pixels, and of the panel's width between its axes
  std::size_t labels = 0, longest = 0;
  for (const Series* series : panel) {
    labels += series->label.empty() ? 0 : 1;
    longest = std::max(longest, series->label.size());
  }
  const double columns = std::max(1.0, std::floor(share * width / (letter * static_cast<double>(longest) + mark)));
  return static_cast<std::size_t>(std::ceil(static_cast<double>(labels) / columns));
}

/// Room for the legends of the panels in a row of a grid.
std::string row_commands(std::span<const Panel> row, double width) {
  constexpr double axis_lines = 3.4, legend_line = 0.78;  // heights of a letter of the terminal's font
  std::size_t most = 0;
  for (const Panel& panel : row) most = std::max(most, legend_rows(panel, width));
  return fmt::format("set bmargin {:.2f}\nset key maxrows {}\n", axis_lines + legend_line * static_cast<double>(most),
                     std::max<std::size_t>(most, 1));
}

/// The room between the axes of each panel, as gnuplot leaves it.
Canvas canvas_of(std::span<const Panel> panels, double width, double height, std::size_t columns, std::size_t rows) {
  constexpr double legend_line = 0.028, most_rows = 6;
  if (panels.size() > 1) return {width * 0.85 / static_cast<double>(columns), height * 0.6 / static_cast<double>(rows)};
  const double legend = panels.empty() ? 0 : static_cast<double>(legend_rows(panels.front(), width));
  return {width * 0.875, height * (0.79 - legend_line * std::min(most_rows, legend))};
}

/// Columns of the grid of panels.
std::size_t columns_for(std::size_t panels) {
  return static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(panels))));
}

}  // namespace

double times_as_large(const Chart& chart) {
  constexpr double legible = 0.6;  // sides of a panel, in those of a chart of one panel
  return std::max(1.0, legible * static_cast<double>(columns_for(panels_of(chart).size())));
}

std::string chart_script(const Chart& chart, const std::string& title, double width, double height) {
  Span x_data, y_data;
  bool legend = false, bars = false;
  for (const Series& series : chart.series) {
    legend = legend || !series.label.empty();
    bars = bars || series.style == Style::bars;
    for (const ChartPoint& p : series.points) {
      x_data.cover(p.x, chart.x.log_base > 0);
      for (const double y : {p.y, p.low.value_or(p.y), p.high.value_or(p.y)}) y_data.cover(y, chart.y.log_base > 0);
    }
  }
  const Span x = shown_span(chart.x, x_data, false), y = shown_span(chart.y, y_data, bars);
  const std::vector<Panel> panels = panels_of(chart);
  const std::size_t columns = columns_for(panels.size());
  const std::size_t rows = (panels.size() + columns - 1) / std::max<std::size_t>(columns, 1);
  const bool grid = panels.size() > 1;
  std::string text = "set border 3\nset tics nomirror\nset grid lw 0.5 lc rgb '#C8C8C8'\n";
  text += axis_commands(chart.x, 'x', x) + axis_commands(chart.y, 'y', y);
  text += !legend ? "unset key\n"
          : grid  ? "set key below left font ',13' samplen 2 spacing 0.95 Left reverse\n"
                  : "set key below center maxrows 6 spacing 1.1 Left reverse samplen 2.5 height 0.8\n";
  const Canvas canvas = canvas_of(panels, width, height, columns, rows);
  if (grid) {
    text += fmt::format(
        "set tics font ',14'\nset xlabel font ',14'\nset ylabel font ',14'\nset lmargin 13\nset rmargin 2\n"
        "set multiplot layout {},{} title {}\n",
        rows, columns, quoted_text(title));
  } else {
    text += fmt::format("set title {}\n", quoted_text(title));
  }
  for (std::size_t i = 0; i < panels.size(); ++i) {
    if (grid && i % columns == 0) {
      const std::size_t here = std::min(columns, panels.size() - i);
      text += row_commands(std::span(panels).subspan(i, here), width / static_cast<double>(columns));
    }
    text += "unset label\n" + name_commands(panels[i], x, y, canvas) + panel_commands(panels[i], i);
  }
  return grid ? text + "unset multiplot\n" : text;
}

}  // namespace perfpred
