// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <string>

#include "optime/step_model.h"

namespace perfpred {

/// Effects of the hosts that a device may have; the usual host has 0.
struct HostRange {
  double expected = 0, fastest = 0, slowest = 0;
  bool probed = false;  ///< the host is known: all three are its effect
};

/// What a StepModel knows of a device in a precision and a layout of images.
struct KnownMachine {
  bool measured = false;  ///< whether steps or a probe in this precision say something of the device
  bool in_layout = true;  ///< whether these had the layout that is asked for; a probe's and single operators have nchw
  StepParameters parameters;
  MachineEffects effects;  ///< the host's is that of hosts.expected
  HostRange hosts;
};

/// Machine effects for a device and precision: the probe's if there is one; else the mean over its own measured
/// machines; else that over measured devices with such a chip (hardware.h), those in another layout only where there
/// are none in this one; where there are none, over those with the last chip before it. The host is not a property of
/// the device, so its effect is a range: that of a probe in any precision if there is one; else all usual hosts and
/// those that the device, or else the chip, was measured with, of which the one closest to the usual host is expected.
/// @param asked  its source says nothing, its device is empty if the device was not measured
[[nodiscard]] KnownMachine known_machine(const StepModel& model, const MachineKey& asked, const Chip& chip,
                                         const ArithmeticKey& arithmetic);

}  // namespace perfpred
