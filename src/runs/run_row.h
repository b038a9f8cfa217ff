// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run.h>

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "text/column.h"
#include "workload/workload_columns.h"

namespace perfpred {

/// All columns, in the order of runs.csv: header, reader, writer and JSON follow this list.
[[nodiscard]] const Columns<Run>& run_table();

[[nodiscard]] const std::vector<std::string>& run_columns();    ///< header of runs.csv, in order
[[nodiscard]] std::vector<std::string> run_fields(const Run&);  ///< a row, unquoted, in that order

/// read_runs() of a text in memory, which messages call `name`.
[[nodiscard]] std::vector<Run> read_runs_text(const std::string& name, std::string_view text);

/// @throws InputError, which names the column, for a run that read_runs() would not accept
void check_run(const Run& run);

/// The run whose row this is. @throws InputError as RunParser does, prefixed by `where`
[[nodiscard]] Run run_from_fields(const std::vector<std::string>& columns, const std::vector<std::string>& fields,
                                  const std::string& where);

/// @throws InputError, `where: ...`, if a column is missing that files of RunRecorder have
void require_recorded_columns(const std::vector<std::string>& header, const std::string& where);

/// Reads the rows of one runs.csv.
class RunParser {
 public:
  /// A table without `batch_size` has `key`, and one without `avg_time_sec` has `seconds`, of all its `epochs`
  /// together.
  /// @throws InputError, `where: ...`, if it has neither
  RunParser(const std::vector<std::string>& header, const std::string& where);

  /// The run of one row; valid until the next call.
  /// @param fields  one for each column of the header
  /// @throws InputError at the place if the row is not a run
  const Run& parse(std::span<const std::string_view> fields, ValuePlace place);

  /// Number of the workload and env of the row read last. Rows with equal texts in these columns share a number;
  /// numbers count from 0 in the order in which the texts first appear.
  [[nodiscard]] std::size_t group() const { return group_; }

 private:
  [[nodiscard]] Workload workload_of(std::span<const std::string_view> fields, ValuePlace place);
  void share_seconds(std::string_view text, ValuePlace place);

  struct Field {
    std::size_t index;
    const Column<Run>* column;
  };
  static constexpr auto missing = static_cast<std::size_t>(-1);

  std::size_t width_;
  std::size_t key_ = missing, seconds_ = missing;  // indices, where the table says them in place of other columns
  std::vector<std::size_t> workload_;              // indices of the fields of a workload
  std::vector<Field> rest_;
  std::vector<std::size_t> grouping_;  // indices of the columns of the workload, and of env
  std::vector<std::string_view> texts_;
  Run run_;
  std::string group_text_;
  std::unordered_map<std::string, std::size_t> groups_;
  std::vector<Workload> workloads_;  // by group
  std::size_t group_ = 0;
};

}  // namespace perfpred
