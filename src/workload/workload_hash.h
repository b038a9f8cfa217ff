// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <unordered_map>

namespace perfpred {

/// Of the fields in which the workloads of a process differ most.
struct WorkloadHash {
  std::size_t operator()(const Workload& workload) const {
    std::size_t hash = std::hash<std::string>{}(workload.network);
    const auto add = [&](std::int64_t value) { hash = hash * 1'099'511'628'211U + static_cast<std::size_t>(value); };
    for (const std::int64_t length : workload.input) add(length);
    for (const std::int64_t value : {workload.batch_size, workload.accumulate, std::int64_t{workload.train_images}})
      add(value);
    add(static_cast<std::int64_t>(workload.precision));
    return hash;
  }
};

/// What is known of workloads.
template <class Value>
using ByWorkload = std::unordered_map<Workload, Value, WorkloadHash>;

}  // namespace perfpred
