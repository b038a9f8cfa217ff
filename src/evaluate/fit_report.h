// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <vector>

#include "evaluate/baselines.h"
#include "evaluate/split.h"

namespace perfpred {

/// Errors of a regressor on the parts of the split that it was fitted on.
struct FitReport {
  TimeMetrics train, val, test;            ///< val: of no rows where the model was fitted on them, too
  std::vector<NamedMetrics> baselines;     ///< fitted on train and val, scored on test
  std::size_t unstable = 0, disagree = 0;  ///< flagged rows of train and val
};

/// @throws InputError that names a row which cannot be predicted
[[nodiscard]] FitReport report_fit(const TimeRegressor& model, const Split& split);

}  // namespace perfpred
