// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace perfpred {

/// Refuses a number that does not divide what it shares, and names the divisors next to it: `tp = 3 of parallel does
/// not divide 32 heads; 2 and 4 do`.
/// @param what    the number in words, `tp = 3 of parallel`
/// @param shared  >= 1; `of` says of what
/// @throws InputError
void check_divides(std::string_view what, std::int64_t number, std::int64_t shared, std::string_view of);

}  // namespace perfpred
