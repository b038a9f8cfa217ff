// SPDX-License-Identifier: Apache-2.0
#include "answer/prices.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "text/csv.h"

namespace perfpred {
void add_price(Prices& prices, const std::string& name, const Price& stated, const DeviceCatalogue& devices,
               const std::string& place) {
  const auto fail = [&](const std::string& what) { throw InputError(place + what); };
  if (stated.per_hour < 0) fail(fmt::format("price_per_hour {} is negative", stated.per_hour));
  if (!prices.empty() && prices.begin()->second.currency != stated.currency) {
    fail(fmt::format("currency \"{}\" beside \"{}\": prices are compared", stated.currency,
                     prices.begin()->second.currency));
  }
  const std::vector<const Device*> meant = devices.candidates(name);
  if (meant.empty()) fail(fmt::format("device \"{}\" is not known", name));
  for (const Device* one : meant) {
    if (!prices.emplace(one->name, stated).second) fail(fmt::format("device \"{}\" appears twice", one->name));
  }
}

Prices read_prices(const std::string& path, const DeviceCatalogue& devices) {
  CsvReader csv(path);
  const CsvColumn device = csv.required("device"), price = csv.required("price_per_hour");
  const CsvColumn currency = csv.optional("currency");
  Prices prices;
  while (csv.next()) {
    const Price stated = {csv.finite(price), std::string(csv.text(currency))};
    add_price(prices, std::string(csv.text(device)), stated, devices, csv.place("").prefix());
  }
  return prices;
}

void check_priced(const Prices& prices, const std::set<std::string>& devices) {
  if (prices.empty() || devices.empty()) return;
  if (std::any_of(devices.begin(), devices.end(), [&](const std::string& one) { return prices.contains(one); })) return;
  throw InputError(fmt::format("prices has no device \"{}\"", fmt::join(devices, "\" or \"")));
}

}  // namespace perfpred
