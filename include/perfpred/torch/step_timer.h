// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/export.h>
#include <perfpred/step_samples.h>

#include <functional>
#include <optional>
#include <vector>

namespace perfpred {

/// The time of a step, and the device's state while it was taken; what is not known is empty.
struct StepTiming {
  StepLabel label;
  std::optional<double> clock_mhz;    ///< median over the samples
  std::optional<double> mem_free_mb;  ///< before
  std::vector<StepSample> samples;    ///< all, in order, warm-up included
  bool throttled = false;             ///< at least once
  bool company = false;               ///< others computed on the GPU, took its memory, or kept the CPU's cores busy
};

/// Times training steps: CUDA events that nothing waits for, the steady clock on a CPU. Reads clocks and company about
/// ten times a second (NVML, /proc) and marks the samples that were disturbed; changes no setting of the device.
class PERFPRED_API StepTimer {
 public:
  explicit StepTimer(c10::Device device, StepSamplesOptions options = {});

  /// @param step  one whole training step; it must not wait for the device. What it throws comes through
  [[nodiscard]] StepTiming measure(const std::function<void()>& step) const;

 private:
  c10::Device device_;
  StepSamplesOptions options_;
};

}  // namespace perfpred
