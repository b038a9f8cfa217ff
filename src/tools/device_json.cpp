// SPDX-License-Identifier: Apache-2.0
#include "tools/device_json.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>

#include "catalogue/device_table.h"
#include "text/json.h"

namespace perfpred {

nlohmann::ordered_json to_json(const Device& device) {
  constexpr std::array<std::string_view, 7> texts = {"name", "kind", "vendor", "arch", "source", "mem_type", "bus"};
  nlohmann::ordered_json row;
  const auto fields = device_fields(device);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    const std::string& column = device_columns()[i];
    if (column == "aliases") {
      row[column] = device.aliases;
    } else if (std::find(texts.begin(), texts.end(), column) != texts.end()) {
      row[column] = fields[i];
    } else {
      row[column] = fields[i].empty() ? nlohmann::ordered_json(nullptr) : parse_json<nlohmann::ordered_json>(fields[i]);
    }
  }
  return row;
}

nlohmann::ordered_json to_json(std::span<const Device> devices) {
  nlohmann::ordered_json document = {{"devices", nlohmann::ordered_json::array()}};
  for (const Device& device : devices) document["devices"].push_back(to_json(device));
  return document;
}

}  // namespace perfpred
