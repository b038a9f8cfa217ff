// SPDX-License-Identifier: Apache-2.0
#include "workload/divisors.h"

#include <perfpred/error.h>

#include <fmt/format.h>

namespace perfpred {

void check_divides(std::string_view what, std::int64_t number, std::int64_t shared, std::string_view of) {
  if (shared % number == 0) return;
  std::int64_t below = 1, above = shared;
  for (std::int64_t divisor = 1; divisor <= shared / divisor; ++divisor) {
    if (shared % divisor != 0) continue;
    for (const std::int64_t one : {divisor, shared / divisor}) {
      if (one < number && one > below) below = one;
      if (one > number && one < above) above = one;
    }
  }
  const std::string others =
      number > shared ? fmt::format("{} does", shared) : fmt::format("{} and {} do", below, above);
  throw InputError(fmt::format("{} does not divide {} {}; {}", what, shared, of, others));
}

}  // namespace perfpred
