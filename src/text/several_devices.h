// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "text/nearest_name.h"

namespace perfpred {

/// What is said of an option, a field or a column that counts devices.
inline constexpr std::string_view where_devices_are =
    "several devices are the fields gpus_per_node (8, 1+3, 8x32) and parallel (ddp, fsdp, tp=2,pp=4)";

/// Whether a name is one by which launchers count devices or their machines: torchrun's, Slurm's, Accelerate's,
/// Lightning's. Case and punctuation do not count.
[[nodiscard]] inline bool counts_devices(std::string_view name) {
  constexpr std::array<std::string_view, 14> names = {
      "gpus",         "ngpus",  "numgpus",   "gpuspertask",  "nodes",       "nnodes",     "numnodes",
      "nprocpernode", "nprocs", "worldsize", "numprocesses", "nummachines", "numdevices", "ntaskspernode"};
  return std::find(names.begin(), names.end(), bare(name)) != names.end();
}

}  // namespace perfpred
