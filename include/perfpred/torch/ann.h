// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

namespace perfpred {

/// Lets TimeRegressor::fit train the kind `ann` in this process: a perceptron 5-64-64-1 with ReLU, Adam, early stopping
/// on the validation rows, the same weights for the same seed.
PERFPRED_API void enable_ann();

}  // namespace perfpred
