// SPDX-License-Identifier: Apache-2.0
#include "parallel/scaling_rows.h"

#include <perfpred/error.h>

#include "text/csv.h"
#include "text/parse.h"

namespace perfpred {
namespace {

/// The columns of a table. @throws InputError if one is missing
struct ScalingColumns {
  explicit ScalingColumns(const CsvReader& csv)
      : cluster(csv.required("cluster")),
        gpu(csv.required("gpu")),
        network(csv.required("network")),
        precision(csv.required("precision")),
        gradient_bytes(csv.required("grad_bytes")),
        placement(csv.required("gpus_per_node")),
        local_batch(csv.required("local_batch")),
        step_ms(csv.required("step_ms")),
        accumulate(csv.optional("accum")),
        use(csv.optional("use")),
        part(csv.optional("part")),
        probe(csv.optional("probe")) {}

  [[nodiscard]] ScalingRow read(const CsvReader& csv) const {
    ScalingRow row;
    for (const CsvColumn* column : {&cluster, &gpu, &network, &precision}) {
      if (csv.text(*column).empty()) throw InputError(csv.place(column->name).prefix() + column->name + " is missing");
    }
    row.line = csv.place("").line;
    row.cluster = csv.text(cluster);
    row.gpu = csv.text(gpu);
    row.network = csv.text(network);
    row.precision = csv.text(precision);
    row.gradient_bytes = csv.positive(gradient_bytes);
    row.local_batch = csv.positive_integer(local_batch);
    row.step_sec = csv.positive(step_ms) * 1e-3;
    if (!csv.text(accumulate).empty()) row.accumulate = csv.positive_integer(accumulate);
    row.is_scored = csv.text(use) != "0";
    row.is_given = csv.text(part) == "given";
    if (!csv.text(probe).empty()) row.probe = csv.integer(probe);
    row.placement = placed(Placement::parse, csv.text(placement), csv.place(""));
    return row;
  }

  CsvColumn cluster, gpu, network, precision, gradient_bytes, placement, local_batch, step_ms, accumulate, use, part,
      probe;
};

}  // namespace

std::vector<ScalingRow> read_scaling_rows(const std::string& path) {
  CsvReader csv(path);
  const ScalingColumns columns(csv);
  std::vector<ScalingRow> rows;
  while (csv.next()) rows.push_back(columns.read(csv));
  if (rows.empty()) throw InputError(path + ": has a header and no row");
  return rows;
}

}  // namespace perfpred
