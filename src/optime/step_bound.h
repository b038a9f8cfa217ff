// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/roofline.h>
#include <perfpred/vocabulary.h>

namespace perfpred {

class OpTimeModel;
struct StepQuestion;

/// Whether a device that waits for its host so long is bound by that: for more than half of the time.
[[nodiscard]] constexpr bool is_launch_bound(double waiting_sec, double sec) { return waiting_sec > sec / 2; }

/// What limits a step: `launch` where the model expects that the device waits for its host for most of the time, else
/// the roofline's bound.
/// @param limits  of the step on the device: its bandwidth and its peak in the step's precision are known
[[nodiscard]] Bound step_bound(const OpTimeModel& model, const StepLimits& limits, const StepQuestion& step);

}  // namespace perfpred
