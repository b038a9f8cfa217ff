// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "text/nearest_name.h"

namespace perfpred {

/// What is said of an option, a field or a column that counts devices.
inline constexpr std::string_view one_device_only =
    "jobs on several devices are not answered yet; a prediction is for one device";

/// Whether a name is one by which launchers count devices or their machines: torchrun's, Slurm's, Accelerate's,
/// Lightning's. Case and punctuation do not count.
[[nodiscard]] inline bool counts_devices(std::string_view name) {
  constexpr std::array<std::string_view, 15> names = {
      "gpus",         "ngpus",  "numgpus",   "gpuspernode",  "gpuspertask", "nodes",      "nnodes",       "numnodes",
      "nprocpernode", "nprocs", "worldsize", "numprocesses", "nummachines", "numdevices", "ntaskspernode"};
  return std::find(names.begin(), names.end(), bare(name)) != names.end();
}

}  // namespace perfpred
