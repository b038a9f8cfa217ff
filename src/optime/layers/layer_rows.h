// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "optime/layers/layer_case.h"

namespace perfpred {

/// A measured layer: a row of layers.csv. Times are of the device, in seconds, and empty where the layer did not run.
struct LayerRow {
  LayerCase layer;
  std::optional<double> forward_sec, backward_sec,
      optimizer_sec;                        ///< medians; backward and optimizer where there is one
  std::optional<double> host_sec;           ///< a GPU's host to submit a step; empty on a CPU, which computes itself
  std::optional<double> low_sec, high_sec;  ///< 95 % interval of the median of the whole step
  std::optional<double> step_sec;           ///< median of the whole step
  std::optional<double> min_sec, max_sec;   ///< of its samples
  std::optional<double> std_sec;            ///< standard deviation of its samples (n - 1)
  std::string device;                       ///< as the catalogue calls it
  std::string outcome = "ok";               ///< ok, oom, failed, untrusted (others computed on the device, too)
  std::optional<double> threads;            ///< of a CPU
  std::string note;                         ///< why it failed
};

/// The table of layers.csv. Setting a column does not check that it fits the others: read_layer_rows() does.
[[nodiscard]] const Columns<LayerRow>& layer_row_columns();

/// Reads a layers.csv, or a table of PreNeT (prenet_table.h), whose layers may have the time of the whole step alone.
/// @throws InputError, `file:line: ...`, for a table without layers or with a value that is not one
[[nodiscard]] std::vector<LayerRow> read_layer_rows(const std::string& path);

/// Appends rows to a table, one write a row, in the columns that it has: a table of an older version may lack std_ms.
/// A last line that a writer left unfinished is dropped.
class LayerRecorder {
 public:
  /// @throws InputError if the file cannot be made, or holds another table
  explicit LayerRecorder(std::string path);
  ~LayerRecorder();
  LayerRecorder(const LayerRecorder&) = delete;
  LayerRecorder& operator=(const LayerRecorder&) = delete;

  [[nodiscard]] bool holds(
      const LayerRow& row) const;    ///< the layer on this device, with an outcome that will not change
  void append(const LayerRow& row);  ///< @throws Error if the disk refuses

 private:
  void remember(const LayerRow& row);

  std::string path_;
  bool has_deviation_ = true;  // whether the table has the column
  int fd_ = -1;
  std::set<std::string> known_;
};

}  // namespace perfpred
