// SPDX-License-Identifier: Apache-2.0
#include "tools/chart_script.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <iterator>
#include <limits>
#include <span>
#include <utility>

#include "text/parse.h"

namespace perfpred {
namespace {

using Style = Series::Style;
using Panel = std::span<const Series>;

// Okabe and Ito's colours, which colour-blind readers can tell apart; the strongest contrast first.
constexpr std::array<const char*, 7> colors = {"#0072B2", "#D55E00", "#009E73", "#CC79A7",
                                               "#E69F00", "#56B4E9", "#000000"};
constexpr std::array<int, 7> point_types = {7, 5, 9, 11, 13, 4, 6};
constexpr const char* small_font = "font ',13'";

constexpr std::size_t longest_name = 45;  // letters of a name on an axis; longer ones leave a chart no room
constexpr int longest_legend = 6;         // entries below a chart; a longer legend stands beside it
constexpr std::size_t most_grouped = 10;  // series with a group of a chart that is not split
constexpr std::size_t panel_legend = 6;   // series of a panel

const char* color_of(std::size_t number) { return colors[number % colors.size()]; }
/// Colours repeat after seven; points and dashes then differ.
int point_type_of(std::size_t number) { return point_types[(number + number / colors.size()) % point_types.size()]; }
std::size_t dash_of(std::size_t number) { return 1 + number / colors.size(); }

/// In single quotes gnuplot takes everything literally except a quote and the end of the line.
std::string quoted_text(std::string_view text) {
  std::string out = "'";
  for (const char c : text) {
    if (c == '\'') out += '\'';
    out += static_cast<unsigned char>(c) < 0x20 ? ' ' : c;
  }
  return out + "'";
}

/// A name on an axis: without its middle if it is long, and as a format, where % is doubled.
std::string tick_text(std::string_view name) {
  const auto between_letters = [&](std::size_t at) {
    while ((static_cast<unsigned char>(name[at]) & 0xC0U) == 0x80U) --at;  // inside a letter of UTF-8
    return at;
  };
  std::string whole(name), out;
  if (name.size() > longest_name) {
    whole = fmt::format("{}...{}", name.substr(0, between_letters(longest_name / 2)),
                        name.substr(between_letters(name.size() - longest_name / 2)));
  }
  for (const char c : whole) out += c == '%' ? std::string("%%") : std::string(1, c);
  return quoted_text(out);
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
  return {axis.low.value_or(from_zero ? data.low : data.low - room), axis.high.value_or(data.high + room)};
}

/// gnuplot labels the powers alone, of which a short axis has one or none.
std::string log_ticks(const Axis& axis, char name, const Span& range) {
  const double decades = std::log10(range.high / range.low);
  if (axis.log_base != 10 || decades >= 2.5) return {};
  return fmt::format(
      "set for [power={1:.0f}:{2:.0f}] for [step in '{3}'] {0}tics add "
      "(sprintf('%.8g', step * 10.0**power) step * 10.0**power)\n",
      name, std::floor(std::log10(range.low)), std::ceil(std::log10(range.high)),
      decades < 1 ? "1.5 2 3 4 5 7" : "2 5");
}

std::string axis_commands(const Axis& axis, char name, const Span& span) {
  std::string text = fmt::format("set {}label {}\n", name, quoted_text(axis.label));
  if (!axis.categories.empty()) {
    std::vector<std::string> ticks;
    for (const std::string& category : axis.categories) {
      ticks.push_back(fmt::format("{} {}", tick_text(category), ticks.size()));
    }
    return text + fmt::format("set {0}range [{1}:{2}]\nset {0}tics scale 0 ({3})\n", name, span.high, span.low,
                              fmt::join(ticks, ", "));
  }
  text += fmt::format("set {0}range [{1}:{2}]\nset format {0} '%.10g'\n", name, number_text(span.low),
                      number_text(span.high));
  if (span.log) {
    text += fmt::format("set logscale {} {}\n{}", name, axis.log_base, log_ticks(axis, name, span));
  } else if (axis.whole && span.high - span.low < 20) {
    text += fmt::format("set {}tics 1\n", name);
  }
  return text;
}

/// Where the points of a chart lie. Names stand on the vertical axis, where they have room.
struct Axes {
  Span x, y;
  bool names_on_x = false;

  explicit Axes(const Chart& chart) : names_on_x(!chart.x.categories.empty()) {
    bool bars = false;
    for (const Series& series : chart.series) {
      bars = bars || series.style == Style::bars;
      for (const ChartPoint& p : series.points) {
        if (series.style == Style::guide && &p != &series.points.back()) continue;
        x.cover(p.x, chart.x.log_base > 0);
        for (const double at : {p.y, p.low.value_or(p.y), p.high.value_or(p.y)}) y.cover(at, chart.y.log_base > 0);
      }
    }
    x = shown_span(chart.x, x, false);
    y = shown_span(chart.y, y, bars);
  }
  /// Two columns, or two coordinates, in gnuplot's order.
  [[nodiscard]] std::string place(double at_x, double at_y, const char* between) const {
    return names_on_x ? fmt::format("{}{}{}", at_y, between, at_x) : fmt::format("{}{}{}", at_x, between, at_y);
  }
};

/// What `plot` says of one series. Its data have the columns x, y, and the ends of the error bar, which are y if it has
/// none.
std::string plot_term(const Series& series, const std::string& data, std::size_t color, double bar_width,
                      const Axes& axes) {
  const bool intervals = series.points.front().low.has_value();
  const std::string ink = fmt::format("lc rgb '{}'", color_of(color)),
                    fill = fmt::format("fc rgb '{}'", color_of(color));
  const std::string mark = fmt::format("pt {} {}", point_type_of(color), ink);
  const std::string with_errors = fmt::format("{} using 1:2:3:4 with {}error", data, axes.names_on_x ? 'x' : 'y');
  const std::string plain = data + " using 1:2 with ";
  const auto term = [&]() -> std::string {
    switch (series.style) {
      case Style::points:
        return fmt::format("{} {}", intervals ? with_errors + "bars" : plain + "points", mark);
      case Style::lines_points:
        return fmt::format("{} lw 1.5 dt {} {}", intervals ? with_errors + "lines" : plain + "linespoints",
                           dash_of(color), mark);
      case Style::lines:
        return fmt::format("{}lines lw 2 dt {} {}", plain, dash_of(color), ink);
      case Style::guide:
        return plain + "lines lw 1 dt 2 lc rgb '#808080'";
      case Style::bars:
        return fmt::format("{0} using 1:2:({1}):1:($2-{2}):($2+{2}) with boxxyerror fs solid 0.85 noborder {3}", data,
                           axes.y.low, 0.46 * bar_width, fill);
      case Style::spans:
        return fmt::format(
            "{} using 1:2:3:4:($2-0.35):($2+0.35) with boxxyerror fs solid 0.85 border lc rgb 'white' {}", data, fill);
      case Style::band:
        return fmt::format("{} using 1:3:4 with filledcurves fs transparent solid 0.25 noborder {}", data, fill);
    }
    return {};
  };
  return fmt::format("{} {}{}", term(), series.label.empty() ? "notitle" : "title " + quoted_text(series.label),
                     intervals && series.style == Style::bars ? ", " + with_errors + "bars pt 0 lc black notitle" : "");
}

/// A line of the legend without a mark.
std::string legend_text(const std::string& text) {
  return fmt::format("NaN with lines lc bgnd title {}", quoted_text(text));
}

/// Numbers beside the named points, from left to right, which the legend explains. Points with too little room between
/// them share a text, and have neighbouring numbers.
std::string number_commands(Panel panel, const Axes& axes, std::vector<std::string>& terms) {
  // Numbers stand right of their points, or upright in their bars; near ones are so many shares of an axis apart.
  const bool in_bars = std::any_of(panel.begin(), panel.end(), [](auto& s) { return s.style == Style::spans; });
  const double near_x = in_bars ? 0.035 : 0.05, near_y = in_bars ? 0.04 : 0.025;
  const char* where = in_bars ? "center rotate by 90" : "left offset 0.8,0";
  std::vector<const ChartPoint*> points;
  for (const Series& series : panel) {
    for (const ChartPoint& p : series.points) {
      if (!p.name.empty()) points.push_back(&p);
    }
  }
  std::stable_sort(points.begin(), points.end(), [](auto* a, auto* b) { return a->x < b->x; });
  std::vector<std::vector<const ChartPoint*>> marks;
  for (const ChartPoint* p : points) {
    auto mark = std::find_if(marks.begin(), marks.end(), [&](const auto& others) {
      return axes.x.share(p->x) - axes.x.share(others.back()->x) < near_x &&
             std::abs(axes.y.share(p->y) - axes.y.share(others.front()->y)) < near_y;
    });
    if (mark == marks.end()) mark = marks.emplace(mark);
    mark->push_back(p);
  }
  std::string text;
  std::size_t number = 0;
  for (const auto& mark : marks) {
    const std::size_t first = number + 1;
    for (const ChartPoint* p : mark) terms.push_back(legend_text(fmt::format("{}: {}", ++number, p->name)));
    const std::string numbers = number == first ? std::to_string(first) : fmt::format("{}-{}", first, number);
    text += fmt::format("set label '{}' at {} {} front {}\n", numbers, axes.place(mark.back()->x, mark.front()->y, ","),
                        where, small_font);
  }
  return text;
}

/// All series in one panel, or, where too many have a group, some neighbours in each, those of a group together.
std::vector<Panel> panels_of(std::span<const Series> series) {
  const auto grouped = std::count_if(series.begin(), series.end(), [](const Series& s) { return !s.group.empty(); });
  if (static_cast<std::size_t>(grouped) <= most_grouped) return {series};
  std::vector<Panel> panels;
  std::size_t first = 0;
  for (std::size_t i = 0, end = 0; i < series.size(); i = end) {
    while (end < series.size() && end - i < panel_legend && series[end].group == series[i].group) ++end;
    if (end - first > panel_legend) {
      panels.push_back(series.subspan(first, i - first));
      first = i;
    }
  }
  panels.push_back(series.subspan(first));
  return panels;
}

/// The data blocks and the `plot` command of one panel.
std::string panel_commands(Panel panel, const Axes& axes, std::size_t rows_of_legend) {
  const auto bars = static_cast<double>(
      std::count_if(panel.begin(), panel.end(), [](const Series& s) { return s.style == Style::bars; }));
  const double width = bars > 0 ? 0.8 / bars : 0;
  std::string text = "unset label\n";
  std::vector<std::string> terms;
  double bar = 0;
  std::size_t next_color = 0;
  for (const Series& series : panel) {
    const std::string data = fmt::format("$data{}", &series - panel.data());
    const double shift = series.style == Style::bars ? width * (bar++ + 0.5) - 0.4 : 0;
    text += data + " << EOD\n";
    for (const ChartPoint& p : series.points) {
      text += fmt::format("{} {} {}\n", axes.place(p.x + shift, p.y, " "), p.low.value_or(p.y), p.high.value_or(p.y));
    }
    text += "EOD\n";
    const std::size_t color = series.color ? *series.color : series.style == Style::guide ? 0 : next_color++;
    terms.push_back(plot_term(series, data, color, width, axes));
  }
  text += number_commands(panel, axes, terms);
  if (terms.empty()) terms.emplace_back("NaN notitle");
  for (std::size_t row = panel.size(); row < rows_of_legend; ++row) terms.push_back(legend_text(" "));
  return fmt::format("{}plot {}\n", text, fmt::join(terms, ", \\\n  "));
}

int legend_entries(Panel panel) {
  std::ptrdiff_t entries = 0;
  for (const Series& series : panel) {
    if (!series.points.empty() && !series.label.empty()) ++entries;
    entries += std::count_if(series.points.begin(), series.points.end(), [](auto& p) { return !p.name.empty(); });
  }
  return static_cast<int>(entries);
}

/// Columns of the grid of panels.
std::size_t columns_for(std::size_t panels) {
  return static_cast<std::size_t>(std::ceil(std::sqrt(static_cast<double>(panels))));
}

}  // namespace

std::pair<int, int> usual_size(const Chart& chart) {
  constexpr int width = 1500, height = 1000, around_names = 300, name = 28, bars_of_name = 3;
  constexpr double panel = 0.6;  // sides of a panel, in those of a chart of one panel
  const std::size_t panels = panels_of(chart.series).size();
  const double grow = std::max(1.0, panel * static_cast<double>(columns_for(panels)));
  const int series = static_cast<int>(chart.series.size());
  const int names = static_cast<int>(chart.x.categories.size()) * std::max(1, series / bars_of_name);
  const int lines = std::max(names, panels == 1 ? legend_entries(chart.series) : 0);
  return {static_cast<int>(width * grow), std::max(static_cast<int>(height * grow), around_names + lines * name)};
}

std::string chart_script(const Chart& chart, const std::string& title) {
  std::vector<Series> drawn;
  std::copy_if(chart.series.begin(), chart.series.end(), std::back_inserter(drawn),
               [](const Series& series) { return !series.points.empty(); });
  const int entries = legend_entries(chart.series);
  const Axes axes(chart);
  std::string text = "set border 3\nset tics nomirror\nset grid lw 0.5 lc rgb '#C8C8C8'\n";
  if (axes.names_on_x) text += "set tics font ',16'\n";  // names leave it less width
  text += axis_commands(chart.x, axes.names_on_x ? 'y' : 'x', axes.x);
  text += axis_commands(chart.y, axes.names_on_x ? 'x' : 'y', axes.y);
  const std::vector<Panel> panels = panels_of(drawn);
  if (panels.size() == 1) {
    if (entries == 0) {
      text += "unset key\n";
    } else if (entries <= longest_legend) {
      text += fmt::format("set key below center spacing 1.1 Left reverse samplen 2.5 height 0.8 {}\n",
                          axes.names_on_x ? "maxcols 1" : "");
    } else {
      text += "set key outside right top vertical maxcols 1 font ',14' Left reverse samplen 2\n";
    }
    return fmt::format("{}set title {}\n{}", text, quoted_text(title), panel_commands(drawn, axes, 0));
  }
  const std::size_t columns = columns_for(panels.size());
  text += fmt::format(
      "set tics font ',14'\nset xlabel font ',14'\nset ylabel font ',14'\n"
      "set key below left maxcols 1 {} Left reverse samplen 2\nset multiplot layout {},{} title {}\n",
      small_font, (panels.size() + columns - 1) / columns, columns, quoted_text(title));
  for (const Panel& panel : panels) text += panel_commands(panel, axes, panel_legend);
  return text + "unset multiplot\n";
}

}  // namespace perfpred
