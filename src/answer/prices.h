// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>

#include <set>
#include <string>

namespace perfpred {

/// The price of each device that the name means.
/// @param place  `prices.csv:2: `
/// @throws InputError as read_prices()
void add_price(Prices& prices, const std::string& name, const Price& stated, const DeviceCatalogue& devices,
               const std::string& place);

/// @throws InputError, which names the devices, if there are prices and none of these devices has one
void check_priced(const Prices& prices, const std::set<std::string>& devices);

}  // namespace perfpred
