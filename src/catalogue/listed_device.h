// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <string_view>

namespace perfpred {

/// The device that the built-in catalogue has by this very name, else null; allocates nothing.
[[nodiscard]] const Device* listed_device(std::string_view name);

}  // namespace perfpred
