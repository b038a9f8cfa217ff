// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>
#include <utility>
#include <vector>

#include "plan/knapsack.h"

namespace perfpred {
namespace {

/// A positive finite double is mantissa * 2^exponent, the mantissa odd.
struct Binary {
  std::int64_t mantissa;
  int exponent;
};

Binary binary_of(double value) {
  int exponent = 0;
  const auto mantissa = static_cast<std::int64_t>(std::ldexp(std::frexp(value, &exponent), 53));
  const int zeros = std::countr_zero(static_cast<std::uint64_t>(mantissa));
  return {mantissa >> zeros, exponent - 53 + zeros};
}

}  // namespace

void ValueUnit::add(double value) {
  const Binary binary = binary_of(value);
  lowest_ = std::min(lowest_, binary.exponent);
  highest_ = std::max(highest_, binary.exponent + bits_of(binary.mantissa));
  if (divisor_ != 1) divisor_ = std::gcd(divisor_, binary.mantissa);
  ++count_;
}

int ValueUnit::dropped_bits() const {
  constexpr int most_bits = 118;
  if (count_ == 0) return 0;
  return std::max(0, highest_ - lowest_ + static_cast<int>(std::bit_width(count_)) - most_bits);
}

Int128 ValueUnit::whole(double value) const {
  const Binary binary = binary_of(value);
  const int shift = binary.exponent - lowest_ - dropped_bits();
  if (shift >= 0) return static_cast<Int128>(binary.mantissa / divisor_) << shift;
  return std::max<std::int64_t>(1, shift > -64 ? binary.mantissa / divisor_ >> -shift : 0);
}

double ValueUnit::nearest(Int128 profit) const {
  return count_ == 0 ? 0 : std::ldexp(static_cast<double>(profit * divisor_), lowest_ + dropped_bits());
}

double ValueUnit::at_least(Int128 profit) const {
  if (count_ == 0) return 0;
  if (!exact()) profit += static_cast<Int128>(count_);  // each value lost less than a unit
  profit *= divisor_;
  auto rounded = static_cast<double>(profit);
  if (static_cast<Int128>(rounded) < profit) rounded = std::nextafter(rounded, std::numeric_limits<double>::infinity());
  return std::ldexp(rounded, lowest_ + dropped_bits());
}

bool ValueUnit::can_be(Int128 profit, double sum) const {
  if (exact() || nearest(profit) == sum) return nearest(profit) == sum;
  const Int128 off = static_cast<Int128>(count_) + 1;  // a unit of each value, and one for the rounding of the sum
  return at_least(profit + (profit >> 52U) + off) >= sum && nearest(profit - (profit >> 52U) - off) <= sum;
}

double rounded_sum(std::span<const double> numbers) {
  std::vector<double> parts;  // their exact sum is that of the numbers; no two share a bit; the largest is the last
  for (double number : numbers) {
    std::size_t kept = 0;
    for (double part : parts) {
      if (std::abs(number) < std::abs(part)) std::swap(number, part);
      const double sum = number + part;
      if (std::isinf(sum)) return sum;
      const double rest = part - (sum - number);
      if (rest != 0) parts[kept++] = rest;
      number = sum;
    }
    parts.resize(kept);
    parts.push_back(number);
  }
  double sum = 0;
  double rest = 0;
  while (!parts.empty() && rest == 0) {
    const double part = parts.back();
    parts.pop_back();
    const double before = std::exchange(sum, sum + part);
    rest = part - (sum - before);
  }
  // Half a unit in the last place was rounded to even; what follows may say that it is more, or less.
  if (!parts.empty() && (rest < 0) == (parts.back() < 0)) {
    const double next = sum + 2 * rest;
    if (2 * rest == next - sum) sum = next;
  }
  return sum;
}

}  // namespace perfpred
