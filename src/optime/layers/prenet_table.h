// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "optime/layers/layer_rows.h"
#include "text/csv.h"

namespace perfpred {

/// Tables of PreNeT's collector (github.com/pacslab/PreNeT, data_collection/run.py): one for each type of layer and
/// device, named benchmark_<layer>_<device>_<date>.csv, with the sizes under names of its own and the time of the whole
/// step in ms as timeUsed_median, timeUsed_min, timeUsed_max and timeUsed_std. Without an optimizer it times the
/// forward alone, with one also the gradients of the parameters and the update.

/// Whether a table has PreNeT's columns.
[[nodiscard]] bool is_prenet_header(std::span<const std::string> header);

/// The rows that are left of such a table in the columns of layers.csv, a line for each of its lines. The layer and the
/// device are those of the file's name, or of columns `layer` and `device`.
/// @throws InputError (`file:line: ...`) if they are not known or a time is missing
[[nodiscard]] std::string layers_of_prenet(CsvReader& csv);

struct PrenetTables {
  std::vector<std::string> files;
  std::size_t left_out = 0;  ///< layers whose outcome is not ok
};

/// Writes the layers with outcome ok into `folder`, a file for each type and device: PreNeT's columns, then those of
/// layers.csv that it lacks.
/// @param date  in the files' names
/// @throws as write_file() does
[[nodiscard]] PrenetTables write_prenet_tables(std::span<const LayerRow> rows, const std::string& folder,
                                               std::string_view date);

}  // namespace perfpred
