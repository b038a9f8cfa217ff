// SPDX-License-Identifier: Apache-2.0
#include <perfpred/cbc/enable_cbc.h>

#include <coin/Cbc_C_Interface.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <span>
#include <utility>

#include "plan/branch_and_cut.h"

namespace perfpred {
namespace {

/// A row of the program, gathered column by column.
struct Row {
  std::vector<int> columns;
  std::vector<double> factors;
};

/// A job on a device, a column of the program.
struct Place {
  std::size_t job;
  std::size_t device;
};

void add(Cbc_Model* model, Row& row, char sense, double limit) {
  if (row.columns.empty()) return;
  Cbc_addRow(model, "", static_cast<int>(row.columns.size()), row.columns.data(), row.factors.data(), sense, limit);
}

/// What a solved model says. @param places  of its columns
std::optional<CutAnswer> answer_of(Cbc_Model* model, double value, std::span<const Place> places, std::size_t jobs) {
  CutAnswer answer;
  if (Cbc_isProvenInfeasible(model) != 0) {
    answer.upper_bound = value;
    answer.infeasible = true;
    return answer;
  }
  answer.upper_bound = -Cbc_getBestPossibleObjValue(model);
  if (!std::isfinite(answer.upper_bound) || std::abs(answer.upper_bound) > 1e100) return std::nullopt;
  answer.upper_bound = std::max(answer.upper_bound, value);
  const double* share = Cbc_getColSolution(model);
  if (share == nullptr) return answer;
  JobDevices device(jobs);
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (share[i] > 0.5) device[places[i].job] = places[i].device;
  }
  answer.device = std::move(device);
  return answer;
}

std::optional<CutAnswer> solve(const WholeProblem& problem, double value, double seconds) {
  const std::unique_ptr<Cbc_Model, decltype(&Cbc_deleteModel)> owner(Cbc_newModel(), &Cbc_deleteModel);
  Cbc_Model* model = owner.get();
  Cbc_setLogLevel(model, 0);
  std::vector<Place> places;
  std::vector<Row> on_device(problem.budgets.size());
  std::map<std::size_t, Row> of_group;
  std::vector<Row> of_job(problem.jobs.size());
  for (std::size_t j = 0; j < problem.jobs.size(); ++j) {
    for (std::size_t d = 0; d < problem.budgets.size(); ++d) {
      const auto& item = problem.jobs[j][d];
      if (!item) continue;
      const auto column = static_cast<int>(places.size());
      Cbc_addCol(model, "", 0, 1, -problem.unit.nearest(item->profit), 1, 0, nullptr, nullptr);
      places.push_back({j, d});
      on_device[d].columns.push_back(column);
      on_device[d].factors.push_back(static_cast<double>(item->cost) / static_cast<double>(problem.budgets[d]));
      of_job[j].columns.push_back(column);
      of_job[j].factors.push_back(1);
      if (!problem.group[j]) continue;
      of_group[*problem.group[j]].columns.push_back(column);
      of_group[*problem.group[j]].factors.push_back(1);
    }
  }
  // Whatever is above that value needs a place for each group.
  if (places.empty() || of_group.size() < problem.groups) return CutAnswer{std::nullopt, value, true};
  for (Row& row : on_device) add(model, row, 'L', 1);
  for (auto& [group, row] : of_group) add(model, row, 'G', 1);
  for (Row& row : of_job) add(model, row, 'L', 1);

  constexpr double tolerance = 1e-9;
  if (value >= 0) Cbc_setCutoff(model, -value * (1 + tolerance));
  Cbc_setAllowableGap(model, 0);
  Cbc_setAllowableFractionGap(model, tolerance);
  Cbc_setMaximumSeconds(model, seconds);
  Cbc_solve(model);
  return answer_of(model, value, places, problem.jobs.size());
}

}  // namespace

void enable_cbc() { set_branch_and_cut(&solve); }

}  // namespace perfpred
