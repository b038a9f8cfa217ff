// SPDX-License-Identifier: Apache-2.0
#include "tools/chart.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <utility>

#include "text/files.h"
#include "text/parse.h"
#include "tools/chart_script.h"

namespace perfpred {
namespace {

constexpr int shortest_side = 300, longest_side = 10000;  // of a picture, pixels

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
  std::string text;
  std::array<char, 1 << 16> buffer{};
  while (const std::size_t got = std::fread(buffer.data(), 1, buffer.size(), file)) text.append(buffer.data(), got);
  return text;
}

/// Runs gnuplot on this script. @returns its standard output
std::string run_gnuplot(const std::string& script) {
  constexpr int not_found = 127;  // the exit status of sh
  const TemporaryFile in = temporary_file(), messages = temporary_file();
  if (std::fwrite(script.data(), 1, script.size(), in.get()) != script.size() || std::fflush(in.get()) != 0) {
    throw Error(fmt::format("no temporary file can be written: {}", std::strerror(errno)));
  }
  const std::string line =
      fmt::format("exec gnuplot -d < /dev/fd/{} 2> /dev/fd/{}", ::fileno(in.get()), ::fileno(messages.get()));
  std::FILE* out = ::popen(line.c_str(), "r");
  if (out == nullptr) throw Error(fmt::format("gnuplot cannot be started: {}", std::strerror(errno)));
  std::string image = whole_text(out);
  const int status = ::pclose(out);
  if (WIFEXITED(status) && WEXITSTATUS(status) == not_found)
    throw Error("gnuplot is not installed, and plots need it (Debian, Ubuntu: gnuplot-nox)");
  if (!WIFEXITED(status) || WEXITSTATUS(status) != 0 || image.empty()) {
    std::rewind(messages.get());
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

/// The terminal of one format: letters have the same share of the picture in each.
std::string terminal(const std::string& format, int width, int height, double letters) {
  if (format == "png") {
    return fmt::format("pngcairo size {},{} font 'Sans,18' fontscale {:.3f} linewidth 1.5 noenhanced", width, height,
                       letters);
  }
  if (format == "svg") {
    return fmt::format("svg size {},{} font 'Sans,16' fontscale {:.3f} noenhanced background '#ffffff'", width * 4 / 5,
                       height * 4 / 5, letters);
  }
  return fmt::format("pdfcairo size {},{} font 'Sans,12' fontscale {:.3f} linewidth 1.5 noenhanced", width / 100.0,
                     height / 100.0, letters);
}

}  // namespace

void Series::sort_by_x() {
  std::stable_sort(points.begin(), points.end(), [](const ChartPoint& a, const ChartPoint& b) { return a.x < b.x; });
}

Series& Chart::series_of(const std::string& label, Series::Style style) {
  const auto known = std::find_if(series.begin(), series.end(), [&](const Series& s) { return s.label == label; });
  return known != series.end() ? *known : series.emplace_back(Series{.label = label, .style = style});
}

ChartStyle ChartStyle::parse(std::string title, const std::string& size, const std::string& formats) {
  ChartStyle style = {.title = std::move(title), .formats = {}};
  if (!size.empty()) {
    int width = 0, height = 0;
    char more = 0;
    if (std::sscanf(size.c_str(), "%5dx%5d%c", &width, &height, &more) != 2 ||
        std::min(width, height) < shortest_side || std::max(width, height) > longest_side) {
      throw InputError(fmt::format("size \"{}\" is not WIDTHxHEIGHT in pixels, each {} to {}", shown(size),
                                   shortest_side, longest_side));
    }
    style.size = {width, height};
  }
  for (const std::string_view format : split(formats, ',')) {
    if (format != "png" && format != "svg" && format != "pdf") {
      throw InputError(fmt::format("format \"{}\" is not known (png, svg, pdf)", shown(format)));
    }
    style.formats.emplace_back(format);
  }
  return style;
}

std::vector<std::string> draw(const Chart& chart, const std::string& stem, const ChartStyle& style) {
  const std::string title = style.title.empty() ? chart.title : style.title + ": " + chart.title;
  const std::pair<int, int> usual = usual_size(chart);
  const auto [width, height] =
      style.size.value_or(std::pair(std::min(usual.first, longest_side), std::min(usual.second, longest_side)));
  const double letters = std::min({1.0, 1.0 * width / usual.first, 1.0 * height / usual.second});
  const std::string script = chart_script(chart, title);
  std::vector<std::string> files;
  for (const std::string& format : style.formats) {
    const std::string picture =
        run_gnuplot(fmt::format("set encoding utf8\nset terminal {}\nset pointsize {:.3f}\n{}",
                                terminal(format, width, height, letters), 1.4 * letters, script));
    const std::filesystem::path folder = std::filesystem::path(stem).parent_path();
    if (!folder.empty()) make_folder(folder.string());
    files.push_back(fmt::format("{}.{}", stem, format));
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
