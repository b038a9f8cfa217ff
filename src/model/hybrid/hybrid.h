// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <memory>

#include "model/hybrid/residual_kernel.h"
#include "model/regressor_kind.h"
#include "statistics/gaussian_process.h"

namespace perfpred {

/// Constants of the hybrid's fit. docs/notes/accuracy.md says how each was chosen; benchmarks/hybrid_constants.cpp
/// chooses anew on any table.
struct HybridConstants {
  KernelPrior process;
  double cost_deviation = 3;  ///< prior standard deviation of a log cost
  /// Sample that the process and the held-out errors of a larger table come from.
  std::size_t search_rows = exact_rows;
  std::size_t max_rows = 5000;  ///< an answer takes time in proportion to the rows
};

inline constexpr std::size_t min_hybrid_rows = 5;

/// @throws InputError if the rows are too few
[[nodiscard]] std::unique_ptr<RegressorModel> fit_hybrid(const TrainingTable& table, const HybridConstants& constants);

}  // namespace perfpred
