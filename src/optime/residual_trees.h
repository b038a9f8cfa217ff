// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "optime/kernel_time.h"

namespace perfpred {

using KernelFeatures = std::array<float, kernel_features>;

/// Boosted regression trees on a formula's residuals: at most 8 leaves each, grown on the sign of the error, so that
/// leaves are medians (Friedman 2001).
class ResidualTrees {
 public:
  struct Node {
    std::int32_t feature = -1;  ///< -1: a leaf
    float value = 0;            ///< threshold (left if <=), or the leaf's value
    std::int32_t left = 0, right = 0;
  };

  /// @param rows  in any order; the result depends on it only in the last digits
  [[nodiscard]] static ResidualTrees fit(std::span<const KernelFeatures> rows, std::span<const double> residuals);

  ResidualTrees() = default;
  /// @throws ModelError unless the nodes are trees: children come after their parent, features exist
  explicit ResidualTrees(std::vector<std::vector<Node>> trees);

  [[nodiscard]] double predict(const KernelFeatures& features) const;  ///< between -limit and limit
  [[nodiscard]] const std::vector<std::vector<Node>>& trees() const { return trees_; }

  static constexpr double limit = 1.0;

 private:
  std::vector<std::vector<Node>> trees_;
};

}  // namespace perfpred
