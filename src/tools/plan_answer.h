// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run_plan.h>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "tools/model_requests.h"
#include "tools/prices.h"

namespace perfpred {

/// The objectives by their words.
inline constexpr std::array<std::pair<std::string_view, PlanObjective>, 4> plan_objectives = {
    {{"sum", PlanObjective::sum},
     {"best", PlanObjective::best},
     {"cover-depth", PlanObjective::cover_depth},
     {"cover-architecture", PlanObjective::cover_architecture}}};

/// What is asked of a plan, as options state it.
struct PlanTerms {
  std::string value_of = "acc";  ///< or thr
  std::string objective = "sum";
  double given_sec = 0;  ///< of each device
  std::size_t gpus = 1;  ///< alike; without effect if devices are named
  std::vector<std::string> devices;
  std::optional<double> price_per_hour;  ///< of one device, >= 0
  Prices prices;                         ///< of devices where there is no such price
  bool pareto = false;
  PlanRequest request;  ///< its value, objective and devices follow from the above

  /// Of each device: costs are whole seconds, so much of the budget counts.
  [[nodiscard]] std::int64_t budget_sec() const { return static_cast<std::int64_t>(given_sec); }

  /// @throws InputError for a word that is not known
  void complete_request();

  /// Of a run on its device; empty without prices. @throws InputError if `prices` lacks the device
  [[nodiscard]] std::optional<double> price(const PlannedRun& run) const;
  /// Of the planned runs. @throws InputError if it is no finite number, and as for a run
  [[nodiscard]] std::optional<double> price(const RunPlan& plan) const;
  [[nodiscard]] std::string currency() const;  ///< empty if it is not known
};

/// Reads a JSON object of the options of perfpred-plan: budget_sec and epochs, and if they are given min_acc, value,
/// objective, confidence, startup_sec, gpus, devices (a list of names), price_per_hour, time_limit_sec, pareto. The
/// caller reads `prices`, for which it has a catalogue.
/// @param other  names that the caller reads itself
/// @throws InputError for a text that is no such object, a name that is not known, a value that does not fit
[[nodiscard]] PlanTerms read_plan_terms(const nlohmann::json& options, std::span<const std::string_view> other);

/// What a plan by a model chooses from.
struct PlanCandidates {
  std::vector<AggregateRow> rows;
  std::vector<RowLeftOut> left_out;  ///< rows of the table that are no workload, by their places
};

/// The rows of a runs_agg.csv; of a table without the column avg_time_mean its configurations
/// (ModelRequests::of_table()), with what a column acc_mean says.
/// @throws InputError as read_aggregate() or ModelRequests::of_table(); if no row is a workload; for a value of
/// acc_mean that is no fraction
[[nodiscard]] PlanCandidates read_candidates(const std::string& path, const ModelRequests& requests);

/// The workloads whose times a plan by a model asks: those of the rows, and on each device that the request names.
[[nodiscard]] std::vector<Workload> timed_workloads(std::span<const AggregateRow> rows, const PlanRequest& request,
                                                    const TimeRegressor& model);

/// plan_runs() of the rows, with what was left out before.
[[nodiscard]] RunPlan plan_candidates(PlanCandidates candidates, const PlanRequest& request,
                                      const TimeRegressor& model);

/// @throws Error that says why, if there is no plan
void check_planned(const RunPlan& plan, const PlanTerms& terms);

/// The document of perfpred-plan --json.
[[nodiscard]] nlohmann::json to_json(const RunPlan& plan, const PlanTerms& terms);

}  // namespace perfpred
