// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

namespace perfpred {

/// Standard deviations to either side of a normal distribution's mean that hold 90 % and 95 % of it.
inline constexpr double z90 = 1.6448536269514722;
inline constexpr double z95 = 1.959963984540054;

/// Quantile of the standard normal distribution. @param p  in (0, 1)
[[nodiscard]] double normal_quantile(double p);

/// Quantile of Student's t distribution at the probability for which the normal distribution has quantile `z`.
/// @param freedom  degrees of freedom, at least 1; need not be whole
[[nodiscard]] double student_quantile(double z, double freedom);

/// Ratio of Student's to the normal half width of a 90 % interval for the mean of so many observations (at least 2).
[[nodiscard]] double student_factor(std::size_t observations);

}  // namespace perfpred
