// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <memory>

#include "model/hybrid/residual_kernel.h"
#include "model/hybrid/cost_model.h"
#include "model/regressor_kind.h"

namespace perfpred {

/// What the fit of the hybrid takes as given. docs/accuracy.md says how each was chosen;
/// benchmarks/hybrid_constants.cpp chooses anew on any table.
struct HybridConstants {
  KernelPrior process;
  double cost_deviation = 3;  ///< of the prior of a log cost
  /// Before held-out rows are seen.
  std::array<double, physics_forms.size()> form_weights = {0.25, 0.25, 0.25, 0.25};
  double weight_pull = 0.3;       ///< how firmly the forms' weights stay there
  double outlier_deviations = 4;  ///< of a leave-one-out residual
};

/// @throws InputError if the rows are too few
[[nodiscard]] PERFPRED_API std::unique_ptr<RegressorModel> fit_hybrid(const TrainingTable& table,
                                                                      const HybridConstants& constants);

}  // namespace perfpred
