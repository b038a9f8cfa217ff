// SPDX-License-Identifier: Apache-2.0
#include "parallel/scaling_rows.h"

#include <perfpred/error.h>

#include <array>

#include "text/csv.h"

namespace perfpred {
namespace {

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
  row.placement = Placement::parse(csv.text(column(5)));
  row.local_batch = csv.positive_integer(column(6));
  row.step_sec = csv.positive(column(7)) * 1e-3;
  const auto optional = [&](const char* name) { return csv.text(csv.optional(name)); };
  if (!optional("accum").empty()) row.accumulate = csv.positive_integer(csv.optional("accum"));
  row.is_scored = optional("use") != "0";
  row.is_given = optional("part") == "given";
  if (!optional("probe").empty()) row.probe = csv.integer(csv.optional("probe"));
}

}  // namespace

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
