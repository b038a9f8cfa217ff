// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/executed_step.h>
#include <perfpred/vocabulary.h>

#include <optional>

namespace perfpred {

class OpTimeModel;

/// Whether a device that waits for its host so long is bound by that: for more than half of the time.
[[nodiscard]] constexpr bool is_launch_bound(double waiting_sec, double sec) { return waiting_sec > sec / 2; }

/// What limits a step: `launch` where the model expects that the device waits for its host for most of the time, else
/// the roofline's bound; nothing if the device's bandwidth or its peak in this precision is not known.
[[nodiscard]] std::optional<Bound> step_bound(const OpTimeModel& model, const ExecutedStep& step, const Device& device,
                                              Precision precision);

}  // namespace perfpred
