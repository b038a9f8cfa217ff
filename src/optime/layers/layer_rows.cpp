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

#include "optime/layers/prenet_table.h"
#include "runs/disturbed.h"
#include "text/enum_names.h"
#include "text/files.h"

namespace perfpred {
namespace {

constexpr double ms = 1e3;
constexpr std::string_view deviation_column = "std_ms";  // the last one

constexpr std::array<std::string_view, 4> layer_outcomes = {"ok", "oom", "failed", "untrusted"};

std::string key_of(const LayerRow& row) { return layer_key(row.layer) + '|' + row.device; }

/// A positive number, written with six digits.
/// @param unit  of the column, of which the row has one
Column<LayerRow> number(std::string_view name, std::optional<double> LayerRow::*member, double unit = ms,
                        double (*parse)(std::string_view, const ValuePlace&) = parse_positive) {
  Column<LayerRow> column = number_column(
      name, member, [unit, parse](std::string_view text, const ValuePlace& place) { return parse(text, place) / unit; },
      name == "forward_ms");
  column.get = [member, unit](const LayerRow& row) {
    return row.*member ? fmt::format("{:.6g}", *(row.*member) * unit) : std::string();
  };
  return column;
}

void read_outcome(LayerRow& row, std::string_view text, const ValuePlace& place) {
  if (std::find(layer_outcomes.begin(), layer_outcomes.end(), text) == layer_outcomes.end()) {
    throw_bad_value(place, text, "ok, oom, failed or untrusted");
  }
  row.outcome = text;
}

Columns<LayerRow> make_layer_columns() {
  using R = LayerRow;
  Columns<R> columns;
  Column<R> precision;
  for (const Column<LayerCase>& column : layer_columns()) {
    Column<R> of_layer = column_of<R, LayerCase>(&R::layer, column);
    column.name == "precision" ? precision = std::move(of_layer) : columns.emplace_back(std::move(of_layer));
  }
  const Columns<R> own = {
      number("forward_ms", &R::forward_sec),
      number("backward_ms", &R::backward_sec),
      number("optimizer_ms", &R::optimizer_sec),
      number("host_ms", &R::host_sec),
      number("low_ms", &R::low_sec),
      number("high_ms", &R::high_sec),
      {"device", [](R& r, std::string_view t, const ValuePlace&) { r.device = canonical_device(t); },
       [](const R& r) { return r.device; }, true, true},
      precision,
      {"outcome", read_outcome, [](const R& r) { return r.outcome; }, true, true},
      number("step_ms", &R::step_sec),
      number("min_ms", &R::min_sec),
      number("max_ms", &R::max_sec),
      number("threads", &R::threads, 1),
      text_column("note", &R::note),
      number(deviation_column, &R::std_sec, ms, parse_non_negative)};
  columns.insert(columns.end(), own.begin(), own.end());
  return columns;
}

std::vector<LayerRow> read(CsvReader& csv) {
  const TableReader<LayerRow> table(csv, layer_row_columns());
  std::vector<LayerRow> rows;
  while (csv.next()) {
    LayerRow row;
    try {
      table.read(csv, row);
      check_layer(row.layer);
    } catch (const InputError& error) {
      const std::string prefix = csv.place("").prefix(), what = error.what();
      if (what.starts_with(prefix)) throw;
      throw InputError(prefix + what);
    }
    if (row.outcome == "ok" && !row.forward_sec && !row.step_sec)
      throw_bad_value(csv.place("forward_ms"), "", "positive");
    rows.push_back(std::move(row));
  }
  return rows;
}

/// Whether the table has the last column, which older ones lack. @throws InputError for another table
bool has_deviation(const std::string& path, const std::string& text) {
  const std::vector<std::string> header = names_of(layer_row_columns());
  if (csv_line(header).starts_with(text)) return true;  // a header that was cut off
  const std::string_view head = std::string_view(text).substr(0, size_up_to_header(text));
  const auto found = head.empty() ? std::vector<std::string>() : CsvReader::from_text(path, head).header();
  if (found == header) return true;
  if (found == std::vector(header.begin(), header.end() - 1)) return false;
  throw InputError(fmt::format("{}: is not a table of layers; name a file that does not exist", path));
}

}  // namespace

const Columns<LayerRow>& layer_row_columns() {
  static const Columns<LayerRow> columns = make_layer_columns();
  return columns;
}

std::vector<LayerRow> read_layer_rows(const std::string& path) {
  CsvReader csv(path);
  std::vector<LayerRow> rows;
  if (is_prenet_header(csv.header())) {
    CsvReader renamed = CsvReader::from_text(path, layers_of_prenet(csv));
    rows = read(renamed);
  } else {
    rows = read(csv);
  }
  if (rows.empty()) throw InputError(fmt::format("{}: no layers", path));
  return rows;
}

LayerRecorder::LayerRecorder(std::string path) : path_(std::move(path)) {
  struct stat status {};
  const bool there = ::stat(path_.c_str(), &status) == 0;
  const bool regular = !there || S_ISREG(status.st_mode);
  bool empty = true;
  const std::vector<std::string> header = names_of(layer_row_columns());
  if (there && regular && status.st_size > 0) {
    std::string text = read_file(path_);
    has_deviation_ = has_deviation(path_, text);
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
  if (empty) write_all(fd_, csv_line(header), path_);
}

LayerRecorder::~LayerRecorder() {
  if (fd_ >= 0) ::close(fd_);
}

bool LayerRecorder::holds(const LayerRow& row) const { return known_.count(key_of(row)) != 0; }

void LayerRecorder::remember(const LayerRow& row) {
  const auto outcome = enumerator_named<Outcome::untrusted>(row.outcome);
  if (outcome && is_settled(*outcome)) known_.insert(key_of(row));
}

void LayerRecorder::append(const LayerRow& row) {
  std::vector<std::string> fields = fields_of(layer_row_columns(), row);
  if (!has_deviation_) fields.pop_back();
  write_all(fd_, csv_line(fields), path_);
  remember(row);
}

}  // namespace perfpred
