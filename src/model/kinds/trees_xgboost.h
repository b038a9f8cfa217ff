// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>

#include "model/kinds/trees.h"

namespace perfpred {

/// The first trees of a libxgboost model.
/// @param booster  a BoosterHandle
/// @param count    number of trees; all of them if there are fewer
[[nodiscard]] Trees read_trees(void* booster, std::size_t count);

}  // namespace perfpred
