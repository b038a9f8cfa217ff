// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "evaluate/baselines.h"
#include "evaluate/folds.h"

namespace perfpred {

struct FoldEvaluation {
  std::string left_out;  ///< `depth=5`, `repeat=3;fold=1`
  std::size_t n = 0;
  ErrorMetrics time;
  std::optional<double> coverage90;
};

/// Pooled over scored rows, averaged over repeats.
struct ProtocolEvaluation {
  Evaluation all;
  std::vector<NamedMetrics> baselines;
  std::vector<FoldEvaluation> folds;
  std::size_t seen = 0;                 ///< leaked rows, on which the model that scores them was fitted: 0
  std::vector<AggregateRow> scored;     ///< fold by fold; every repeat has every row once
  std::vector<Prediction> predictions;  ///< of those
};

/// Fits anew for every fold and scores what was left out. @throws InputError as TimeRegressor::fit, or if the rows do
/// not make two folds; Error if stopped
[[nodiscard]] ProtocolEvaluation evaluate_protocol(std::span<const AggregateRow> rows, Protocol protocol,
                                                   const FitOptions& fit, const ProtocolOptions& options = {});

}  // namespace perfpred
