// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <initializer_list>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "workload/workload_columns.h"

namespace perfpred {

using WorkloadFields = std::vector<const WorkloadColumn*>;

/// The fields in which the workloads differ, in the order of a key, except those named in `ignored`; `input` and
/// `classes` only if they differ between workloads of one network.
[[nodiscard]] WorkloadFields differing_fields(std::span<const Workload> workloads,
                                              std::initializer_list<std::string_view> ignored);

/// The values of these fields for people: "depth 3, 32 filters, bf16". Empty values and flags that are not set are left
/// out.
[[nodiscard]] std::string label_of(const Workload& workload, const WorkloadFields& fields);

/// The same, or the network if there is no label.
[[nodiscard]] std::string name_of(const Workload& workload, const WorkloadFields& fields);

/// The unit of throughput: `images/s`, of networks of tokens `sequences/s`, where there are both, or a captured step,
/// `samples/s`.
[[nodiscard]] const char* throughput_unit(std::span<const Workload> workloads);

}  // namespace perfpred
