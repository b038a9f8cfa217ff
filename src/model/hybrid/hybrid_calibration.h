// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <vector>

#include "statistics/confidence.h"

namespace perfpred {

/// What was left out when a row was predicted, besides the row itself.
enum LeftOut : std::size_t { row_alone, architecture, depth, width, left_out_kinds };

/// How far errors on left-out rows exceed what the residual process predicts:
///   variance = noise + process * exp(process_log + novelty * share),
/// where process is share * amplitude^2, the posterior variance of the residual process. The 90 % interval is as many
/// standard deviations wide as covered 90 % of the left-out rows (split conformal prediction: Lei et al., JASA 2018),
/// with one quantile each for rows, architectures, depths and widths; between the shares of rows, architectures and
/// depths (or widths) the quantile is interpolated. It covers 90 % of single runs of rows like those left out. A share
/// counts as at least the lower quartile over rows left out singly: rows that suggest() chose lie far apart, so the
/// left-out errors say nothing about workloads that are closer to the rows.
struct Calibration {
  double process_log = 0;
  double novelty = 0;
  std::array<double, left_out_kinds> shares = {0, 0, 1, 1};  ///< medians; of row_alone the lower quartile
  std::array<double, left_out_kinds> quantiles = {z90, z90, z90, z90};
  double most_share = 1;  ///< largest share that was left out; larger ones are treated like it

  [[nodiscard]] double quantile(double share, bool new_depth, bool new_width) const {
    const auto interpolate = [&](double from, LeftOut near, LeftOut far) {
      const double way = shares[far] - shares[near];
      return from + (way > 0 ? std::clamp((share - shares[near]) / way, 0.0, 1.0) : 1.0) * (quantiles[far] - from);
    };
    const double near = interpolate(quantiles[row_alone], row_alone, architecture);
    double farthest = near;
    if (new_depth) farthest = std::max(farthest, interpolate(near, architecture, depth));
    if (new_width) farthest = std::max(farthest, interpolate(near, architecture, width));
    return farthest;
  }

  /// Variance without noise.
  /// @param amplitude2  variance of the process far from all rows
  [[nodiscard]] double latent(double amplitude2, double share) const {
    const double counted = std::max(share, shares[row_alone]);
    return amplitude2 * counted * std::exp(process_log + novelty * std::min(counted, most_share));
  }
};

/// A row that was predicted without its group.
struct HeldOut {
  double predicted = 0;  ///< log seconds
  double unseen = 0;     ///< variance due to costs that no row shows
  double log_time = 0;
  double amplitude2 = 0;  ///< variance of the process far from all rows
  double share = 0;       ///< of amplitude2 that the known rows leave
  double noise = 0;       ///< variance, at most a single run's: that is what intervals are asked for
  double weight = 1;      ///< every kind of group has the same total weight
  LeftOut left_out = row_alone;
};

/// @param groups   number of groups of each kind that were left out
/// @param dropped  rows that were dropped as outliers; they count as not covered
[[nodiscard]] Calibration calibrate(const std::vector<HeldOut>& held_out,
                                    const std::array<std::size_t, left_out_kinds>& groups, std::size_t dropped);

}  // namespace perfpred
