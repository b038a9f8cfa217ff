// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/run.h>
#include <perfpred/torch/image_data.h>

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "runs/run_log.h"
#include "torch/device/memory_peak.h"
#include "torch/monitor/device_monitor.h"
#include "torch/train/training_session.h"

namespace perfpred {

/// Epochs as they were trained; the first one is not timed. Of several ranks: what this one saw of its share of the
/// images, and the disturbance of the one that was disturbed most.
struct EpochMeasurement {
  std::vector<LoggedEpoch> epochs;
  std::vector<double> steps_sec;   ///< all steps of the timed epochs
  Disturbance disturbance;         ///< in the timed epochs
  std::vector<double> clocks_mhz;  ///< read about once a second in the timed epochs
  double test_acc = 0;
};

/// Trains `epochs` epochs, judging the network after each, and tests it. Memory counts from the second epoch on,
/// without the test: in the first, cuDNN tries algorithms for each new batch size, using all free memory.
/// @param seed  of the order of the images
/// @param done  called after each epoch
/// @param stop  asked after every step and before every batch that the network is judged on; nothing is returned once
/// it says true
[[nodiscard]] std::optional<EpochMeasurement> measure_epochs(TrainingSession& session, c10::Device device,
                                                             const ImageData& data, int epochs, std::uint64_t seed,
                                                             MemoryPeak& peak,
                                                             const std::function<void(const LoggedEpoch&)>& done,
                                                             const std::function<bool()>& stop);

}  // namespace perfpred
