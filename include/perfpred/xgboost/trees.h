// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

namespace perfpred {

/// Lets TimeRegressor::fit() grow the kinds `forest` and `boosting` in this process, with libxgboost. Models of these
/// kinds are loaded and evaluated without it.
PERFPRED_API void enable_xgboost();

}  // namespace perfpred
