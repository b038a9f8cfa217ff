// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/torch/step_timer.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch/device/memory_peak.h"
#include "torch/train/training_session.h"

namespace perfpred {

/// An epoch estimated from its steps: full steps x mean step + last, smaller step + overhead.
struct StepMeasurement {
  StepTiming timing;
  double epoch_sec = 0;
  double epoch_rel_sem = 0;                ///< relative standard error of epoch_sec, by that of the mean step
  double last_step_sec = 0;                ///< 0 if all batches of an epoch are full
  double overhead_sec = 0;                 ///< of an epoch, beyond its steps
  double data_wait_share = 0;              ///< of the sampling time, in which the device waited for batches
  double sampling_sec = 0;                 ///< wall time of the sampling
  std::optional<double> graph_speedup;     ///< step without / step with the CUDA graph
  std::vector<std::int64_t> bucket_bytes;  ///< of the gradients that ranks average; empty for one rank
  std::vector<std::pair<std::string, double>> phases;  ///< seconds of the parts of a step; empty if not measured
};

/// Samples training steps until their median is known, at most 3 s on a GPU and 15 s on a CPU. The peak is stopped
/// after the sampling: later batches have other sizes, for which cuDNN tries algorithms again.
/// @param overhead_sec  of an epoch, where it is known from an earlier measurement
/// @param stop  asked after every step; nothing is returned once it says true
[[nodiscard]] std::optional<StepMeasurement> measure_steps(TrainingSession& session, const Workload& workload,
                                                           c10::Device device, MemoryPeak& peak,
                                                           std::optional<double> overhead_sec,
                                                           const std::function<bool()>& stop);

/// A line for the log of a run. @param wall_sec  of the whole measurement, with the network's initialisation
[[nodiscard]] std::string steps_json(const StepMeasurement& measured, double wall_sec);

/// What a reader of the row should know: disturbances, a wide interval, waiting for data.
[[nodiscard]] std::string note_of(const StepMeasurement& measured);

}  // namespace perfpred
