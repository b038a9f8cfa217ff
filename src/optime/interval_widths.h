// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <numbers>

namespace perfpred {

// Half widths of 90 % intervals of log time that are taken and not learned (docs/notes/optime.md, Intervals).

/// Where nothing is known, as of other devices after one: a factor of two to either side.
inline constexpr double unknown_half_width = std::numbers::ln2;

/// By which sums of measured operators miss measured steps.
inline constexpr double label_noise = 0.08;

/// How much wider an interval is on an architecture without measured devices.
inline constexpr double other_family_factor = 1.5;

}  // namespace perfpred
