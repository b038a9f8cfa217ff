// SPDX-License-Identifier: Apache-2.0
#pragma once
// What measured rows tell about a zero-mean Gaussian process (Rasmussen, Williams, Gaussian Processes for Machine
// Learning, 2006, algorithm 2.1 and equation 5.12).
#include <perfpred/error.h>

#include <Eigen/Cholesky>
#include <Eigen/Core>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <span>
#include <utility>
#include <vector>

#include "statistics/lower_product.h"
#include "statistics/nearest_rows.h"

namespace perfpred {

/// A process of at most this many rows is solved exactly. Of more rows, hyper-parameters come from a random sample of
/// this size, and a prediction from the nearest rows.
inline constexpr std::size_t exact_rows = 400;

/// A row whose leave-one-out residual exceeds this many standard deviations is an outlier.
inline constexpr double outlier_deviations = 4;

/// A row that those which are left do not predict.
struct Outlier {
  std::size_t row = 0;
  double away = 0;       ///< from what they predict, in units of the deviation
  double deviation = 0;  ///< standard deviation of a label about it
};

/// A process given measured rows: exact, or by the nearest rows if there are more than `max_exact`.
///
/// `Inputs` holds the rows' inputs and says how the process varies:
///   Input                                        of a row, or of what is asked
///   Eigen::Index size()
///   Input of(Eigen::Index row)
///   double covariance(const Input&, const Input&)
///   void column(const Input&, double* out, Eigen::Index first = 0)  covariance with every row from `first` on
///   NearestRows nearest(const Input&, skip)      without rows for which skip(row)
///   NearCovariance among(const NearestRows&, const Input&)
template <class Inputs>
class GaussianProcess {
 public:
  using Input = typename Inputs::Input;

  /// At one input.
  struct At {
    double mean = 0;
    double variance = 0;  ///< of the process, noise excluded
  };
  /// At several inputs.
  struct Joint {
    Eigen::VectorXd mean;
    Eigen::MatrixXd covariance;  ///< noise excluded
  };

  GaussianProcess() = default;
  /// Takes O(rows^3) if it is exact.
  /// @param label_variance  of each row's value about the process, > 0
  /// @throws ModelError if the covariance of the rows is not positive definite
  GaussianProcess(Inputs inputs, Eigen::VectorXd label_variance, Eigen::VectorXd values,
                  std::size_t max_exact = exact_rows);

  [[nodiscard]] const Inputs& inputs() const { return inputs_; }
  [[nodiscard]] bool is_exact() const { return inputs_.size() == alpha_.size(); }
  /// Variance of a row's value about the process.
  [[nodiscard]] double label_variance(std::size_t row) const { return label_variance_[static_cast<Eigen::Index>(row)]; }
  /// Of the Cholesky factor of the rows' covariance, noise included; only of an exact process.
  [[nodiscard]] const Eigen::MatrixXd& inverse_factor() const { return inverse_factor_; }

  [[nodiscard]] At at(const Input& input) const;  ///< allocates nothing up to exact_rows rows
  [[nodiscard]] std::vector<At> at(std::span<const Input> inputs) const;
  /// By the nearest rows this is the exact covariance of their predictions' errors.
  [[nodiscard]] Joint joint(std::span<const Input> inputs) const;
  /// What the nearest other rows tell about a row, without those that are gone.
  [[nodiscard]] At at_row(std::size_t row, const std::vector<bool>& gone, NearestRows& others) const;

  /// Rows further than outlier_deviations from what the others predict, one after the other, each by those left.
  /// @param most   so many at most
  /// @param check  called for each, to stop by an exception
  template <class Check>
  [[nodiscard]] std::vector<Outlier> outliers(std::size_t most, const Check& check) const;

 private:
  /// A covariance of rows this many times larger than their noise cannot be factored in double precision.
  static constexpr double max_condition = 1e12;

  Inputs inputs_;
  Eigen::VectorXd label_variance_, values_;
  Eigen::MatrixXd inverse_factor_;
  Eigen::VectorXd alpha_;  // covariance^-1 * values; empty if there are many rows

  /// Room for two vectors of the rows that is kept from call to call.
  [[nodiscard]] double* buffer() const {
    thread_local std::vector<double> kept;
    kept.resize(std::max(kept.size(), static_cast<std::size_t>(4 * inputs_.size())));
    return kept.data();
  }
  [[nodiscard]] static Eigen::MatrixXd inverse_of(const Eigen::MatrixXd& lower);
  [[nodiscard]] At by_rows(const Input& input, const NearestRows& rows, NearVector& weights) const;
  [[nodiscard]] Joint joint_by_nearest(std::span<const Input> inputs, Joint prior) const;
  template <class Check>
  [[nodiscard]] std::vector<Outlier> outliers_of_all(std::size_t most, const Check& check) const;
  template <class Check>
  [[nodiscard]] std::vector<Outlier> outliers_by_nearest(std::size_t most, const Check& check) const;
  static constexpr auto none = [](Eigen::Index) { return false; };
};

template <class Inputs>
GaussianProcess<Inputs>::GaussianProcess(Inputs inputs, Eigen::VectorXd label_variance, Eigen::VectorXd values,
                                         std::size_t max_exact)
    : inputs_(std::move(inputs)), label_variance_(std::move(label_variance)), values_(std::move(values)) {
  const Eigen::Index n = inputs_.size();
  if (static_cast<std::size_t>(n) > max_exact) {
    for (Eigen::Index i = 0; i < n; ++i) {
      const Input input = inputs_.of(i);
      if (!(inputs_.covariance(input, input) <= max_condition * label_variance_.minCoeff()))
        throw ModelError("the covariance of the rows is not positive definite");
    }
    return;
  }
  Eigen::MatrixXd covariance(n, n);
  for (Eigen::Index i = 0; i < n; ++i) inputs_.column(inputs_.of(i), &covariance(i, i), i);  // the lower triangle
  covariance.diagonal() += label_variance_;
  const Eigen::LLT<Eigen::MatrixXd> factor(covariance);
  if (factor.info() != Eigen::Success) throw ModelError("the covariance of the rows is not positive definite");
  inverse_factor_ = inverse_of(factor.matrixLLT());
  if (!inverse_factor_.allFinite()) throw ModelError("the covariance of the rows is not finite");
  const Eigen::VectorXd half = inverse_factor_.template triangularView<Eigen::Lower>() * values_;
  alpha_ = inverse_factor_.transpose().template triangularView<Eigen::Upper>() * half;
}

/// Of a lower triangular matrix, by blocks of columns: above the diagonal nothing is computed.
template <class Inputs>
Eigen::MatrixXd GaussianProcess<Inputs>::inverse_of(const Eigen::MatrixXd& lower) {
  constexpr Eigen::Index columns = 16;
  const Eigen::Index n = lower.rows();
  Eigen::MatrixXd inverse = Eigen::MatrixXd::Identity(n, n);
  for (Eigen::Index first = 0; first < n; first += columns) {
    const Eigen::Index rest = n - first;
    auto block = inverse.block(first, first, rest, std::min(columns, rest));
    lower.bottomRightCorner(rest, rest).template triangularView<Eigen::Lower>().solveInPlace(block);
  }
  return inverse;
}

template <class Inputs>
auto GaussianProcess<Inputs>::at(const Input& input) const -> At {
  if (!is_exact()) {
    NearVector weights;
    return by_rows(input, inputs_.nearest(input, none), weights);
  }
  const Eigen::Index n = inputs_.size();
  double* const column = buffer();
  inputs_.column(input, column);
  const double explained = lower_product_norm2(inverse_factor_.data(), column, column + n, n);
  return {alpha_.dot(Eigen::Map<const Eigen::VectorXd>(column, n)),
          std::max(0.0, inputs_.covariance(input, input) - explained)};
}

template <class Inputs>
auto GaussianProcess<Inputs>::at(std::span<const Input> inputs) const -> std::vector<At> {
  std::vector<At> all;
  all.reserve(inputs.size() + 1);
  if (!is_exact()) {
    for (const Input& input : inputs) all.push_back(at(input));
    return all;
  }
  const Eigen::Index n = inputs_.size();
  double* const columns = buffer();
  for (std::size_t i = 0; i < inputs.size(); i += 2) {
    const std::size_t other = std::min(i + 1, inputs.size() - 1);
    inputs_.column(inputs[i], columns);
    inputs_.column(inputs[other], columns + n);
    double explained[2];
    lower_product_norm2(inverse_factor_.data(), columns, columns + n, columns + 2 * n, columns + 3 * n, n, explained);
    for (std::size_t j = i; j <= other; ++j) {
      const Input& input = inputs[j];
      const auto k = static_cast<Eigen::Index>(j - i);
      all.push_back({alpha_.dot(Eigen::Map<const Eigen::VectorXd>(columns + k * n, n)),
                     std::max(0.0, inputs_.covariance(input, input) - explained[k])});
    }
  }
  return all;
}

template <class Inputs>
auto GaussianProcess<Inputs>::joint(std::span<const Input> inputs) const -> Joint {
  const auto count = static_cast<Eigen::Index>(inputs.size());
  Joint prior{Eigen::VectorXd::Zero(count), Eigen::MatrixXd(count, count)};
  for (Eigen::Index i = 0; i < count; ++i) {
    for (Eigen::Index j = 0; j <= i; ++j) {
      prior.covariance(i, j) = prior.covariance(j, i) =
          inputs_.covariance(inputs[static_cast<std::size_t>(i)], inputs[static_cast<std::size_t>(j)]);
    }
  }
  if (!is_exact()) return joint_by_nearest(inputs, std::move(prior));
  Eigen::MatrixXd across(inputs_.size(), count);
  for (Eigen::Index i = 0; i < count; ++i) inputs_.column(inputs[static_cast<std::size_t>(i)], across.col(i).data());
  const Eigen::MatrixXd spread = inverse_factor_.template triangularView<Eigen::Lower>() * across;
  return {across.transpose() * alpha_, prior.covariance - spread.transpose() * spread};
}

/// Of f - w'y: k(a, b) - w_a' k(rows, b) - k(a, rows) w_b + w_a' C w_b.
template <class Inputs>
auto GaussianProcess<Inputs>::joint_by_nearest(std::span<const Input> inputs, Joint joint) const -> Joint {
  const Eigen::Index n = inputs_.size(), count = joint.mean.size();
  Eigen::MatrixXd across(n, count), weights = Eigen::MatrixXd::Zero(n, count), among = weights;
  Eigen::VectorXd column(n);
  for (Eigen::Index i = 0; i < count; ++i) {
    const Input& input = inputs[static_cast<std::size_t>(i)];
    inputs_.column(input, across.col(i).data());
    const NearestRows rows = inputs_.nearest(input, none);
    NearVector weight;
    joint.mean[i] = by_rows(input, rows, weight).mean;
    for (Eigen::Index k = 0; k < rows.size(); ++k) {
      weights(rows[k], i) = weight[k];
      inputs_.column(inputs_.of(rows[k]), column.data());
      among.col(i) += weight[k] * column;
      among(rows[k], i) += weight[k] * label_variance_[rows[k]];
    }
  }
  const Eigen::MatrixXd half = weights.transpose() * (0.5 * among - across);
  joint.covariance += half + half.transpose();
  return joint;
}

template <class Inputs>
auto GaussianProcess<Inputs>::at_row(std::size_t row, const std::vector<bool>& gone, NearestRows& others) const -> At {
  const auto own = static_cast<Eigen::Index>(row);
  const Input input = inputs_.of(own);
  others = inputs_.nearest(input, [&](Eigen::Index i) { return i == own || gone[static_cast<std::size_t>(i)]; });
  NearVector weights;
  return by_rows(input, others, weights);
}

template <class Inputs>
auto GaussianProcess<Inputs>::by_rows(const Input& input, const NearestRows& rows, NearVector& weights) const -> At {
  NearCovariance near = inputs_.among(rows, input);
  NearVector values(rows.size());
  for (Eigen::Index k = 0; k < rows.size(); ++k) {
    near.rows(k, k) += label_variance_[rows[k]];
    values[k] = values_[rows[k]];
  }
  weights = kriging_weights(near.rows, near.asked);
  return {weights.dot(values), std::max(0.0, inputs_.covariance(input, input) - weights.dot(near.asked))};
}

template <class Inputs>
template <class Check>
std::vector<Outlier> GaussianProcess<Inputs>::outliers(std::size_t most, const Check& check) const {
  return is_exact() ? outliers_of_all(most, check) : outliers_by_nearest(most, check);
}

/// In closed form: the residual of a row that is left out is alpha_i / P_ii, with variance 1 / P_ii, where P is the
/// inverse of the rows' covariance; without the row P loses p_i p_i' / P_ii.
template <class Inputs>
template <class Check>
std::vector<Outlier> GaussianProcess<Inputs>::outliers_of_all(std::size_t most, const Check& check) const {
  std::vector<Outlier> found;
  Eigen::MatrixXd precision = inverse_factor_.transpose() * inverse_factor_;
  Eigen::VectorXd alpha = alpha_;
  while (found.size() < most) {
    check();
    const Eigen::ArrayXd scale = precision.diagonal().array().max(1e-300).sqrt();
    const Eigen::ArrayXd away = alpha.array() / scale;
    Eigen::Index worst = 0;
    if (!(away.abs().maxCoeff(&worst) > outlier_deviations)) break;
    found.push_back({static_cast<std::size_t>(worst), away[worst], 1 / scale[worst]});
    const Eigen::VectorXd column = precision.col(worst);
    alpha -= column * (alpha[worst] / column[worst]);
    precision -= column * (column.transpose() / column[worst]);
    alpha[worst] = 0;
    precision(worst, worst) = 1;
  }
  return found;
}

template <class Inputs>
template <class Check>
std::vector<Outlier> GaussianProcess<Inputs>::outliers_by_nearest(std::size_t most, const Check& check) const {
  const auto n = static_cast<std::size_t>(inputs_.size());
  std::vector<Outlier> found, seen(n);
  const auto distance = [&](std::size_t row, const std::vector<bool>& gone, NearestRows& others) {
    const At by_others = at_row(row, gone, others);
    const double deviation = std::sqrt(by_others.variance + label_variance(row));
    seen[row] = {row, (values_[static_cast<Eigen::Index>(row)] - by_others.mean) / deviation, deviation};
    return std::abs(seen[row].away);
  };
  remove_worst(n, distance, [&](std::size_t worst) {
    check();
    if (found.size() >= most || std::abs(seen[worst].away) <= outlier_deviations) return false;
    found.push_back(seen[worst]);
    return true;
  });
  return found;
}

}  // namespace perfpred
