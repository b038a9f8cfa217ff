// SPDX-License-Identifier: Apache-2.0
#include "parallel/scaling_rows.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <numeric>

#include "text/csv.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::int64_t most_devices_of_node = 1024, most_nodes = 65'536;  // beyond those of any machine

int size(std::string_view text, std::int64_t most, const ValuePlace& place) {
  const std::int64_t value = parse_positive_integer(text, place);
  if (value > most) throw InputError(fmt::format("{}{} {} is more than {}", place.prefix(), place.name, value, most));
  return static_cast<int>(value);
}

void read(ScalingRow& row, const CsvReader& csv) {
  constexpr std::array<std::string_view, 8> names = {"cluster",    "gpu",           "network",     "precision",
                                                     "grad_bytes", "gpus_per_node", "local_batch", "step_ms"};
  const auto column = [&](std::size_t i) { return csv.required(names.at(i)); };
  row.line = csv.place("").line;
  row.cluster = csv.text(column(0));
  row.gpu = csv.text(column(1));
  row.network = csv.text(column(2));
  row.precision = csv.text(column(3));
  row.gradient_bytes = csv.positive(column(4));
  row.devices = parse_placement(csv.text(column(5)));
  row.local_batch = csv.positive_integer(column(6));
  row.step_sec = csv.positive(column(7)) * 1e-3;
  const auto optional = [&](const char* name) { return csv.text(csv.optional(name)); };
  if (!optional("accum").empty()) row.accumulate = csv.positive_integer(csv.optional("accum"));
  row.is_scored = optional("use") != "0";
  row.is_given = optional("part") == "given";
  if (!optional("probe").empty()) row.probe = csv.integer(csv.optional("probe"));
}

}  // namespace

int ScalingRow::all_devices() const { return std::accumulate(devices.begin(), devices.end(), 0); }

int ScalingRow::most_devices() const { return *std::max_element(devices.begin(), devices.end()); }

std::vector<int> parse_placement(std::string_view text) {
  const ValuePlace place = {{}, 0, "gpus_per_node"};
  if (const std::size_t sign = text.find('x'); sign != std::string_view::npos) {
    const int nodes = size(text.substr(sign + 1), most_nodes, place);
    return std::vector<int>(static_cast<std::size_t>(nodes), size(text.substr(0, sign), most_devices_of_node, place));
  }
  std::vector<int> devices;
  for (std::string_view rest = text;;) {
    const std::size_t end = std::min(rest.find('+'), rest.size());
    devices.push_back(size(rest.substr(0, end), most_devices_of_node, place));
    if (end == rest.size()) return devices;
    rest.remove_prefix(end + 1);
  }
}

std::string placement_text(const std::vector<int>& devices) {
  const bool alike = std::equal(devices.begin() + 1, devices.end(), devices.begin());
  if (alike && devices.size() > 4) return fmt::format("{}x{}", devices.front(), devices.size());
  return fmt::format("{}", fmt::join(devices, "+"));
}

std::vector<ScalingRow> read_scaling_rows(const std::string& path) {
  CsvReader csv(path);
  std::vector<ScalingRow> rows;
  while (csv.next()) {
    try {
      read(rows.emplace_back(), csv);
    } catch (const InputError& error) {
      const std::string what = error.what(), prefix = csv.place("").prefix();
      throw InputError(what.starts_with(prefix) ? what : prefix + what);
    }
  }
  if (rows.empty()) throw InputError(path + ": has a header and no row");
  return rows;
}

}  // namespace perfpred
