// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <optional>
#include <string>

namespace perfpred {

// The rates of this machine's CPU, kept for all programs in
// ${PERFPRED_CACHE_DIR:-${XDG_CACHE_HOME:-$HOME/.cache}/perfpred}: for each model of CPU and number of usable cores a
// file, one row of devices.csv. Nothing else measures a CPU for a prediction, so that the same input gives the same
// answer.

/// Device::this_cpu() with the rates that the folder holds; nothing where it holds none that can be read.
[[nodiscard]] std::optional<Device> kept_cpu();

struct RatedCpu {
  Device device;
  std::string
      note;  ///< one line for the user: that the CPU was measured, where that is kept or why it is not; or empty
};

/// The kept rates, else those of a measurement, which takes about a second and is kept where that is possible. Of
/// programs that start at once, one measures and the others wait for it.
/// @param anew  measures in any case
/// @throws Error as Device::measured_cpu()
[[nodiscard]] RatedCpu rated_cpu(bool anew = false);

/// Gives the devices the rates of this machine's CPU if the text means it and they are not known.
/// @returns RatedCpu::note; empty where nothing was measured. @throws Error as rated_cpu()
[[nodiscard]] std::string rate_cpu_for(DeviceCatalogue& devices, const std::string& device);

}  // namespace perfpred
