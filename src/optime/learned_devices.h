// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <map>
#include <string>

#include "optime/op_model_state.h"

namespace perfpred {

/// The devices that a model learned something of, by its names for them. Each name is resolved once.
class LearnedDevices {
 public:
  /// @param state  outlives this, unchanged
  explicit LearnedDevices(const OpModelState& state);

  /// With the rates that its effects were learned for: those that the model keeps, else the built-in catalogue's. Null
  /// for a name of which nothing was learned, or whose rates are not known.
  [[nodiscard]] const Device* find(const std::string& name) const;

  /// Whether what was learned of a device of this name holds for this device, whose rates may be others.
  [[nodiscard]] bool hold_for(const Device& device, Precision precision) const;

 private:
  std::map<std::string, const Device*> devices_;
};

/// What an OpTimeModel knows, and the devices that it knows.
struct LearnedModel {
  explicit LearnedModel(OpModelState known) : state(std::move(known)), devices(state) {}
  LearnedModel(const LearnedModel&) = delete;  // `devices` points into `state`
  LearnedModel& operator=(const LearnedModel&) = delete;
  ~LearnedModel() = default;

  const OpModelState state;
  const LearnedDevices devices;
};

}  // namespace perfpred
