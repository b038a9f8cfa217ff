// SPDX-License-Identifier: Apache-2.0
// What core does alone, and what it does once the installed components have registered themselves with it.
#include <perfpred/cbc/enable_cbc.h>
#include <perfpred/perfpred.h>
#include <perfpred/xgboost/trees.h>

#include <cstdio>
#include <string>

namespace {

/// What fitting a forest to some rows says; empty if it succeeds.
std::string refusal(const std::vector<perfpred::AggregateRow>& rows) {
  perfpred::FitOptions options;
  options.kind = "forest";
  try {
    (void)perfpred::TimeRegressor::fit({rows.data(), 20}, options);
    return {};
  } catch (const perfpred::Error& error) {
    return error.what();
  }
}

}  // namespace

int main() {
  const auto rows = perfpred::read_aggregate(PERFPRED_ROWS);
  const std::string before = refusal(rows);
  perfpred::enable_xgboost();
  const std::string after = refusal(rows);
  std::printf("forest without xgboost: %s\nwith xgboost: %s\n", before.c_str(), after.c_str());

  perfpred::PlanRequest request;
  request.devices = {{"", 300}, {"", 300}, {"", 250}};
  request.epochs = 50;
  const double bound = perfpred::plan_runs(rows, request).upper_bound;
  perfpred::enable_cbc();
  const double cut = perfpred::plan_runs(rows, request).upper_bound;
  std::printf("a plan is worth at most %g, by CBC %g\n", bound, cut);
  return before.find("enable_xgboost()") != std::string::npos && after.empty() && cut < bound ? 0 : 1;
}
