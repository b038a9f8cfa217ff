// SPDX-License-Identifier: Apache-2.0
#include "tools/prices.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include "text/csv.h"

namespace perfpred {

Prices read_prices(const std::string& path, const DeviceCatalogue& devices) {
  CsvReader csv(path);
  const CsvColumn device = csv.required("device"), price = csv.required("price_per_hour");
  const CsvColumn currency = csv.optional("currency");
  Prices prices;
  while (csv.next()) {
    const auto fail = [&](const std::string& what) { throw InputError(csv.place("").prefix() + what); };
    const std::string name(csv.text(device));
    const Price stated = {csv.finite(price), std::string(csv.text(currency))};
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
  return prices;
}

}  // namespace perfpred
