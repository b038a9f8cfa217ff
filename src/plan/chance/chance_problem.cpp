// SPDX-License-Identifier: Apache-2.0
#include "plan/chance/chance_problem.h"

#include <algorithm>
#include <cmath>

namespace perfpred {
namespace {

double skew_weight(double z) { return std::max(0.0, z * z - 1) / 2; }

}  // namespace

double ChanceProblem::needed(double fixed, double random, double variance, double z) {
  if (random <= 0) return fixed;
  variance = std::max(0.0, variance);
  return fixed + random + z * std::sqrt(variance) + skew_weight(z) * variance / random;
}

double ChanceProblem::needed(const Eigen::VectorXd& share) const {
  return needed(fixed.dot(share), mean.dot(share), share.dot(covariance * share), z);
}

Eigen::VectorXd ChanceProblem::slopes(const Eigen::VectorXd& share) const {
  const double random = mean.dot(share);
  const Eigen::VectorXd pull = covariance * share;
  const double variance = std::max(0.0, share.dot(pull));
  const double weight = skew_weight(z);
  Eigen::VectorXd slopes = fixed + mean * (1 - weight * variance / (random * random)) + 2 * weight / random * pull;
  if (variance > 0) slopes += z / std::sqrt(variance) * pull;
  return slopes;
}

Tangent tangent_at(const ChanceProblem& problem, const Eigen::VectorXd& share) {
  const Eigen::VectorXd slopes = problem.slopes(share);
  return {slopes.cwiseMax(0), problem.budget - slopes.cwiseMin(0).sum()};
}

Eigen::VectorXd next_point(const Eigen::VectorXd& at, const Eigen::VectorXd& solution, int round) {
  if (solution.sum() <= 0) return at;
  constexpr int jumps = 2;
  return round < jumps ? solution : Eigen::VectorXd(0.7 * at + 0.3 * solution);
}

}  // namespace perfpred
