// SPDX-License-Identifier: Apache-2.0
#include "evaluate/fit_report.h"

namespace perfpred {

FitReport report_fit(const TimeRegressor& model, const Split& split) {
  const auto score = [&](const std::vector<AggregateRow>& part) {
    return evaluate(part, predict_rows(model, part)).metrics;
  };
  FitReport report;
  report.train = score(split.train);
  if (model.uses_validation()) report.val = score(split.val);
  report.test = score(split.test);
  std::vector<AggregateRow> known = split.train;
  known.insert(known.end(), split.val.begin(), split.val.end());
  report.baselines = evaluate_baselines(known, split.test);
  for (const AggregateRow& row : known) {
    report.unstable += row.flags.unstable ? 1 : 0;
    report.disagree += row.flags.disagree ? 1 : 0;
  }
  return report;
}

}  // namespace perfpred
