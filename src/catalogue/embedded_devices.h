// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string_view>

namespace perfpred {

/// data/devices.csv, written into the library by cmake/EmbedText.cmake.
extern const std::string_view embedded_devices;

}  // namespace perfpred
