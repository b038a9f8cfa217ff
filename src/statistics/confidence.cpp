// SPDX-License-Identifier: Apache-2.0
#include "statistics/confidence.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace perfpred {

double student_quantile(double z, double freedom) {
  const double n = freedom;
  if (n < 3) {
    // Closed forms of one and two degrees; in between the logarithm goes with 1 / n.
    const double outside = std::erfc(z / std::numbers::sqrt2);
    const double one = 1 / std::tan(outside * std::numbers::pi / 2);
    const double two = std::sqrt(2 / (outside * (2 - outside)) - 2);
    return n < 2 ? one * std::pow(two / one, 2 - 2 / n) : two * std::pow(student_quantile(z, 3) / two, 3 - 6 / n);
  }
  const double a = 1 / (n - 0.5);
  const double b = 48 / (a * a);
  double c = ((20700 * a / b - 98) * a - 16) * a + 96.36;
  const double d = ((94.5 / (b + c) - 3) / b + 1) * std::sqrt(a * std::numbers::pi / 2) * n;
  const double x = -z;
  if (n < 5) c += 0.3 * (n - 4.5) * (x + 0.6);
  c = (((0.05 * d * x - 5) * x - 7) * x - 2) * x + b + c;
  const double z2 = z * z;
  const double y = (((((0.4 * z2 + 6.3) * z2 + 36) * z2 + 94.5) / c - z2 - 3) / b + 1) * x;
  return std::sqrt(n * std::expm1(a * y * y));
}

double student_factor(std::size_t observations) {
  return student_quantile(z90, static_cast<double>(std::max<std::size_t>(observations, 2) - 1)) / z90;
}

}  // namespace perfpred
