// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <string>
#include <vector>

namespace perfpred {

[[nodiscard]] const std::vector<std::string>& device_columns();       ///< header of devices.csv
[[nodiscard]] std::vector<std::string> device_fields(const Device&);  ///< a row, unquoted, in that order

/// The precisions in which matrix products have a known rate there, for messages: `fp64, fp32, tf32, default`.
[[nodiscard]] std::string peak_precisions(const Device& device);

/// What the kernel calls this machine's CPU; empty if it does not say.
[[nodiscard]] std::string cpu_model_name();

}  // namespace perfpred
