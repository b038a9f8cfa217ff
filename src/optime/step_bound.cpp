// SPDX-License-Identifier: Apache-2.0
#include "optime/step_bound.h"

#include <perfpred/op_time_model.h>

#include "optime/op_model_state.h"

namespace perfpred {

Bound step_bound(const OpTimeModel& model, const StepLimits& limits, const ExecutedStep& step, const Device& device,
                 Precision precision) {
  const StepTime time = OpModelAccess::predict(model, {step, device, precision, false, {}, {}}).time;
  return is_launch_bound(time.sec.p50 - time.device_sec, time.sec.p50) ? Bound::launch : limits.bound;
}

}  // namespace perfpred
