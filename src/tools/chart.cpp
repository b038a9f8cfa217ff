// SPDX-License-Identifier: Apache-2.0
#include "tools/chart.h"

#include <perfpred/error.h>

#include <fcntl.h>
#include <fmt/format.h>
#include <fmt/ranges.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <limits>
#include <memory>
#include <utility>

#include "text/files.h"
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

struct DataRange {
  double low = std::numeric_limits<double>::infinity();
  double high = -std::numeric_limits<double>::infinity();

  void cover(double value, bool positive_only) {
    if (!std::isfinite(value) || (positive_only && value <= 0)) return;
    low = std::min(low, value);
    high = std::max(high, value);
  }
};

/// gnuplot labels only the powers on a logarithmic axis, and a short axis may contain one or none.
std::string log_ticks(const DataRange& range, double base) {
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

std::string axis_commands(const Axis& axis, char name, const DataRange& data) {
  std::string text = fmt::format("set {}label {}\n", name, quoted_text(axis.label));
  if (!axis.categories.empty()) {
    const std::size_t n = axis.categories.size(), stride = (n + max_upright - 1) / max_upright;
    std::vector<std::string> ticks;
    std::size_t letters = 0;
    for (std::size_t i = 0; i < n; i += stride) {
      const std::string& whole = axis.categories[i];
      const std::string shown = whole.size() <= longest_name ? whole : whole.substr(0, longest_name - 3) + "...";
      ticks.push_back(fmt::format("{} {}", quoted_text(shown), i));
      letters = std::max(letters, shown.size() + 2);
    }
    if (stride > 1) text = fmt::format("set {}label 'one of {} is named'\n", name, stride);
    const char* turned = letters * n <= 90  ? "norotate"
                         : n <= max_slanted ? "rotate by -30 left"
                                            : "rotate by -90 left font ',13'";
    return text + fmt::format("set {0}tics ({1}) {2} nomirror\nset {0}range [-0.6:{3}]\n", name, fmt::join(ticks, ", "),
                              turned, static_cast<double>(n) - 0.4);
  }
  if (axis.log_base > 0) {
    DataRange shown = data;
    const bool wide = axis.log_base == 2 || shown.high >= 3 * shown.low;  // a short axis has no power to label
    if (wide && shown.low > 0 && shown.low <= shown.high && std::isfinite(shown.high)) {
      const double room =
          std::pow(axis.log_base == 2 ? 2.0 : shown.high / shown.low, axis.log_base == 2 ? 0.3 : 0.06) * 1.02;
      shown.low /= room;
      shown.high *= room;
      return text + fmt::format("set logscale {0} {1}\nset {0}tics {2}\nset {0}range [{3}:{4}]\n", name, axis.log_base,
                                log_ticks(shown, axis.log_base), number_text(shown.low), number_text(shown.high));
    }
  }
  return text + fmt::format("set format {0} '%g'\nset {0}range [*:*]\n", name);
}

/// Texts in a data block stand between double quotes, where a backslash is an escape.
std::string data_text(std::string text) {
  for (char& c : text) {
    if (c == '"' || c == '\\' || static_cast<unsigned char>(c) < 0x20) c = ' ';
  }
  return text;
}

/// Rows `x y low high name`; without error bars low and high are y.
std::string data_block(const Series& series, std::size_t index, double bar_shift) {
  std::string text = fmt::format("$data{} << EOD\n", index);
  for (const ChartPoint& p : series.points) {
    text += fmt::format("{} {} {} {} \"{}\"\n", p.x + bar_shift, p.y, p.low.value_or(p.y), p.high.value_or(p.y),
                        data_text(p.name));
  }
  return text + "EOD\n";
}

class Script {
 public:
  explicit Script(const Chart& chart) {
    DataRange x, y;
    std::size_t bar_series = 0;
    bool legend = false;
    for (const Series& series : chart.series) {
      for (const ChartPoint& p : series.points) {
        x.cover(p.x, chart.x.log_base > 0);
        for (const double value : {p.y, p.low.value_or(p.y), p.high.value_or(p.y)})
          y.cover(value, chart.y.log_base > 0);
      }
      if (series.style == Style::bars) ++bar_series;
      legend = legend || !series.label.empty();
    }
    head_ = fmt::format("set title {}\nset border 3\nset tics nomirror\nset grid lw 0.5 lc rgb '#C8C8C8'\n",
                        quoted_text(chart.title));
    head_ +=
        legend ? "set key below center maxrows 6 spacing 1.1 Left reverse samplen 2.5 height 0.8\n" : "unset key\n";
    head_ += axis_commands(chart.x, 'x', x) + axis_commands(chart.y, 'y', y);
    head_ += "set offsets graph 0.04, graph 0.04, graph 0.06, graph 0.04\n";
    if (bar_series > 0 && chart.y.log_base == 0) head_ += "set yrange [0:*]\nset offsets 0, 0, graph 0.06, 0\n";

    const double width = bar_series > 0 ? 0.8 / static_cast<double>(bar_series) : 0;
    std::size_t bar = 0;
    int next_color = 0;
    for (std::size_t i = 0; i < chart.series.size(); ++i) {
      const Series& series = chart.series[i];
      if (series.points.empty()) continue;
      double shift = 0;
      if (series.style == Style::bars) {
        shift = width * (static_cast<double>(bar++) + 0.5) - 0.4;
      }
      head_ += data_block(series, i, shift);
      const int color = series.color ? *series.color : series.style == Style::guide ? 0 : next_color++;
      add(series, i, color, width);
    }
  }

  [[nodiscard]] std::string text(const std::string& terminal) const {
    return fmt::format("set encoding utf8\nset terminal {}\n{}plot {}\n", terminal, head_,
                       fmt::join(plots_, ", \\\n  "));
  }

 private:
  void add(const Series& series, std::size_t index, int color, double width) {
    const std::string data = fmt::format("$data{}", index);
    const std::string title = series.label.empty() ? "notitle" : fmt::format("title {}", quoted_text(series.label));
    const std::string ink = fmt::format("lc rgb '{}'", color_of(color));
    const std::string mark = fmt::format("{} pt {} ps 1.4", ink, point_type_of(color));
    const std::string dash = fmt::format("dt {}", dash_of(color));
    const bool intervals = series.points.front().low.has_value();
    const bool named =
        std::any_of(series.points.begin(), series.points.end(), [](const ChartPoint& p) { return !p.name.empty(); });
    if (intervals && series.style != Style::band && series.style != Style::bars) {
      plots_.push_back(fmt::format("{} using 1:2:3:4 with yerrorbars lw 1.2 ps 0 {} notitle", data, ink));
    }
    switch (series.style) {
      case Style::points:
        plots_.push_back(fmt::format("{} using 1:2 with points {} {}", data, mark, title));
        break;
      case Style::lines:
        plots_.push_back(fmt::format("{} using 1:2 with lines lw 2 {} {} {}", data, dash, ink, title));
        break;
      case Style::lines_points:
        plots_.push_back(fmt::format("{} using 1:2 with linespoints lw 1.5 {} {} {}", data, dash, mark, title));
        break;
      case Style::guide:
        plots_.push_back(fmt::format("{} using 1:2 with lines lw 1 dt 2 lc rgb '#808080' {}", data, title));
        break;
      case Style::bars:
        plots_.push_back(
            fmt::format("{} using 1:2:({}) with boxes fs solid 0.85 border lc rgb '#303030' fc rgb '{}' {}", data,
                        number_text(width * 0.92), color_of(color), title));
        break;
      case Style::band:
        plots_.push_back(
            fmt::format("{} using 1:3:4 with filledcurves fs transparent solid 0.25 noborder fc rgb '{}' {}", data,
                        color_of(color), title));
        break;
    }
    if (intervals && series.style == Style::bars) {
      plots_.push_back(fmt::format("{} using 1:2:3:4 with yerrorbars lw 1.2 ps 0 lc rgb '#000000' notitle", data));
    }
    if (named) {
      plots_.push_back(fmt::format("{} using 1:2:5 with labels left offset 0.8,0.5 font ',13' notitle", data));
    }
  }

  std::string head_;
  std::vector<std::string> plots_;
};

struct FileCloser {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using TemporaryFile = std::unique_ptr<std::FILE, FileCloser>;

TemporaryFile temporary_file() {
  TemporaryFile file(std::tmpfile());
  if (!file) throw Error(fmt::format("no temporary file can be made: {}", std::strerror(errno)));
  return file;
}

std::string whole_text(std::FILE* file) {
  std::rewind(file);
  std::string text;
  std::array<char, 1 << 16> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file)) text.append(buffer.data(), got);
  return text;
}

/// Runs gnuplot on this script. @returns its standard output
std::string run_gnuplot(const std::string& script) {
  const TemporaryFile in = temporary_file(), out = temporary_file(), messages = temporary_file();
  if (std::fwrite(script.data(), 1, script.size(), in.get()) != script.size() || std::fflush(in.get()) != 0) {
    throw Error(fmt::format("no temporary file can be written: {}", std::strerror(errno)));
  }
  std::rewind(in.get());

  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(in.get()), 0);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(out.get()), 1);
  posix_spawn_file_actions_adddup2(&actions, ::fileno(messages.get()), 2);
  std::string name = "gnuplot", defaults = "-d";
  std::array<char*, 3> arguments = {name.data(), defaults.data(), nullptr};
  pid_t child = 0;
  const int failure = ::posix_spawnp(&child, "gnuplot", &actions, nullptr, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&actions);
  if (failure == ENOENT) throw Error("gnuplot is not installed, and plots need it (Debian, Ubuntu: gnuplot-nox)");
  if (failure != 0) throw Error(fmt::format("gnuplot cannot be started: {}", std::strerror(failure)));

  int status = 0;
  while (::waitpid(child, &status, 0) < 0) {
    if (errno != EINTR) throw Error(fmt::format("gnuplot was lost: {}", std::strerror(errno)));
  }
  std::string image = whole_text(out.get());
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || image.empty()) {
    const std::string text = whole_text(messages.get());
    std::string reason = "it said nothing";
    for (std::size_t begin = 0; begin < text.size();) {  // the last line gives the reason, after the command
      const std::size_t end = std::min(text.find('\n', begin), text.size());
      if (end > begin) reason = shown(text.substr(begin, end - begin));
      begin = end + 1;
    }
    throw Error(fmt::format("gnuplot failed: {}", reason));
  }
  return image;
}

}  // namespace

std::vector<std::string> draw(const Chart& chart, const std::string& stem) {
  const Script script(chart);
  std::vector<std::string> files;
  for (const auto& [ending, terminal] :
       {std::pair("png", "pngcairo size 1500,1000 font 'Sans,18' linewidth 1.5 noenhanced"),
        std::pair("svg", "svg size 1200,800 font 'Sans,16' noenhanced background '#ffffff'")}) {
    const std::string picture = run_gnuplot(script.text(terminal));
    const std::filesystem::path folder = std::filesystem::path(stem).parent_path();
    if (!folder.empty()) make_folder(folder.string());
    files.push_back(fmt::format("{}.{}", stem, ending));
    write_file(files.back(), picture);
  }
  return files;
}

std::string file_stem(const std::string& text) {
  std::string stem;
  for (const char c : text) {
    const auto byte = static_cast<unsigned char>(c);
    if (std::isalnum(byte) != 0) {
      stem += static_cast<char>(std::tolower(byte));
    } else if (!stem.empty() && stem.back() != '_') {
      stem += '_';
    }
  }
  while (!stem.empty() && stem.back() == '_') stem.pop_back();
  return stem.empty() ? "unnamed" : stem;
}

}  // namespace perfpred
