// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "tools/workload_sweep.h"

namespace perfpred {

/// Where a job names no device: takes the first GPU of this machine in the order of nvidia-smi, and for
/// `reserved_by_others`, if that is 0, what programs hold of its memory now.
/// @returns one line for the user; empty where a device is given or this machine has no GPU, and nothing is changed
[[nodiscard]] std::string take_own_gpu(std::vector<SweptField>& given, std::int64_t& reserved_by_others);

}  // namespace perfpred
