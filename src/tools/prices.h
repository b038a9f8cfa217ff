// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>

#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <string>

namespace perfpred {

struct Price {
  double per_hour = 0;   ///< of one device, >= 0
  std::string currency;  ///< empty if the table does not say
};

/// Prices of devices by their names in the catalogue.
using Prices = std::map<std::string, Price, std::less<>>;

/// A table with the columns `device`, `price_per_hour` and, if there is one, `currency`. A name that several devices
/// share is the price of each of them.
/// @throws InputError with file and line for a device that is not known or that appears twice, a price below 0, or a
/// second currency
[[nodiscard]] Prices read_prices(const std::string& path, const DeviceCatalogue& devices);

/// The same of the value of an option `prices`: the path of such a table, or an object of prices by device.
[[nodiscard]] Prices prices_of(const nlohmann::json& value, const DeviceCatalogue& devices);

/// @throws InputError, which names the devices, if there are prices and none of these devices has one
void check_priced(const Prices& prices, const std::set<std::string>& devices);

}  // namespace perfpred
