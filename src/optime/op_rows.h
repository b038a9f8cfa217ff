// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <set>
#include <string>
#include <vector>

#include "optime/kernel_time.h"

namespace perfpred {

/// A measured kernel: a row of op_<class>.csv.
struct OpRow {
  std::string gpu, op;
  bool test = false;  ///< of the split `test`
  Kernel kernel;
  double sec = 0;
};

/// A part of a network's step: `count` calls of a kernel. What only moves bytes is an elementwise kernel.
struct StepPart {
  Kernel kernel;
  double count = 1;
};

/// A row of e2e.csv with its graph's calls.
struct EndToEndRow {
  std::string gpu, model, mode, option;
  std::int64_t seq = 0, batch = 0;
  double sec = 0;
  std::vector<StepPart> parts;  ///< empty: graph_ops.csv has no such graph
};

/// A folder of measured operators: gpus.csv and op_*.csv, and where they are there e2e.csv with graph_ops.csv.
struct OpFolder {
  std::string path;
  std::map<std::string, Hardware> gpus;
  std::set<std::string> half;  ///< those whose peak is that of bf16
  std::vector<OpRow> rows;
  std::vector<EndToEndRow> end_to_end;
  std::vector<std::string> skipped;  ///< what was not read, and why: files of unknown classes
};

/// Rows for a fit, which chooses among them. They must outlive the pointers.
template <class Row>
[[nodiscard]] std::vector<const Row*> pointers_to(const std::vector<Row>& rows) {
  std::vector<const Row*> pointers;
  for (const Row& row : rows) pointers.push_back(&row);
  return pointers;
}

/// @throws InputError, `file:line: ...`, for a folder without gpus.csv or without rows, a value that is not
/// one or that no GPU has, and for a GPU that gpus.csv lacks or whose peak it lacks
[[nodiscard]] OpFolder read_op_folder(const std::string& path);

}  // namespace perfpred
