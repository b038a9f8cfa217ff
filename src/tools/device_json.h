// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <nlohmann/json.hpp>

#include <span>

namespace perfpred {

/// A row of devices.csv: numbers, null where they are not known, texts and the list of aliases.
[[nodiscard]] nlohmann::ordered_json to_json(const Device& device);

/// The document of perfpred-devices --json.
[[nodiscard]] nlohmann::ordered_json to_json(std::span<const Device> devices);

}  // namespace perfpred
