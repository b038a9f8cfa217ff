// SPDX-License-Identifier: Apache-2.0
#include "statistics/moments.h"

#include <algorithm>
#include <cmath>

namespace perfpred {
namespace {

/// a + b exactly.
DoubleDouble two_sum(double a, double b) {
  const double sum = a + b;
  const double b_part = sum - a;
  return {sum, (a - (sum - b_part)) + (b - b_part)};
}

/// The same for |a| >= |b|.
DoubleDouble quick_two_sum(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

/// Dekker's split into halves of 26 bits: products of halves are exact. (std::fma is a call where the processor that is
/// compiled for may lack it.)
DoubleDouble split(double a) {
  constexpr double two_27_plus_1 = 134217729.0;
  const double scaled = two_27_plus_1 * a;
  const double high = scaled - (scaled - a);
  return {high, a - high};
}

/// a * b exactly, for magnitudes between 1e-140 and 1e140.
DoubleDouble two_product(double a, double b) {
  const double product = a * b;
  const DoubleDouble x = split(a);
  const DoubleDouble y = split(b);
  return {product, ((x.high * y.high - product) + x.high * y.low + x.low * y.high) + x.low * y.low};
}

DoubleDouble square(const DoubleDouble& x) {
  const DoubleDouble product = two_product(x.high, x.high);
  return quick_two_sum(product.high, product.low + 2 * x.high * x.low);
}

DoubleDouble divided(const DoubleDouble& x, double by) {
  const double first = x.high / by;
  const DoubleDouble back = two_product(first, by);
  return quick_two_sum(first, ((x.high - back.high) - back.low + x.low) / by);
}

}  // namespace

void DoubleDouble::add(double x) { add(DoubleDouble{x, 0}); }

void DoubleDouble::add(const DoubleDouble& x) {
  const DoubleDouble highs = two_sum(high, x.high);
  const DoubleDouble lows = two_sum(low, x.low);
  const DoubleDouble first = quick_two_sum(highs.high, highs.low + lows.high);
  *this = quick_two_sum(first.high, first.low + lows.low);
}

void DoubleDouble::add_square(double x) { add(two_product(x, x)); }

void Moments::add(double x) {
  min = n == 0 ? x : std::min(min, x);
  max = n == 0 ? x : std::max(max, x);
  ++n;
  sum.add(x);
  sum_of_squares.add_square(x);
}

void Moments::merge(const Moments& other) {
  if (other.n == 0) return;
  min = n == 0 ? other.min : std::min(min, other.min);
  max = n == 0 ? other.max : std::max(max, other.max);
  n += other.n;
  sum.add(other.sum);
  sum_of_squares.add(other.sum_of_squares);
}

double Moments::mean() const { return std::clamp(divided(sum, static_cast<double>(n)).high, min, max); }

double Moments::deviation() const {
  if (min == max || n < 2) return 0;
  const auto count = static_cast<double>(n);
  const DoubleDouble expected = divided(square(sum), count);
  DoubleDouble rest = sum_of_squares;
  rest.add({-expected.high, -expected.low});
  return std::sqrt(std::max(rest.high, 0.0) / (count - 1));
}

}  // namespace perfpred
