// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// Iterations of one network at one batch size in one environment, without warm-up and partial batches.
struct IterationStats {
  std::string environment;  ///< column `environment` where there is one, else `env`
  std::string device;       ///< what names the device: `environment` where there is one, else column `device`
  std::string network;      ///< as the zoo of networks spells it
  std::int64_t batch_size = 0;
  std::int64_t iterations = 0;                             ///< behind the figures
  double mean_ms = 0, std_ms = 0, min_ms = 0, max_ms = 0;  ///< time of an iteration; std with n - 1, 0 for one
  double images_per_sec = 0;                               ///< batch_size / mean time
  double logged_images_per_sec = 0;  ///< plain mean of the column `imgs_per_sec` over the whole log
  bool from_timestamps = false;      ///< the timer had not synchronised: differences of `timestamp` were taken
};

struct IterationSummary {
  std::vector<IterationStats> rows;   ///< in order of appearance
  std::vector<std::string> warnings;  ///< a line each
};

/// Sums up iteration logs in one pass and constant memory. The first `warmup` iterations of a run are dropped, and its
/// last, which may have been a partial batch; so is any whose imgs_per_sec says that it was partial. Where wall time,
/// by the timestamps, is more than 2 % above the timer's, the timer did not wait for the device (or left work out):
/// wall time is taken, and a warning says so.
/// @throws InputError, `file:line: ...`, for a file that cannot be read, a network that is not known, a number that is
/// not positive, or a run with no iteration left
[[nodiscard]] IterationSummary summarise_iterations(std::span<const std::string> paths, int warmup = 5);

}  // namespace perfpred
