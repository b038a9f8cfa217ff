// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <algorithm>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace perfpred {

/// The same job on a device. On another one than its own, the number of threads is that of the first example there;
/// without an example there it is empty.
/// @param workload_of  of an element of `examples`
/// @throws InputError as with_field()
template <class Examples, class WorkloadOf = std::identity>
[[nodiscard]] Workload workload_on(const Workload& workload, std::string_view device, const Examples& examples,
                                   WorkloadOf workload_of = {}) {
  Workload there = with_field(workload, "device", device);
  if (there.device == workload.device) return there;
  const auto known = std::find_if(examples.begin(), examples.end(), [&](const auto& example) {
    return std::invoke(workload_of, example).device == there.device;
  });
  there.threads = known != examples.end() ? std::invoke(workload_of, *known).threads : std::nullopt;
  return there;
}

/// The key of a workload wherever it runs: without its device and threads.
[[nodiscard]] inline std::string key_anywhere(Workload workload) {
  workload.device.clear();
  workload.threads.reset();
  return workload.key();
}

}  // namespace perfpred
