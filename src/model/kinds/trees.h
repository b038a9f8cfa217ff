// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <vector>

#include "model/kinds/features.h"

namespace perfpred {

/// A node of a tree. Rows with feature < threshold go to `next`, others to `next + 1`. A leaf has feature -1.
struct TreeNode {
  std::int32_t feature = -1;
  float value = 0;        ///< threshold, or what the leaf adds to the sum
  std::int32_t next = 0;  ///< > the node's own place
};

/// Trees one after the other in one list of nodes. Log seconds are the base plus one leaf of each tree.
struct Trees {
  double base = 0;
  std::vector<TreeNode> nodes;
  std::vector<std::int32_t> roots;

  [[nodiscard]] double log_time(const Features& features) const;
};

enum class TreesKind { forest, boosting };

using TreesFitter = Trees (*)(TreesKind kind, const FeatureTask& task);

/// Core evaluates the trees. The component xgboost grows them, once enable_xgboost() has registered its function here.
PERFPRED_API void set_trees_fitter(TreesFitter fitter);
[[nodiscard]] PERFPRED_API TreesFitter trees_fitter();  ///< null if none is registered

}  // namespace perfpred
