// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>
#include <perfpred/run.h>
#include <perfpred/torch/device_error.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

class Ranks;

/// How training runs are measured and where they are recorded.
struct CollectOptions {
  Timing timing = Timing::epochs;
  int epochs = 3;                        ///< >= 2: the first is not timed; of Timing::epochs only
  int repeats = 1;                       ///< rows wanted of each workload, >= 1; each has weights and order of its own
  std::string device = "auto";           ///< `auto`, `cpu`, `cuda`, `cuda:1`
  std::optional<int> threads;            ///< of a CPU, of each replica: all by default, shared evenly; not for a GPU
  std::shared_ptr<Ranks> ranks;          ///< that train together, each a replica of the network; null: one
  std::string cluster;                   ///< of several ranks, a name of links.csv; may be empty
  std::string data;                      ///< CIFAR-10, as read_cifar10() takes it; generated images where empty
  std::string env;                       ///< a free tag
  std::uint64_t seed = 0;                ///< of the data, the order of the sweep, and the first row of each workload
  std::optional<double> time_limit_sec;  ///< > 0; no run begins that would probably end later
  std::string runs_csv;                  ///< rows are appended here
  std::string log_dir;                   ///< one log for each run; none where empty
};

/// The state of a sweep, reported after every run.
struct CollectProgress {
  int finished = 0;  ///< runs of this sweep, without the skipped ones
  int total = 0;
  double eta_sec = 0;
  const Run& run;  ///< the one that has just ended
};

struct CollectResult {
  int done = 0;       ///< rows with a time (ok or untrusted)
  int untrusted = 0;  ///< of these, disturbed ones
  int skipped = 0;    ///< rows that the file held already
  int failed = 0;     ///< rows without a time
  int left = 0;       ///< runs not begun or not finished: stopped, or out of time
  std::vector<Run> runs;
  std::vector<std::string> set_aside;  ///< one line for each torn line of the file, see RunRecorder
};

/// Measures training runs on this machine.
class PERFPRED_API Collector {
 public:
  /// @throws InputError for an option out of range, DeviceError for a device that is not there
  explicit Collector(CollectOptions options);
  ~Collector();
  Collector(Collector&&) noexcept;
  Collector& operator=(Collector&&) noexcept;

  /// The workload as it will be recorded: on this device, with this many threads, and where its replicas are.
  /// @throws InputError if it cannot be trained there
  [[nodiscard]] Workload placed(Workload workload) const;

  /// Trains once and measures; a failure is the run's outcome. Nothing is recorded.
  /// @param stop  asked after every step and before every batch that the network is judged on; nothing is returned once
  /// it says true
  [[nodiscard]] std::optional<Run> measure(
      const Workload& workload, const std::function<bool()>& stop = [] { return false; });

  /// The workloads, as placed(), for which options.runs_csv holds fewer than options.repeats rows, each once.
  /// @throws InputError as placed() and RunRecorder
  [[nodiscard]] std::vector<Workload> left(std::span<const Workload> workloads);

  /// Measures every workload options.repeats times, less the rows that options.runs_csv holds already, in an order
  /// shuffled by the seed, and records each run as it ends. Equal workloads count once.
  /// @throws InputError for a workload that cannot be trained here, before anything is measured
  /// Of several ranks, rank 0 says to the others what to measure, and records it.
  /// @throws Error if a row or a log cannot be written, or if another rank is lost, whose run is recorded as failed;
  ///         DeviceError if the device stopped answering
  [[nodiscard]] CollectResult collect(
      std::span<const Workload> workloads,
      const std::function<void(const CollectProgress&)>& progress = [](const CollectProgress&) {},
      const std::function<bool()>& stop = [] { return false; });

  /// Trains, on another rank than 0, what rank 0 says, until it says that there is no more. @throws Error if rank 0 is
  /// lost
  void follow();

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perfpred
