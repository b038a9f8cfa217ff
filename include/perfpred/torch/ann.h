// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

namespace perfpred {

/// Lets TimeRegressor::fit train the kind `ann` in this process: a perceptron 5-64-64-1 with ReLU, trained by Adam with
/// early stopping on the validation rows. The same seed gives the same weights.
PERFPRED_API void enable_ann();

}  // namespace perfpred
