// SPDX-License-Identifier: Apache-2.0
#include "model/hybrid/hybrid_calibration.h"

#include "model/regressor_kind.h"
#include "statistics/minimum.h"
#include "statistics/quantiles.h"

namespace perfpred {

Calibration calibrate(const std::vector<HeldOut>& held_out, const std::array<std::size_t, left_out_kinds>& groups,
                      std::size_t dropped) {
  const auto error_of = [](const HeldOut& row) { return std::abs(row.predicted - row.log_time); };
  const auto deviation = [](const Calibration& calibration, const HeldOut& row) {
    return std::sqrt(row.noise + calibration.latent(row.amplitude2, row.share) + row.unseen);
  };
  // Laplace likelihood: one group with large errors must not set the scale alone.
  double total = 0;
  for (const HeldOut& row : held_out) total += row.weight;
  const auto objective = [&](const double* x, const double*) {
    const Calibration calibration{.process_log = x[0], .novelty = x[1]};
    double loss = 0.5 * (x[0] * x[0] + x[1] * x[1] / 9) / static_cast<double>(held_out.size());
    for (const HeldOut& row : held_out) {
      const double scale = deviation(calibration, row);
      loss += row.weight / total * (std::sqrt(2.0) * error_of(row) / scale + std::log(scale));
    }
    return loss;
  };
  nlopt::opt search(nlopt::LN_BOBYQA, 2);
  search.set_lower_bounds({-3, 0});
  search.set_upper_bounds({5, 8});
  search.set_ftol_rel(1e-5);
  search.set_maxeval(200);
  search.set_initial_step(0.5);
  const std::vector<double> x = minimum(search, {0.0, 0.5}, objective);
  Calibration calibration{.process_log = x[0], .novelty = x[1]};
  calibration.most_share = 0;
  for (const HeldOut& row : held_out) calibration.most_share = std::max(calibration.most_share, row.share);
  // One quantile of the standardised errors for each kind of group, never below that of a nearer kind.
  for (std::size_t kind = 0; kind < left_out_kinds; ++kind) {
    std::vector<double> errors, shares;
    for (const HeldOut& row : held_out) {
      if (row.left_out != kind) continue;
      shares.push_back(row.share);
      errors.push_back(error_of(row) / deviation(calibration, row));
    }
    double& deviations = calibration.quantiles[kind];
    if (!errors.empty()) {
      calibration.shares[kind] = quantile(std::move(shares), kind == row_alone ? 0.25 : 0.5);
      const auto n = static_cast<double>(errors.size());
      const double level = std::min(0.9 * (n + static_cast<double>(dropped)) / n, 1.0);
      deviations = conformal_half_width(std::move(errors), level) * student_factor(groups[kind]);
    } else if (kind != row_alone) {
      deviations = 0;  // fewer than two such groups
    }
    if (kind != row_alone)
      deviations = std::max(deviations, calibration.quantiles[kind == architecture ? row_alone : architecture]);
  }
  return calibration;
}

}  // namespace perfpred
