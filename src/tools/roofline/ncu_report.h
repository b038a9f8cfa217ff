// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// Sums over some profiled kernels.
struct NcuTotals {
  std::string name;  ///< of the kernel or the NVTX range; empty for all kernels
  std::int64_t kernels = 0;
  double flops = 0;                                 ///< a fused multiply-add is 2; vector and tensor units together
  double tensor_flops = 0;                          ///< those of the tensor units
  double bytes = 0;                                 ///< to and from device memory
  double time_sec = 0;                              ///< sum of the kernels' durations
  std::optional<double> bytes_read, bytes_written;  ///< empty where only their sum was collected
  std::optional<double> sm_pct, dram_pct;           ///< percent of peak, weighted by time; empty where not collected

  [[nodiscard]] double flops_per_sec() const { return time_sec > 0 ? flops / time_sec : 0; }
  [[nodiscard]] double bytes_per_sec() const { return time_sec > 0 ? bytes / time_sec : 0; }
  /// FLOPs per byte; empty where no bytes moved.
  [[nodiscard]] std::optional<double> arithmetic_intensity() const;
};

/// A CSV export of Nsight Compute, summed up. docs/guides/profiling.md lists the metrics and the FLOPs that each
/// counts.
struct NcuReport {
  NcuTotals total;
  std::vector<NcuTotals> ranges;      ///< by NVTX range, in order of appearance; nested ranges each count a kernel
  std::vector<NcuTotals> by_kernel;   ///< by kernel name, the longest time first
  std::vector<std::string> warnings;  ///< what is missing or looks wrong, one line each

  /// Reads a file in one pass. Memory grows with the number of distinct kernel names in each range, and with the number
  /// of gaps in the kernels' IDs (the profiler numbers them without gaps). Long format (a row per kernel and metric) or
  /// wide (`--page raw`: a row per kernel, units in the second row). Lines before and after the table are skipped.
  /// @param decimal  separator of fractions in the file, `.` or `,`; thousands may be grouped by any other separator
  /// @throws InputError, `file:line: ...`, for a file that is not such an export, a number or unit that cannot be read,
  /// a duration of 0, or a file without the needed metrics (the message names all that are missing): a duration, bytes
  /// of device memory, and either additions, multiplications and fused multiply-adds of one precision or tensor
  /// operations
  [[nodiscard]] static NcuReport read(const std::string& path, char decimal = '.');

  /// A table for people: totals, ranges, kernels, warnings. `label` is its heading.
  [[nodiscard]] std::string text(const std::string& label) const;
};

}  // namespace perfpred
