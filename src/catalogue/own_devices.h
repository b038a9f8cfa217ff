// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <string>
#include <vector>

namespace perfpred {

/// The rows of a user's file. @throws InputError as DeviceCatalogue::add(), which takes them
[[nodiscard]] std::vector<Device> read_own_devices(const std::string& path);

}  // namespace perfpred
