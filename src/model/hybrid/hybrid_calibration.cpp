// SPDX-License-Identifier: Apache-2.0
#include "model/hybrid/hybrid_calibration.h"

#include "model/hybrid/hybrid.h"
#include "model/regressor_kind.h"
#include "statistics/minimum.h"
#include "statistics/quantiles.h"

namespace perfpred {

FormVector choose_weights(const std::vector<HeldOut>& held_out, const HybridConstants& constants) {
  const FormVector prior = Eigen::Map<const FormVector>(constants.form_weights.data());
  const auto weights_of = [&](const double* x) {
    FormVector logits = prior.array().log();
    for (std::size_t f = 1; f < forms; ++f) logits[static_cast<Eigen::Index>(f)] += x[f - 1];
    FormVector weights = (logits.array() - logits.maxCoeff()).exp();
    return FormVector(weights / weights.sum());
  };
  const auto loss_of = [&](const FormVector& weights) {
    double loss = 0, total = 0;
    for (const HeldOut& row : held_out) {
      loss += row.weight * std::sqrt(1e-6 + std::pow(weights.dot(row.by_form) - row.log_time, 2));
      total += row.weight;
    }
    return loss / total;
  };
  const double scale = loss_of(weights_of(std::array<double, forms - 1>{}.data()));
  const auto objective = [&](const double* x, const double*) {
    double value = loss_of(weights_of(x)) / scale;
    for (std::size_t f = 0; f + 1 < forms; ++f) value += constants.weight_pull * x[f] * x[f];
    return value;
  };
  nlopt::opt search(nlopt::LN_BOBYQA, forms - 1);
  search.set_lower_bounds(-5);
  search.set_upper_bounds(5);
  search.set_ftol_rel(1e-4);
  search.set_maxeval(200);
  search.set_initial_step(0.5);
  return weights_of(minimum(search, std::vector<double>(forms - 1, 0.0), objective).data());
}

Calibration calibrate(const std::vector<HeldOut>& held_out, const FormVector& weights,
                      const std::array<std::size_t, left_out_kinds>& groups, std::size_t dropped) {
  struct Sample {
    double error, amplitude2, share, disagreement, unseen, noise, weight;
  };
  std::vector<Sample> samples;
  for (const HeldOut& row : held_out) {
    const double mean = weights.dot(row.by_form);
    samples.push_back({std::abs(mean - row.log_time), row.amplitude2, row.share,
                       weights.dot((row.by_form.array() - mean).square().matrix()), weights.dot(row.unseen), row.noise,
                       row.weight});
  }
  const auto deviation = [&](const Calibration& calibration, const Sample& sample) {
    return std::sqrt(sample.noise + calibration.latent(sample.amplitude2, sample.share, sample.disagreement) +
                     sample.unseen);
  };
  // Laplace likelihood: one group with large errors must not set the scale alone.
  const auto objective = [&](const double* x, const double*) {
    const Calibration calibration{.process_log = x[0], .novelty = x[1], .disagreement_log = x[2]};
    double loss = 0.5 * (x[0] * x[0] + x[1] * x[1] / 9 + x[2] * x[2]) / static_cast<double>(samples.size());
    double total = 0;
    for (const Sample& sample : samples) total += sample.weight;
    for (const Sample& sample : samples) {
      const double scale = deviation(calibration, sample);
      loss += sample.weight / total * (std::sqrt(2.0) * sample.error / scale + std::log(scale));
    }
    return loss;
  };
  nlopt::opt search(nlopt::LN_BOBYQA, 3);
  search.set_lower_bounds({-3, 0, -5});
  search.set_upper_bounds({5, 8, 5});
  search.set_ftol_rel(1e-5);
  search.set_maxeval(200);
  search.set_initial_step(0.5);
  const std::vector<double> x = minimum(search, {0.0, 0.5, 0.0}, objective);
  Calibration calibration{.process_log = x[0], .novelty = x[1], .disagreement_log = x[2]};
  calibration.most_share = 0;
  for (const Sample& sample : samples) calibration.most_share = std::max(calibration.most_share, sample.share);
  // One quantile of the standardised errors for each kind of group, never below that of a nearer kind.
  for (std::size_t kind = 0; kind < left_out_kinds; ++kind) {
    std::vector<Sample> left_out;
    std::vector<double> errors, shares;
    for (std::size_t i = 0; i < samples.size(); ++i) {
      if (held_out[i].left_out == kind) left_out.push_back(samples[i]);
    }
    for (const Sample& sample : left_out) shares.push_back(sample.share);
    double& deviations = calibration.quantiles[kind];
    if (!left_out.empty()) {
      calibration.shares[kind] = quantile(std::move(shares), kind == row_alone ? 0.25 : 0.5);
      for (const Sample& sample : left_out) errors.push_back(sample.error / deviation(calibration, sample));
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
