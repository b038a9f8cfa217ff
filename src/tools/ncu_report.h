// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// What some profiled kernels did together.
struct NcuTotals {
  std::string name;  ///< of the kernel or the NVTX range; empty for all kernels
  std::int64_t kernels = 0;
  double flops = 0;                                 ///< a fused multiply-add is 2; vector and tensor units together
  double tensor_flops = 0;                          ///< those of the tensor units
  double bytes = 0;                                 ///< to and from device memory
  std::optional<double> bytes_read, bytes_written;  ///< unknown where only their sum was collected
  double time_sec = 0;                              ///< sum of the kernels' durations
  std::optional<double> sm_pct, dram_pct;           ///< percent of peak, weighted by time; unknown where not collected

  [[nodiscard]] double flops_per_sec() const { return time_sec > 0 ? flops / time_sec : 0; }
  [[nodiscard]] double bytes_per_sec() const { return time_sec > 0 ? bytes / time_sec : 0; }
  /// FLOPs a byte; nothing where no bytes moved.
  [[nodiscard]] std::optional<double> arithmetic_intensity() const;
};

/// A CSV export of Nsight Compute, summed up. docs/profiling.md lists the metrics and the FLOPs that each counts.
struct NcuReport {
  NcuTotals total;
  std::vector<NcuTotals> ranges;     ///< by NVTX range, in order of appearance; a kernel counts in each range around it
  std::vector<NcuTotals> by_kernel;  ///< by kernel name, the longest time first
  std::vector<std::string> warnings;  ///< what is missing or looks wrong, a line each

  /// Reads a file in one pass, in memory that grows with the number of distinct names only. Long format (a row per
  /// kernel and metric) or wide (`--page raw`: a row per kernel, units in the second row); lines before and after the
  /// table are skipped; decimal point or comma with any thousands separator.
  /// @throws InputError, `file:line: ...`, for a file that is no such export, a number or unit that cannot be read, or
  /// a file without the metrics needed (all that are missing are named): a duration, bytes of device memory, and
  /// additions, multiplications and fused multiply-adds of one precision at least, or tensor operations
  [[nodiscard]] static NcuReport read(const std::string& path);

  /// A table for people: totals, ranges, kernels, warnings. `label` is its heading.
  [[nodiscard]] std::string text(const std::string& label) const;
};

/// Writes the table. @throws InputError if no file can be made there, Error if the disk refuses
void write_ncu_summary(const std::string& path, const NcuReport& report, const std::string& label);

}  // namespace perfpred
