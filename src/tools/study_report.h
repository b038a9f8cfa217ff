// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "tools/plot.h"

namespace perfpred {

/// What a study of measured and predicted configurations consists of. Parts that there are not are empty.
struct Study {
  std::vector<AggregateRow> rows;
  std::vector<Run> runs;
  std::vector<PredictionRow> predictions, sweep;
  PlanFront plan;
};

/// A report in Markdown: what was measured, what depth, width and batch size change, how repeats scatter, how far
/// predictions are off, what a sweep and a plan say, and the pictures.
/// @param pictures  files in the folder of the report
[[nodiscard]] std::string study_report(const Study& study, const std::vector<std::string>& pictures);

}  // namespace perfpred
