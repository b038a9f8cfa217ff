// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstddef>

namespace perfpred {

/// Standard deviations to either side of a normal's mean that hold 90 % and 95 % of it.
inline constexpr double z90 = 1.6448536269514722;
inline constexpr double z95 = 1.959963984540054;

/// As many of Student's t as `z` of the normal: what few observations say, where many would say z.
/// G. W. Hill, Algorithm 396, Communications of the ACM 13 (1970); for z90 and z95 within 4e-6, between one, two and
/// three degrees of freedom within 3 %.
/// @param z        1 to 3
/// @param freedom  degrees of freedom, at least 1
[[nodiscard]] PERFPRED_API double student_quantile(double z, double freedom);

/// How much wider a 90 % interval is that stands on so few observations.
[[nodiscard]] PERFPRED_API double student_factor(std::size_t observations);

}  // namespace perfpred
