// SPDX-License-Identifier: Apache-2.0
#include "model/hybrid/residual_posterior.h"

#include <perfpred/error.h>

#include <Eigen/Cholesky>

#include <algorithm>
#include <utility>

#include "model/hybrid/lower_product.h"

namespace perfpred {
namespace {

/// A covariance of rows this many times larger than their noise cannot be factored in double precision.
constexpr double max_condition = 1e12;

/// Room for so many values that is kept from call to call.
double* kept_buffer(Eigen::Index values) {
  thread_local std::vector<double> buffer;
  buffer.resize(std::max(buffer.size(), static_cast<std::size_t>(values)));
  return buffer.data();
}

Place place_of(const Eigen::MatrixXd& places, Eigen::Index row) {
  Place place;
  Eigen::Map<Eigen::RowVectorXd>(place.data(), places.cols()) = places.row(row);
  return place;
}

}  // namespace

Eigen::MatrixXd inverse_factor_of(const ResidualKernel& kernel, const Eigen::MatrixXd& scaled,
                                  const Eigen::VectorXd& noise) {
  const Eigen::LLT<Eigen::MatrixXd> factor(kernel.with_noise(kernel.covariance(scaled, scaled), noise));
  if (factor.info() != Eigen::Success) throw ModelError("the covariance of the rows is not positive definite");
  Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(scaled.rows(), scaled.rows());
  factor.matrixL().solveInPlace(inverse);
  if (!inverse.allFinite()) throw ModelError("the covariance of the rows is not finite");
  return inverse;
}

Eigen::VectorXd solved(const Eigen::MatrixXd& inverse_factor, const Eigen::VectorXd& residuals) {
  const Eigen::VectorXd half = inverse_factor.triangularView<Eigen::Lower>() * residuals;
  return inverse_factor.transpose().triangularView<Eigen::Upper>() * half;
}

ResidualPosterior::ResidualPosterior(const ResidualKernel& kernel, const Eigen::MatrixXd& places,
                                     const Eigen::VectorXd& noise, Eigen::VectorXd residuals, std::size_t max_exact)
    : kernel_(kernel),
      scaled_(kernel.scaled(places)),
      noise_(kernel.label_variance(noise)),
      residuals_(std::move(residuals)) {
  if (static_cast<std::size_t>(noise.size()) <= max_exact) {
    inverse_factor_ = inverse_factor_of(kernel, scaled_, noise);
    alpha_ = solved(inverse_factor_, residuals_);
  } else if (!(kernel.amplitude2() <= max_condition * noise_.minCoeff()) || !scaled_.allFinite()) {
    throw ModelError("the covariance of the rows is not positive definite");
  }
}

ResidualPosterior::At ResidualPosterior::at(const Place& place) const {
  const Place scaled = kernel_.scaled(place);
  if (!is_exact()) {
    NearVector weights;
    return by_rows(scaled, nearest(scaled, [](Eigen::Index) { return false; }), weights);
  }
  const Eigen::Index n = scaled_.rows();
  double stack[2 * exact_rows];
  double* buffer = n > static_cast<Eigen::Index>(exact_rows) ? kept_buffer(2 * n) : stack;
  kernel_.covariance_column(scaled_, scaled.data(), buffer);
  const Eigen::Map<const Eigen::VectorXd> covariance(buffer, n);
  At at;
  at.variance =
      std::max(0.0, kernel_.amplitude2() - lower_product_norm2(inverse_factor_.data(), buffer, buffer + n, n));
  at.correction = alpha_.dot(covariance);
  return at;
}

std::vector<ResidualPosterior::At> ResidualPosterior::at(const Eigen::MatrixXd& places) const {
  const Eigen::Index count = places.rows(), n = scaled_.rows();
  std::vector<At> all(static_cast<std::size_t>(count));
  if (!is_exact()) {
    for (std::size_t i = 0; i < all.size(); ++i) all[i] = at(place_of(places, static_cast<Eigen::Index>(i)));
    return all;
  }
  double* buffer = kept_buffer(2 * n);
  const Eigen::MatrixXd covariance = kernel_.covariance(scaled_, kernel_.scaled(places));
  const Eigen::VectorXd corrections = covariance.transpose() * alpha_;
  for (Eigen::Index i = 0; i < count; i += 2) {
    const Eigen::Index other = std::min(i + 1, count - 1);
    double explained[2];
    lower_product_norm2(inverse_factor_.data(), covariance.col(i).data(), covariance.col(other).data(), buffer,
                        buffer + n, n, explained);
    for (const Eigen::Index j : {i, other}) {
      all[static_cast<std::size_t>(j)] = {corrections[j], std::max(0.0, kernel_.amplitude2() - explained[j - i])};
    }
  }
  return all;
}

ResidualPosterior::Joint ResidualPosterior::joint(const Eigen::MatrixXd& places) const {
  const Eigen::MatrixXd scaled = kernel_.scaled(places);
  const Eigen::MatrixXd covariance = kernel_.covariance(scaled_, scaled);
  if (is_exact()) {
    const Eigen::MatrixXd spread = inverse_factor_.triangularView<Eigen::Lower>() * covariance;
    return {covariance.transpose() * alpha_, kernel_.covariance(scaled, scaled) - spread.transpose() * spread};
  }
  // Of f - w'y: k(a, b) - w_a' k(rows, b) - k(a, rows) w_b + w_a' C w_b.
  Eigen::MatrixXd weights = Eigen::MatrixXd::Zero(covariance.rows(), covariance.cols()), among = weights;
  for (Eigen::Index i = 0; i < places.rows(); ++i) {
    const Place place = place_of(scaled, i);
    const NearestRows rows = nearest(place, [](Eigen::Index) { return false; });
    NearVector weight;
    (void)by_rows(place, rows, weight);
    Eigen::MatrixXd near(rows.size(), scaled_.cols());
    for (Eigen::Index k = 0; k < rows.size(); ++k) {
      weights(rows[k], i) = weight[k];
      near.row(k) = scaled_.row(rows[k]);
    }
    among.col(i) = kernel_.covariance(scaled_, near) * weight + noise_.cwiseProduct(weights.col(i));
  }
  const Eigen::MatrixXd half = weights.transpose() * (0.5 * among - covariance);
  return {weights.transpose() * residuals_, kernel_.covariance(scaled, scaled) + half + half.transpose()};
}

ResidualPosterior::At ResidualPosterior::at_row(std::size_t row, const std::vector<bool>& gone,
                                                NearestRows& others) const {
  const Place place = place_of(scaled_, static_cast<Eigen::Index>(row));
  others = nearest(
      place, [&](Eigen::Index i) { return gone[static_cast<std::size_t>(i)] || i == static_cast<Eigen::Index>(row); });
  NearVector weights;
  return by_rows(place, others, weights);
}

template <class Skip>
NearestRows ResidualPosterior::nearest(const Place& scaled, const Skip& skip) const {
  const Eigen::Index n = scaled_.rows();
  double* log_covariance = kept_buffer(n);
  kernel_.log_covariance_column(scaled_, scaled.data(), log_covariance);
  return {n, [&](Eigen::Index i) { return log_covariance[i]; }, skip};
}

ResidualPosterior::At ResidualPosterior::by_rows(const Place& scaled, const NearestRows& rows,
                                                 NearVector& weights) const {
  const Eigen::Index n = rows.size();
  Eigen::Matrix<double, Eigen::Dynamic, ResidualKernel::inputs, Eigen::ColMajor, NearestRows::max_rows> near(
      n, ResidualKernel::inputs);
  for (Eigen::Index k = 0; k < n; ++k) near.row(k) = scaled_.row(rows[k]);
  NearMatrix covariance(n, n);
  for (Eigen::Index k = 0; k < n; ++k) {
    kernel_.covariance_column(near.bottomRows(n - k), place_of(scaled_, rows[k]).data(), &covariance(k, k));
    covariance(k, k) += noise_[rows[k]];
  }
  NearVector shared(n);
  kernel_.covariance_column(near, scaled.data(), shared.data());
  weights = kriging_weights(covariance, shared);
  At at;
  at.variance = std::max(0.0, kernel_.amplitude2() - shared.dot(weights));
  for (Eigen::Index k = 0; k < n; ++k) at.correction += weights[k] * residuals_[rows[k]];
  return at;
}

}  // namespace perfpred
