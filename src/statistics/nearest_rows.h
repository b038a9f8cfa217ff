// SPDX-License-Identifier: Apache-2.0
#pragma once
// Gaussian processes of many rows: an answer rests on the rows that have the largest covariance with what is asked
// (Vecchia, J. R. Stat. Soc. B 50, 1988; Datta et al., J. Am. Stat. Assoc. 111, 2016).
#include <Eigen/Core>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <numeric>
#include <utility>
#include <vector>

namespace perfpred {

/// The rows behind a prediction: half are the nearest among a sixteenth of all rows, the others the nearest of all. The
/// first half covers a longer range where the nearest rows lie close together (Stein, Chi, Welty, J. R. Stat. Soc. B
/// 66, 2004).
class NearestRows {
 public:
  static constexpr int max_rows = 64;

  NearestRows() = default;
  /// @param covariance  double(row), with what is asked; anything that grows with it does
  /// @param skip        bool(row) for rows that are not to be taken
  template <class Covariance, class Skip>
  NearestRows(Eigen::Index rows, const Covariance& covariance, const Skip& skip) {
    // In a sorted table each of the nearest rows could replace one that was taken; in this order few do.
    auto step = static_cast<Eigen::Index>(0.618 * static_cast<double>(rows));
    while (std::gcd(step, rows) > 1) ++step;
    const auto take = [&](Eigen::Index count) {
      for (Eigen::Index k = 0, row = 0; k < count; ++k, row = (row + step) % rows) {
        const double value = covariance(row);
        if (value > least() && !skip(row) && !contains(row)) add(value, row);
      }
    };
    limit_ = max_rows / 2;
    take(rows / 16);
    kept_ = size_;
    limit_ = max_rows;
    take(rows);
  }
  [[nodiscard]] Eigen::Index size() const { return size_; }
  [[nodiscard]] Eigen::Index operator[](Eigen::Index k) const { return heap_[static_cast<std::size_t>(k)].second; }
  [[nodiscard]] bool contains(Eigen::Index row) const;

 private:
  std::array<std::pair<double, Eigen::Index>, max_rows> heap_;  // from kept_ on: the least covariance first
  Eigen::Index kept_ = 0, size_ = 0, limit_ = max_rows;

  /// What a covariance has to exceed to be taken.
  [[nodiscard]] double least() const {
    return size_ < limit_ ? -HUGE_VAL : heap_[static_cast<std::size_t>(kept_)].first;
  }
  void add(double covariance, Eigen::Index row);
};

/// Of the nearest rows; on the stack.
using NearVector = Eigen::Matrix<double, Eigen::Dynamic, 1, Eigen::ColMajor, NearestRows::max_rows, 1>;
using NearMatrix = Eigen::Matrix<double, Eigen::Dynamic, Eigen::Dynamic, Eigen::ColMajor, NearestRows::max_rows,
                                 NearestRows::max_rows>;

/// Covariances of the nearest rows.
struct NearCovariance {
  NearMatrix rows;   ///< among them; only the lower triangle
  NearVector asked;  ///< of each with what is asked
};

/// covariance^-1 * shared: the weights of the rows' values in the best prediction (simple kriging).
/// @param covariance  of the rows, noise included; its lower triangle is read, and overwritten
/// @param shared      covariance of each row with what is asked
/// @throws ModelError if the covariance is not positive definite
[[nodiscard]] NearVector kriging_weights(NearMatrix& covariance, const NearVector& shared);

/// Removes rows one after the other, each time the one of the highest score, while remove(row) says so.
/// @param score  double(row, gone, NearestRows& others) of a row by its nearest others, without those that are gone
template <class Score, class Remove>
void remove_worst(std::size_t rows, const Score& score, const Remove& remove) {
  std::vector<bool> gone(rows, false);
  std::vector<NearestRows> others(rows);
  std::vector<double> scores(rows);
  for (std::size_t i = 0; i < rows; ++i) scores[i] = score(i, gone, others[i]);
  for (;;) {
    const auto worst = static_cast<std::size_t>(std::max_element(scores.begin(), scores.end()) - scores.begin());
    if (!remove(worst)) return;
    gone[worst] = true;
    scores[worst] = -HUGE_VAL;
    for (std::size_t i = 0; i < rows; ++i) {
      if (!gone[i] && others[i].contains(static_cast<Eigen::Index>(worst))) scores[i] = score(i, gone, others[i]);
    }
  }
}

}  // namespace perfpred
