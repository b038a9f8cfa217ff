// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <optional>
#include <set>
#include <string>
#include <vector>

namespace perfpred {

[[nodiscard]] const std::vector<std::string>& device_columns();       ///< header of devices.csv
[[nodiscard]] std::vector<std::string> device_fields(const Device&);  ///< a row, unquoted, in that order

/// The precisions in which matrix products have a known rate there, for messages: `fp64, fp32, tf32, default`.
[[nodiscard]] std::string peak_precisions(const Device& device);

/// The first of the names that means the device that a user calls `asked`: this name, or one that differs only in case
/// and punctuation, or another name of the same device of the catalogue; for `cpu`, the model name of this machine's.
/// Nothing if none does.
[[nodiscard]] std::optional<std::string> find_device(const DeviceCatalogue& catalogue, const std::string& asked,
                                                     const std::set<std::string>& names);

/// What the kernel calls this machine's CPU; empty if it does not say.
[[nodiscard]] const std::string& cpu_model_name();

}  // namespace perfpred
