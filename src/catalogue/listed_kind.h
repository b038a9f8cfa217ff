// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <optional>
#include <string_view>

namespace perfpred {

/// The kind of a device that the built-in catalogue has by this very name; allocates nothing.
[[nodiscard]] std::optional<DeviceKind> listed_kind(std::string_view name);

}  // namespace perfpred
