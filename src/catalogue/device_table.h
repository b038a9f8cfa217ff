// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <string>
#include <vector>

namespace perfpred {

[[nodiscard]] const std::vector<std::string>& device_columns();       ///< header of devices.csv
[[nodiscard]] std::vector<std::string> device_fields(const Device&);  ///< a row, unquoted, in that order

/// What the kernel calls this machine's CPU; empty if it does not say.
[[nodiscard]] std::string cpu_model_name();

}  // namespace perfpred
