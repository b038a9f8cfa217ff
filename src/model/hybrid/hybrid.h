// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <memory>

#include "model/hybrid/cost_model.h"
#include "model/hybrid/residual_kernel.h"
#include "model/nearest_rows.h"
#include "model/regressor_kind.h"

namespace perfpred {

/// Constants of the hybrid's fit. docs/notes/accuracy.md says how each was chosen; benchmarks/hybrid_constants.cpp
/// chooses anew on any table.
struct HybridConstants {
  KernelPrior process;
  double cost_deviation = 3;  ///< prior standard deviation of a log cost
  /// Weights of the forms before held-out rows are seen.
  std::array<double, physics_forms.size()> form_weights = {0.25, 0.25, 0.25, 0.25};
  double weight_pull = 0.3;                                  ///< penalty on log weights that differ from these
  double outlier_deviations = perfpred::outlier_deviations;  ///< of a leave-one-out residual
  /// Sample that the process and the held-out errors of a larger table come from.
  std::size_t search_rows = exact_rows;
  std::size_t max_rows = 5000;  ///< an answer takes time in proportion to the rows
};

inline constexpr std::size_t min_hybrid_rows = 5;

/// @throws InputError if the rows are too few
[[nodiscard]] std::unique_ptr<RegressorModel> fit_hybrid(const TrainingTable& table, const HybridConstants& constants);

}  // namespace perfpred
