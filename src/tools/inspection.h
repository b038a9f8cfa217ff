// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include "tools/json_request.h"

namespace perfpred {

/// The job of a request of which nothing but its step is asked: as read_request(), but that a batch size that is
/// missing is usual_batch_size, or a step file's. Its device is that of Workload() where neither the request nor the
/// model's rows name one.
/// @throws InputError as read_request() and Workload::validate()
[[nodiscard]] AskedJob read_inspection(const ModelRequests& requests, nlohmann::json request);

/// Samples a step where a network is counted and nobody says how many.
inline constexpr std::int64_t usual_batch_size = 32;

/// Work and memory of the job's step and of each of its layers: the document of `perfpred-inspect --json --layers`; of
/// a job on several devices the memory of their ranks. The device of Workload() is none. @throws InputError as
/// report_step() and report_ranks()
[[nodiscard]] nlohmann::json inspection(const Workload& workload, const DeviceCatalogue& devices);

}  // namespace perfpred
