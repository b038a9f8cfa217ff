// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <cstddef>
#include <functional>
#include <string>
#include <unordered_map>

namespace perfpred {

struct WorkloadHash {
  std::size_t operator()(const Workload& workload) const {
    return 31 * std::hash<std::string>{}(workload.network) + static_cast<std::size_t>(workload.batch_size);
  }
};

/// What is known of workloads.
template <class Value>
using ByWorkload = std::unordered_map<Workload, Value, WorkloadHash>;

}  // namespace perfpred
