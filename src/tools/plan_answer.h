// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>
#include <perfpred/run_plan.h>

#include <nlohmann/json.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "text/table_source.h"
#include "tools/model_requests.h"

namespace perfpred {

/// The objectives by their words.
inline constexpr std::array<std::pair<std::string_view, PlanObjective>, 4> plan_objectives = {
    {{"sum", PlanObjective::sum},
     {"best", PlanObjective::best},
     {"cover-depth", PlanObjective::cover_depth},
     {"cover-architecture", PlanObjective::cover_architecture}}};

/// What a plan chooses from.
struct PlanCandidates {
  std::vector<QueuedJob> jobs;       ///< `count` of them for each row
  std::vector<RowLeftOut> left_out;  ///< rows of the table that are no workload, by their places
  bool pools = false;                ///< measurements: equal rows are one job
  bool has_values = false;           ///< whether the table has a column `value`
  std::map<std::string, std::vector<std::string>> unstated = {};  ///< JobTerms::unstated by key_anywhere()
};

/// Seconds of each device: of single ones by name, of the others one number.
struct DeviceSeconds {
  std::optional<double> others = {};
  std::vector<std::pair<std::string, double>> single = {};

  /// A time, `3600`, or that of one device, `A=3600`. A name given twice is `A #1` and `A #2`, or both by `A`.
  /// @throws InputError for what is no time, and for a second one
  void add(std::string_view text, const ValuePlace& place);
  [[nodiscard]] bool empty() const { return !others && single.empty(); }
};

/// What is asked of a plan, as options state it.
struct PlanTerms {
  std::string value_of = {};  ///< acc, thr or value; empty: value if the table has such a column, else acc
  std::string objective = "sum";
  std::optional<std::int64_t> epochs;  ///< of runs whose row has none
  DeviceSeconds budget, free_from;
  std::size_t gpus = 1;  ///< alike; without effect if devices are named
  std::vector<std::string> devices;
  std::optional<double> price_per_hour;  ///< of one device, >= 0
  Prices prices;                         ///< of devices where there is no such price
  bool pareto = false;
  std::map<std::string, std::vector<std::string>> unstated = {};  ///< of the candidates
  PlanRequest request;  ///< its value, objective, epochs and devices follow from the above

  /// Sets the request's objective and devices. Costs are whole seconds: a budget is rounded down, the time from which a
  /// device is free up.
  /// @throws InputError for a word that is not known, a device without a budget, a time without a device
  void complete_request();

  /// Sets the request's value, epochs and prices, by what the rows say. @throws InputError if nothing says them
  void complete_for(const PlanCandidates& candidates);

  /// Of each device, if all have the same.
  [[nodiscard]] std::optional<std::int64_t> budget_sec() const;

  /// Of each device the seconds of its budget in which it is free, >= 0.
  [[nodiscard]] std::vector<std::int64_t> free_sec() const;

  /// Of a predicted run the fields that it rests on and that nobody stated, with their values (Answer::assumed).
  [[nodiscard]] std::map<std::string, std::string> assumed(const PlannedRun& run) const;

  /// Of a run on its device; empty without prices. @throws InputError if `prices` lacks the device
  [[nodiscard]] std::optional<double> price(const PlannedRun& run) const;
  /// Of the planned runs. @throws InputError if it is no finite number, and as for a run
  [[nodiscard]] std::optional<double> price(const RunPlan& plan) const;
  /// No plan that is worth as much and ends as soon is cheaper; empty if nothing is known, or without prices.
  [[nodiscard]] std::optional<double> price_lower_bound(const RunPlan& plan) const;
  [[nodiscard]] bool is_cheapest(const RunPlan& plan) const;  ///< whether that is proved
  [[nodiscard]] std::string currency() const;                 ///< empty if it is not known
};

/// Reads a JSON object of the options of perfpred-plan: budget_sec (an object where devices have their own), and if
/// they are given free_from_sec (as budget_sec), epochs, min_acc, value, objective, confidence, startup_sec, gpus,
/// devices (a list of names), ignore_memory, price_per_hour, time_limit_sec, pareto. The caller reads `prices`, for
/// which it has a catalogue, and completes the request.
/// @param other  names that the caller reads itself
/// @throws InputError for a text that is no such object, a name that is not known, a value that does not fit
[[nodiscard]] PlanTerms read_plan_terms(const nlohmann::json& options, std::span<const std::string_view> other);

/// The table that options name: `runs_agg`, a file, or `rows`, its text or an object of columns.
/// @throws InputError if neither is given, or both
[[nodiscard]] TableSource plan_table(const nlohmann::json& options);

/// The rows of a runs_agg.csv; of a table without the column avg_time_mean its configurations
/// (ModelRequests::of_table()), with what a column acc_mean says. Columns id, count, epochs, value, earliest_sec and
/// deadline_sec make a queue of either.
/// @param requests  null: times are measured
/// @throws InputError as read_aggregate() or ModelRequests::of_table(); if no row is a workload; for a value of
/// acc_mean that is no fraction, and of count, epochs, value, earliest_sec and deadline_sec that is none
[[nodiscard]] PlanCandidates read_candidates(const TableSource& table, const ModelRequests* requests);

/// The workloads whose times a plan by a model asks: those of the rows, and on each device that the request names.
[[nodiscard]] std::vector<Workload> timed_workloads(std::span<const QueuedJob> jobs, const PlanRequest& request,
                                                    const TimeRegressor& model);

/// plan_runs() or plan_jobs(), with what was left out before. @param model  null: times are measured
[[nodiscard]] RunPlan plan_candidates(const PlanCandidates& candidates, const PlanRequest& request,
                                      const TimeRegressor* model);

/// @throws Error that says why, if there is no plan; InputError if a run that the document shows has no price
void check_planned(const RunPlan& plan, const PlanTerms& terms);

/// The document of perfpred-plan --json.
[[nodiscard]] nlohmann::json to_json(const RunPlan& plan, const PlanTerms& terms);

}  // namespace perfpred
