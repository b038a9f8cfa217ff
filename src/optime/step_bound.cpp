// SPDX-License-Identifier: Apache-2.0
#include "optime/step_bound.h"

#include <perfpred/op_time_model.h>

#include "optime/op_model_state.h"

namespace perfpred {

Bound step_bound(const OpTimeModel& model, const StepLimits& limits, const StepQuestion& step) {
  const StepClocks clocks = OpModelAccess::predict(model, step).clocks;
  return is_launch_bound(clocks.total_sec - clocks.device_sec, clocks.total_sec) ? Bound::launch : limits.bound;
}

}  // namespace perfpred
