// SPDX-License-Identifier: Apache-2.0
#include "optime/layers/layer_rows.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <utility>

#include "text/files.h"

namespace perfpred {
namespace {

constexpr double ms = 1e3;

struct TimeColumn {
  std::string_view name;
  std::optional<double> LayerRow::*member;
  double unit;
};

constexpr std::array<TimeColumn, 10> times = {{{"forward_ms", &LayerRow::forward_sec, ms},
                                               {"backward_ms", &LayerRow::backward_sec, ms},
                                               {"optimizer_ms", &LayerRow::optimizer_sec, ms},
                                               {"host_ms", &LayerRow::host_sec, ms},
                                               {"low_ms", &LayerRow::low_sec, ms},
                                               {"high_ms", &LayerRow::high_sec, ms},
                                               {"step_ms", &LayerRow::step_sec, ms},
                                               {"min_ms", &LayerRow::min_sec, ms},
                                               {"max_ms", &LayerRow::max_sec, ms},
                                               {"threads", &LayerRow::threads, 1}}};
constexpr std::size_t times_before_device = 6;
constexpr std::array<std::string_view, 4> outcomes = {"ok", "oom", "failed", "untrusted"};

std::string key_of(const LayerRow& row) { return layer_key(row.layer) + '|' + row.device; }

std::vector<LayerRow> read(CsvReader& csv) {
  const LayerReader reader(csv);
  const CsvColumn device = csv.required("device"), outcome = csv.required("outcome"), note = csv.optional("note");
  std::array<CsvColumn, times.size()> columns;
  for (std::size_t i = 0; i < times.size(); ++i) {
    columns[i] = times[i].name == "forward_ms" ? csv.required(times[i].name) : csv.optional(times[i].name);
  }
  std::vector<LayerRow> rows;
  while (csv.next()) {
    LayerRow row;
    row.layer = reader.read(csv);
    row.device = canonical_device(csv.text(device));
    row.outcome = csv.text(outcome);
    row.note = csv.text(note);
    if (std::find(outcomes.begin(), outcomes.end(), row.outcome) == outcomes.end()) {
      throw_bad_value(csv.place("outcome"), row.outcome, "ok, oom, failed or untrusted");
    }
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (!csv.text(columns[i]).empty()) row.*times[i].member = csv.positive(columns[i]) / times[i].unit;
    }
    if (row.outcome == "ok" && !row.forward_sec) throw_bad_value(csv.place("forward_ms"), "", "positive");
    rows.push_back(std::move(row));
  }
  return rows;
}

}  // namespace

const std::vector<std::string>& layer_row_columns() {
  static const std::vector<std::string> columns = [] {
    std::vector<std::string> all = layer_columns();
    std::erase(all, "precision");  // beside the device
    for (std::size_t i = 0; i < times.size(); ++i) {
      if (i == times_before_device) all.insert(all.end(), {"device", "precision", "outcome"});
      all.emplace_back(times[i].name);
    }
    all.emplace_back("note");
    return all;
  }();
  return columns;
}

std::vector<std::string> layer_row_fields(const LayerRow& row) {
  std::vector<std::string> fields = layer_fields(row.layer);
  fields.pop_back();  // the precision
  for (std::size_t i = 0; i < times.size(); ++i) {
    if (i == times_before_device) {
      fields.insert(fields.end(), {row.device, std::string(to_string(row.layer.precision)), row.outcome});
    }
    const auto& value = row.*times[i].member;
    fields.push_back(value ? fmt::format("{:.6g}", *value * times[i].unit) : std::string());
  }
  fields.push_back(row.note);
  return fields;
}

std::vector<LayerRow> read_layer_rows(const std::string& path) {
  CsvReader csv(path);
  std::vector<LayerRow> rows = read(csv);
  if (rows.empty()) throw InputError(fmt::format("{}: no layers", path));
  return rows;
}

LayerRecorder::LayerRecorder(std::string path) : path_(std::move(path)) {
  struct stat status {};
  const bool there = ::stat(path_.c_str(), &status) == 0;
  const bool regular = !there || S_ISREG(status.st_mode);
  bool empty = true;
  if (there && regular && status.st_size > 0) {
    std::string text = read_file(path_);
    const bool cut_off_header = csv_line(layer_row_columns()).starts_with(text);
    const std::string_view head = std::string_view(text).substr(0, size_up_to_header(text));
    if (!cut_off_header && (head.empty() || CsvReader::from_text(path_, head).header() != layer_row_columns())) {
      throw InputError(fmt::format("{}: is not a table of layers; name a file that does not exist", path_));
    }
    text.resize(text.rfind('\n') == std::string::npos ? 0 : text.rfind('\n') + 1);
    if (text.size() < static_cast<std::size_t>(status.st_size)) write_file(path_, text);
    if (!text.empty()) {
      CsvReader csv = CsvReader::from_text(path_, text);
      for (const LayerRow& row : read(csv)) remember(row);
      empty = false;
    }
  }
  fd_ = ::open(path_.c_str(), regular ? O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC : O_WRONLY | O_CLOEXEC, 0666);
  if (fd_ < 0) throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
  if (empty) write_all(fd_, csv_line(layer_row_columns()), path_);
}

LayerRecorder::~LayerRecorder() {
  if (fd_ >= 0) ::close(fd_);
}

bool LayerRecorder::holds(const LayerRow& row) const { return known_.count(key_of(row)) != 0; }

void LayerRecorder::remember(const LayerRow& row) {
  if (row.outcome == "ok" || row.outcome == "oom") known_.insert(key_of(row));
}

void LayerRecorder::append(const LayerRow& row) {
  write_all(fd_, csv_line(layer_row_fields(row)), path_);
  remember(row);
}

}  // namespace perfpred
