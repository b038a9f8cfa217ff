// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <functional>
#include <optional>
#include <set>

namespace perfpred {

/// Seconds of a step, by what measured devices of its architecture say of a device: it is expected to be no slower than
/// those that it is at least as good as, and, if it was not measured, no faster than those at least as good as it.
/// @param sec         of the step on the device, by itself
/// @param others      the measured devices
/// @param seconds_on  one of them, asked at most once; nothing where it was measured in another arithmetic only
[[nodiscard]] double ordered_seconds(const Device& device, double sec, bool is_measured,
                                     const std::set<const Device*>& others,
                                     const std::function<std::optional<double>(const Device&)>& seconds_on);

}  // namespace perfpred
