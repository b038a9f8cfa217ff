// SPDX-License-Identifier: Apache-2.0
#include "tools/device_json.h"

#include "catalogue/device_table.h"
#include "text/json.h"

namespace perfpred {

nlohmann::ordered_json to_json(const Device& device) {
  nlohmann::ordered_json row = row_json(device_table(), device);
  row["aliases"] = device.aliases;
  return row;
}

nlohmann::ordered_json to_json(std::span<const Device> devices) {
  nlohmann::ordered_json document = {{"devices", nlohmann::ordered_json::array()}};
  for (const Device& device : devices) document["devices"].push_back(to_json(device));
  return document;
}

}  // namespace perfpred
