// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include "text/csv.h"

namespace perfpred {

/// A network of a user's file, named by its hash as `pt2:0123456789ab`: what it is trained on is not known.
[[nodiscard]] bool is_file_network(std::string_view name);

/// Of these, a step that perfpred.capture recorded: `step:0123456789ab`.
[[nodiscard]] bool is_captured_step(std::string_view name);

/// Parameters of a valid workload of `cifar_cnn`, in closed form: a prediction asks for them, and must neither allocate
/// nor build the network.
[[nodiscard]] std::int64_t cifar_cnn_params(const Workload& workload);

/// Refuses fields that are out of range whatever the others are. @throws InputError as Workload::validate()
void check_ranges(const Workload& workload);

/// One field of a workload as text: the same in keys, tables and options.
struct WorkloadColumn {
  std::string_view name;
  /// @throws InputError that names the place if the text is not a value of this field
  void (*set)(Workload& workload, std::string_view text, const ValuePlace& place);
  std::string (*get)(const Workload& workload);
  std::string_view usual = {};  ///< the value that keys leave out; empty: they have every value
};

/// All fields, in the order in which a key has them.
[[nodiscard]] std::span<const WorkloadColumn> workload_columns();

/// The values of columns that a table of measurements lacks (docs/formats.md). depth and base_filters are empty.
[[nodiscard]] Workload unstated_workload();

/// Reads the workload columns that a table has; an empty or missing field keeps the value in `defaults`.
class WorkloadReader {
 public:
  WorkloadReader(const CsvReader& csv, Workload defaults);
  [[nodiscard]] Workload read(const CsvReader& csv) const { return read(csv, defaults_); }
  /// With defaults for this row only. @throws InputError with file and line
  [[nodiscard]] Workload read(const CsvReader& csv, Workload workload) const;

 private:
  std::vector<CsvColumn> columns_;
  Workload defaults_;
};

}  // namespace perfpred
