// SPDX-License-Identifier: Apache-2.0
#pragma once
// The standard model with machines that nobody measured.
#include <perfpred/device.h>
#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>
#include <perfpred/workload.h>

#include <map>
#include <string>
#include <utility>

#include "optime/op_model_state.h"

namespace perfpred::testing {

inline Workload job(const char* network, std::int64_t batch, const char* device) {
  Workload workload = Workload::zoo(network, batch);
  workload.device = device;
  workload.train_images = std::int64_t{workload.train_images};  // stated
  return workload;
}

using Machines = std::map<MachineKey, MachineEffects>;

/// The standard model with machines of which it has no steps.
inline OpTimeModel standard_and(const Machines& machines) {
  OpModelState state = OpModelAccess::state(OpTimeModel::standard());
  for (const auto& [key, effects] : machines) {
    const StepDevice device = step_device(DeviceCatalogue().find(key.device), key.precision, key.arithmetic);
    state.steps.machines[key] = {effects, device.chip, arithmetic_key(key.precision, device, key.arithmetic),
                                 std::nullopt};
  }
  return OpModelAccess::model(std::move(state));
}

inline Quantiles step_sec(const OpTimeModel& model, const Workload& workload) {
  return model.predict(workload.graph(), DeviceCatalogue().find(workload.device), workload.precision).sec;
}

}  // namespace perfpred::testing
