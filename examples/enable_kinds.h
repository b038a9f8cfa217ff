// SPDX-License-Identifier: Apache-2.0
#pragma once
// The kinds of regressors that other components fit, where these are built.
#ifdef PERFPRED_WITH_TORCH
#include <perfpred/torch/ann.h>
#endif
#ifdef PERFPRED_WITH_XGBOOST
#include <perfpred/xgboost/trees.h>
#endif

namespace perfpred::cli {

inline void enable_kinds() {
#ifdef PERFPRED_WITH_TORCH
  enable_ann();
#endif
#ifdef PERFPRED_WITH_XGBOOST
  enable_xgboost();
#endif
}

}  // namespace perfpred::cli
