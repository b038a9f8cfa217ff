// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// How the epoch time of a run was measured: from whole epochs, or from training steps times their number.
enum class Timing { epochs, steps };

/// How a run ended. `untrusted`: it finished, but something else used the machine during its measurements.
enum class Outcome { ok, oom, failed, interrupted, untrusted };

[[nodiscard]] PERFPRED_API std::string_view to_string(Timing timing);
[[nodiscard]] PERFPRED_API std::string_view to_string(Outcome outcome);

/// One measured training run: a row of runs.csv. Unknown values are empty.
struct PERFPRED_API Run {
  Workload workload;
  std::string timestamp_utc;  ///< ISO 8601, when the run began
  std::string framework;      ///< name and version of what executed it
  int epochs = 0;
  std::int64_t params = 0;
  std::vector<double> epoch_times;       ///< seconds, every epoch in order; empty for Timing::steps
  std::optional<double> avg_time_sec;    ///< mean of all epochs but the first, or the estimate of one epoch
  std::optional<double> images_per_sec;  ///< train_images / avg_time_sec
  std::optional<double> test_acc;        ///< fraction, after the last epoch
  std::string env, host, driver, cuda, cudnn;
  std::optional<double> step_p05_ms, step_p50_ms, step_p95_ms;
  std::optional<double> host_p50_ms;  ///< median time that the host needs to submit one training step
  std::optional<double> step_cv;      ///< coefficient of variation of the step times: standard deviation / mean
  /// Of the device while it was timed: median, 5 % and 95 % quantile.
  std::optional<double> clock_mhz, clock_p05_mhz, clock_p95_mhz;
  std::optional<bool> drift;  ///< the clock moved by more than 5 % (p95 / p05), or the step time changed its level
  std::optional<double> mem_free_mb;                    ///< memory that was free before the network was built
  std::optional<double> peak_mem_mb, peak_reserved_mb;  ///< held by tensors; kept by the allocator
  std::optional<double> cuda_graph_speedup;             ///< step without / step with the graph
  std::optional<double> load;                           ///< of the machine (1 minute) as the run began
  std::optional<double> data_wait_share;  ///< of avg_time_sec, in which the program waited for its loader; 0 to 1
  /// Relative standard error of avg_time_sec: half the width of its 95 % interval / 1.96 / avg_time_sec.
  std::optional<double> epoch_rel_sem;
  Timing timing = Timing::epochs;
  Outcome outcome = Outcome::ok;
  std::string note;

  friend bool operator==(const Run&, const Run&) = default;
};

/// All rows of a runs.csv. A workload field whose column is missing has its default: `cifar_cnn`, 3x32x32, 10 classes,
/// 50,000 images, adam, nchw, no CUDA graph, precision and device unknown. Other missing columns are empty; timing is
/// `epochs` and outcome `ok`.
/// @throws InputError if the file cannot be read, is empty or misses a mandatory column; `file:line: ...` for a row
/// that is not a run
[[nodiscard]] PERFPRED_API std::vector<Run> read_runs(const std::string& path);

}  // namespace perfpred
