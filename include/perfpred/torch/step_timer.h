// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/export.h>
#include <perfpred/step_samples.h>

#include <functional>
#include <optional>
#include <vector>

namespace perfpred {

class RankGroup;

/// The time of a step, and the device's state while it was taken; values that the system does not tell are empty.
struct StepTiming {
  StepLabel label;
  /// Median time that a GPU's host needs to submit a step to an idle device: behind a full queue it would wait for
  /// room. Empty on a CPU.
  std::optional<double> host_p50_sec;
  std::optional<double> clock_mhz;                      ///< median over the samples
  std::optional<double> clock_low_mhz, clock_high_mhz;  ///< 5 % and 95 % quantile
  std::vector<StepSample> samples;                      ///< all, in order, warm-up included
  bool throttled = false;                               ///< at least once
  bool company = false;  ///< others computed on the GPU, took its memory, or kept the CPU's threads from running
};

/// Times training steps by CUDA events, without waiting for the device, or by the steady clock on a CPU. Reads clocks
/// and disturbances about ten times a second (NVML, /proc) and marks disturbed samples; changes no setting of the
/// device.
class PERFPRED_API StepTimer {
 public:
  /// @param ranks  that time the same steps together: rank 0's times decide for all when to stop, and a sample counts
  ///               as disturbed where one of them was; null: this process alone
  explicit StepTimer(c10::Device device, StepSamplesOptions options = {}, RankGroup* ranks = nullptr);

  /// @param step   runs one training step, which must not wait for the device, and returns whether to go on. What it
  /// throws comes through
  /// @param fetch  gets the batch of the next step, if the step does not: part of the step's time, not of the host's
  /// @returns nothing if `step` ended the measurement
  [[nodiscard]] std::optional<StepTiming> measure(const std::function<bool()>& step,
                                                  const std::function<void()>& fetch = {}) const;

 private:
  c10::Device device_;
  StepSamplesOptions options_;
  RankGroup* ranks_;
};

}  // namespace perfpred
