// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <stop_token>
#include <string>
#include <utility>

#include "plan/plan_problem.h"
#include "refusal.h"
#include "sample_rows.h"

namespace perfpred {
namespace {

/// Times after launch and arithmetic, with half a per cent of noise; `disturbed` rows take one and a half times as
/// long.
std::vector<AggregateRow> made_up_rows(int disturbed) {
  std::mt19937_64 random(3);
  std::normal_distribution<double> normal;
  std::vector<AggregateRow> rows;
  for (const int depth : {2, 3, 4}) {
    for (const int filters : {8, 16, 32}) {
      for (const int batch : {64, 128, 256, 512}) {
        const Workload workload = Workload::cifar_cnn(depth, filters, batch);
        const auto steps = static_cast<double>(workload.steps_per_epoch());
        const double sec =
            (0.3 + steps * (2e-4 + 1e-4 * depth) + 2e-3 * depth * filters) * std::exp(0.005 * normal(random));
        rows.push_back(testing::row_of(workload, sec, 0.5 + 0.01 * depth + 0.001 * filters - 1e-5 * batch));
      }
    }
  }
  for (int i = 0; i < disturbed; ++i) *rows[5 + 11 * static_cast<std::size_t>(i)].avg_time_mean *= 1.5;
  return rows;
}

PlanRequest safe_request(double confidence, std::size_t devices) {
  PlanRequest request;
  request.devices.assign(devices, {"", 300});
  request.epochs = 20;
  request.confidence = confidence;
  return request;
}

void set_budget(PlanRequest& request, std::int64_t budget_sec) {
  for (PlanDevice& device : request.devices) device.budget_sec = budget_sec;
}

bool found(const RunPlan& plan) { return plan.status == PlanStatus::optimal || plan.status == PlanStatus::feasible; }

TEST(JointTimes, KnowsTheChanceOfADisturbedRun) {
  // Jeffreys' estimate of the chance, and the moments of ln(1 + u), u uniform: 0.386294, 0.188317.
  const auto least_variance = [](int disturbed) {
    const double chance = (disturbed + 0.5) / (36 + 1.0);
    return chance * 0.188317 - std::pow(chance * 0.386294, 2);
  };
  for (const int disturbed : {0, 2}) {
    const std::vector<AggregateRow> rows = made_up_rows(disturbed);
    const TimeRegressor model = TimeRegressor::fit(rows);
    ASSERT_EQ(model.dropped().size(), static_cast<std::size_t>(disturbed));
    const PlanProblem problem = to_problem(rows, safe_request(0.9, 1), &model);
    const std::vector<PlanCandidate>& candidates = problem.candidates;
    const std::vector<JointPrediction>& times = problem.times;
    ASSERT_EQ(times.size(), 1U);
    for (std::size_t j = 0; j < candidates.size(); ++j) {
      const Quantiles alone = model.predict(candidates[j][0]->workload).time_sec;
      const double own = std::log(alone.p95 / alone.p05) / (2 * 1.6448536);
      EXPECT_GE(times[0].covariance[j * candidates.size() + j], least_variance(disturbed) + own * own - 1e-7);
      EXPECT_LE(times[0].covariance[j * candidates.size() + j], least_variance(disturbed) + 2 * own * own + 1e-7);
      EXPECT_NEAR(times[0].mean[j], std::log(alone.p50) + 0.386294 * (disturbed + 0.5) / 37, 1e-6);
    }
  }
}

TEST(PlanRuns, KeepsTheBudgetOfEachDeviceMoreSafelyWithMoreConfidence) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  const TimeRegressor model = TimeRegressor::fit(rows);
  for (const std::size_t devices : {1U, 2U, 3U}) {
    double before = 0;
    for (const double confidence : {0.99, 0.9, 0.5}) {
      PlanRequest request = safe_request(confidence, devices);
      set_budget(request, 100);
      const RunPlan plan = plan_runs(rows, request, model);
      EXPECT_GE(plan.value, before);
      EXPECT_LE(plan.value, plan.upper_bound);
      EXPECT_GE(plan.value, 0.9 * plan.upper_bound);
      EXPECT_LE(plan.cost_sec, 100 * static_cast<std::int64_t>(devices));
      before = plan.value;
    }
  }
}

TEST(PlanRuns, TakesOneRunSafely) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  const TimeRegressor model = TimeRegressor::fit(rows);
  for (const std::size_t devices : {1U, 2U}) {
    PlanRequest request = safe_request(0.95, devices);
    request.objective = PlanObjective::best;
    set_budget(request, 12);
    const RunPlan plan = plan_runs(rows, request, model);
    ASSERT_EQ(plan.runs.size(), 1U);
    const Quantiles time = model.predict(plan.runs[0].workload).time_sec;
    EXPECT_LE(20 * time.p95, 12);
  }
}

TEST(PlanRuns, SaysWhatASafePlanJustMissed) {
  std::vector<AggregateRow> rows = made_up_rows(0);
  for (AggregateRow& row : rows) *row.acc_mean /= 2;  // what is added below leaves it a fraction
  const TimeRegressor model = TimeRegressor::fit(rows);
  PlanRequest request = safe_request(0.95, 1);
  set_budget(request, 100);
  const RunPlan plan = plan_runs(rows, request, model);
  ASSERT_EQ(plan.status, PlanStatus::optimal);
  ASSERT_EQ(plan.missed.size(), 5U);
  // A run enters the plan when it is worth a little more than its loss, and not for a little less.
  const auto holds = [&](const PlannedRun& missed, double more) {
    std::vector<AggregateRow> changed = rows;
    for (AggregateRow& row : changed) {
      if (row.workload.key() == missed.workload.key()) *row.acc_mean += more;
    }
    const RunPlan other = plan_runs(changed, request, model);
    EXPECT_EQ(other.status, PlanStatus::optimal);
    return std::any_of(other.runs.begin(), other.runs.end(),
                       [&](const PlannedRun& run) { return run.workload.key() == missed.workload.key(); });
  };
  double before = 0;
  for (const PlannedRun& missed : plan.missed) {
    EXPECT_GE(missed.loss, before);
    before = missed.loss;
    EXPECT_TRUE(holds(missed, missed.loss + 1e-6));
    if (missed.loss > 1e-6) {
      EXPECT_FALSE(holds(missed, missed.loss - 1e-6));
    }
  }
}

TEST(PlanRuns, CoversSafely) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  const TimeRegressor model = TimeRegressor::fit(rows);
  for (const std::size_t devices : {1U, 2U}) {
    PlanRequest request = safe_request(0.95, devices);
    request.objective = PlanObjective::cover_architecture;
    set_budget(request, 200);
    const RunPlan plan = plan_runs(rows, request, model);
    std::set<std::pair<int, int>> covered;
    for (const PlannedRun& run : plan.runs) covered.emplace(*run.workload.depth(), *run.workload.base_filters());
    EXPECT_EQ(covered.size(), 9U);
    EXPECT_LE(plan.cost_sec, 200 * static_cast<std::int64_t>(devices));
    request.objective = PlanObjective::sum;
    const RunPlan free = plan_runs(rows, request, model);
    EXPECT_LE(plan.value, free.upper_bound);
    EXPECT_GE(plan.value, 0.9 * plan.upper_bound);
    request.objective = PlanObjective::cover_architecture;
    set_budget(request, 20);
    EXPECT_FALSE(found(plan_runs(rows, request, model)));
  }
}

struct MadeUpRun {
  int depth;
  double sec_per_epoch, value;
};

/// A run, with the cost of one epoch.
PlannedRun run_of(const Workload& workload, double sec_per_epoch, double value) {
  PlannedRun run;
  run.workload = workload;
  run.cost_sec = whole_seconds(sec_per_epoch);
  run.value = value;
  return run;
}

/// The same runs on each device. @param deviation  of the logarithm of each time, independent
PlanProblem made_up_runs(const std::vector<MadeUpRun>& runs, double deviation, const PlanRequest& request) {
  PlanProblem problem{request, {}, std::vector<JointPrediction>(1)};
  JointPrediction& times = problem.times.front();
  times.covariance.resize(runs.size() * runs.size());
  for (std::size_t j = 0; j < runs.size(); ++j) {
    const double sec = runs[j].sec_per_epoch * static_cast<double>(request.epochs) + request.startup_sec;
    PlanCandidate& candidate = problem.candidates.emplace_back(
        request.devices.size(), run_of(Workload::cifar_cnn(runs[j].depth, 8, 1 << j), sec, runs[j].value));
    for (std::size_t d = 0; d < candidate.size(); ++d) {
      candidate[d]->device = request.devices[d].name;
      candidate[d]->epochs = request.epochs;
    }
    times.mean.push_back(std::log(runs[j].sec_per_epoch));
    times.covariance[j * runs.size() + j] = deviation * deviation;
  }
  return problem;
}

TEST(PlanRuns, MoreTimeIsWorthNoLess) {
  PlanRequest request = safe_request(0.51, 1);
  set_budget(request, 824);
  request.epochs = 10;
  request.startup_sec = 29.115823520085151;
  request.objective = PlanObjective::cover_depth;
  const RunPlan plan =
      solve(made_up_runs({{1, 9, 9}, {3, 4, 4}, {1, 2, 2}, {1, 5, 5}, {1, 9, 9}, {1, 1, 1}, {2, 8, 8}, {2, 5, 5}},
                         1.5 * std::sqrt(1.2), request));
  ASSERT_GE(plan.marginal.size(), 5U);
  double before = plan.value;
  for (const LargerBudget& more : plan.marginal) {
    EXPECT_GE(more.value, before) << more.extra_sec;
    EXPECT_DOUBLE_EQ(more.value_per_minute, 60 * (more.value - plan.value) / static_cast<double>(more.extra_sec));
    before = more.value;
  }
}

TEST(PlanRuns, LossesAreOfTheValuesThemselves) {  // not of sums with a value that no budget holds
  PlanRequest request = safe_request(0.9, 1);
  set_budget(request, 300);
  const RunPlan plan = solve(made_up_runs({{1, 10, 0.7}, {1, 10, 0.1}, {1, 1e6, 1e6}}, 0.02, request));
  ASSERT_EQ(plan.missed.size(), 1U);
  EXPECT_EQ(plan.missed[0].loss, 0.7 - 0.1);
}

TEST(PlanRuns, CoversWithRunsThatAreWorthNothing) {
  PlanRequest request = safe_request(0.999, 1);
  set_budget(request, 9753);
  request.epochs = 1;
  request.objective = PlanObjective::cover_depth;
  const double deviation = 1.5 * std::sqrt(1.2);
  const RunPlan plan = solve(made_up_runs({{3, 0.46760115461190271, 0},
                                           {3, 372.73120026376836, 3},
                                           {3, 14.720902796318349, 1},
                                           {1, 0.017724849034297361, 3},
                                           {1, 7756.9498673867192, 2},
                                           {3, 28.585201034215654, 2},
                                           {3, 0.062949456883758817, 0},
                                           {2, 1.1881092031055525, 0},
                                           {1, 2493.95174519495, 3}},
                                          deviation, request));
  std::set<int> depths;
  for (const PlannedRun& run : plan.runs) depths.insert(*run.workload.depth());
  EXPECT_EQ(depths.size(), 3U);
  EXPECT_LE(plan.value, 6);  // the best of all sets
  EXPECT_GE(plan.upper_bound, 6);

  // All that is worth something takes too long.
  request.devices = {{"a", 378}, {"b", 378}};
  request.epochs = 3;
  request.startup_sec = 18.75;
  const RunPlan nothing = solve(made_up_runs(
      {{2, 1.16738615243049, 2}, {2, 187.38914611193891, 3}, {2, 0.0097096438175239639, 0}}, deviation, request));
  EXPECT_EQ(nothing.runs.size(), 1U);
}

/// Jobs of one epoch that cost the same on all devices.
PlanProblem certain_runs(const std::vector<std::pair<double, double>>& costs_and_values, const PlanRequest& request) {
  std::vector<MadeUpRun> runs;
  for (const auto& [sec, value] : costs_and_values) runs.push_back({1, sec, value});
  return made_up_runs(runs, 1e-4, request);
}

TEST(PlanRuns, GivesEachDeviceItsBudget) {
  // One run of 60 s fits either device, the other of 100 s one of them only.
  PlanRequest request;
  request.devices = {{"small", 70}, {"large", 110}};
  PlanProblem problem = certain_runs({{60, 0.6}, {100, 0.9}}, request);
  const RunPlan plan = solve(problem);
  EXPECT_EQ(plan.status, PlanStatus::optimal);
  ASSERT_EQ(plan.runs.size(), 2U);
  EXPECT_EQ(plan.runs[0].device, "small");
  EXPECT_EQ(plan.runs[0].cost_sec, 60);
  EXPECT_EQ(plan.runs[1].device, "large");
  problem.request.devices[1].budget_sec = 0;
  EXPECT_DOUBLE_EQ(solve(problem).value, 0.6);
  // The same with times that are almost certain, shared by both devices.
  problem.request.devices[1].budget_sec = 110;
  problem.request.confidence = 0.9;
  EXPECT_DOUBLE_EQ(solve(problem).value, 1.5);
  problem.request.devices[1].budget_sec = 0;
  EXPECT_DOUBLE_EQ(solve(problem).value, 0.6);
  problem.request.objective = PlanObjective::best;
  EXPECT_DOUBLE_EQ(solve(problem).value, 0.6);
}

TEST(PlanRuns, LargerBudgetsAddTheSameTimeToEachDevice) {
  PlanRequest request;
  request.devices = {{"a", 80}, {"b", 100}};
  const RunPlan plan = solve(certain_runs({{100, 0.6}, {120, 0.9}}, request));
  EXPECT_DOUBLE_EQ(plan.value, 0.6);
  ASSERT_FALSE(plan.marginal.empty());
  for (const LargerBudget& more : plan.marginal) {
    // 20 s more: either run on b, the shorter on a.
    EXPECT_DOUBLE_EQ(more.value, more.extra_sec < 20 ? 0.6 : 1.5) << more.extra_sec;
  }
  EXPECT_EQ(plan.marginal.back().extra_sec, 100);
}

TEST(PlanRuns, WhereEveryRunIsPlannedThereIsNothingToBuy) {  // though no device could hold them all
  PlanRequest request;
  request.devices = {{"a", 150}, {"b", 150}};
  const RunPlan plan = solve(certain_runs({{100, 1}, {100, 1}}, request));
  EXPECT_EQ(plan.runs.size(), 2U);
  EXPECT_TRUE(plan.marginal.empty());
}

TEST(PlanRuns, WithoutCandidatesThereIsNothingToBuy) {
  for (const double confidence : {0.5, 0.9}) {
    const RunPlan plan = solve(certain_runs({}, safe_request(confidence, 1)));
    EXPECT_EQ(plan.status, PlanStatus::optimal);
    EXPECT_TRUE(plan.runs.empty());
    EXPECT_TRUE(plan.marginal.empty());
  }
}

TEST(PlanRuns, RefusesRowsOfWhichNoneHasATime) {  // all of them ran out of memory, say
  std::vector<AggregateRow> rows = made_up_rows(0);
  for (AggregateRow& row : rows) row.avg_time_mean.reset();
  EXPECT_THAT(testing::refusal([&] { (void)plan_runs(rows, safe_request(0.5, 1)); }), ::testing::HasSubstr("a time"));
}

TEST(PlanRuns, RefusesRowsThatNoTableHolds) {
  const auto refusal_of = [](const auto& change) {
    std::vector<AggregateRow> rows = made_up_rows(0);
    change(rows[7]);
    return testing::refusal([&] { (void)plan_runs(rows, safe_request(0.5, 1)); });
  };
  EXPECT_EQ(refusal_of([](AggregateRow&) {}), "");
  EXPECT_THAT(refusal_of([](AggregateRow& row) { row.workload.batch_size = -1; }), ::testing::HasSubstr("batch_size"));
  EXPECT_THAT(refusal_of([](AggregateRow& row) { row.acc_mean = 7; }),
              AllOf(::testing::StartsWith(made_up_rows(0)[7].workload.key()),
                    ::testing::HasSubstr("acc_mean \"7\" is not a fraction")));
  EXPECT_THAT(refusal_of([](AggregateRow& row) { row.thr_mean = -1; }), ::testing::HasSubstr("thr_mean"));
}

TEST(PlanRuns, RefusesACoverOfNothing) {
  Workload workload = Workload::zoo("resnet18", 32);
  PlanRequest request = safe_request(0.5, 1);
  request.objective = PlanObjective::cover_depth;
  const PlanProblem problem{request, {PlanCandidate(1, run_of(workload, 1, 1))}};
  EXPECT_THROW((void)solve(problem), InputError);
}

TEST(PlanRuns, StopsWhenItIsAsked) {
  PlanRequest request = safe_request(0.5, 3);
  std::vector<PlanCandidate> candidates;
  for (int i = 0; i < 60; ++i) {
    PlanCandidate& candidate = candidates.emplace_back();
    for (int d = 0; d < 3; ++d) {
      const double sec = 20 * (1.0 + 0.01 * ((7 * i + 5 * d) % 31));
      candidate.push_back(run_of(Workload::cifar_cnn(1, 8, i + 1), sec, 1.0 + 0.01 * i));
    }
  }
  set_budget(request, 97);
  std::stop_source source;
  source.request_stop();
  request.limits.stop = source.get_token();
  const RunPlan stopped = solve({request, candidates});
  EXPECT_NE(stopped.status, PlanStatus::infeasible);
  EXPECT_LE(stopped.value, stopped.upper_bound);
  EXPECT_TRUE(stopped.marginal.empty());
}

TEST(PlanRuns, KeepsTheReasonWhyATimeIsAGuess) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  const TimeRegressor model = TimeRegressor::fit(rows);
  PlanRequest request = safe_request(0.5, 2);
  request.devices[0].name = "Tesla T4";
  request.devices[1].name = "T4";
  const std::vector<PlanCandidate> candidates = to_problem(rows, request, &model).candidates;
  EXPECT_EQ(candidates.front()[0]->workload.device, candidates.front()[1]->workload.device);  // a name and its alias
  const RunPlan plan = plan_runs(rows, request, model);
  ASSERT_FALSE(plan.runs.empty());
  for (const PlannedRun& run : plan.runs) {
    EXPECT_EQ(run.reason, DomainViolation::other_device);
    EXPECT_EQ(run.device, candidates.front()[0]->workload.device);
  }
  request.devices = {{rows.front().workload.device, 300}};
  EXPECT_EQ(to_problem(rows, request, &model).candidates.front()[0]->reason, DomainViolation::none);
  request.devices = {{"Foo", 300}};
  EXPECT_THROW((void)plan_runs(rows, request, model), InputError);
}

/// The rows on a CPU of two threads, then the same in half the time on a GPU.
std::vector<AggregateRow> on_cpu_and_gpu(std::vector<AggregateRow> rows) {
  for (AggregateRow& row : rows) {
    row.workload.device = "EPYC 7763";
    row.workload.threads = 2;
  }
  std::vector<AggregateRow> both = rows;
  for (AggregateRow& row : rows) {
    row.workload.device = "T4";
    row.workload.threads.reset();
    row.avg_time_mean = *row.avg_time_mean / 2;
    both.push_back(row);
  }
  return both;
}

TEST(PlanRuns, PlansARunOnceThoughADeviceOfItsOwnHasThreads) {
  const std::vector<AggregateRow> measured = on_cpu_and_gpu(made_up_rows(0));
  const TimeRegressor model = TimeRegressor::fit(measured);
  PlanRequest request = safe_request(0.5, 2);
  request.devices = {{"EPYC 7763", 2000}, {"T4", 2000}};
  const auto expect_once = [](const RunPlan& plan) {
    EXPECT_EQ(plan.candidates, 36U);
    ASSERT_FALSE(plan.runs.empty());
    std::set<std::string> trained;
    for (const PlannedRun& run : plan.runs) {
      Workload anywhere = run.workload;
      anywhere.device = "unknown";
      anywhere.threads.reset();
      EXPECT_TRUE(trained.insert(anywhere.key()).second) << anywhere.key();
      EXPECT_EQ(run.workload.threads.has_value(), run.device == "EPYC 7763");
    }
  };
  expect_once(plan_runs(measured, request));
  expect_once(plan_runs(measured, request, model));
  request.confidence = 0.9;
  expect_once(plan_runs(measured, request, model));
  const std::span cpu = std::span(measured).first(36);
  expect_once(plan_runs(cpu, request, model));

  std::vector<AggregateRow> threads(cpu.begin(), cpu.end());  // other threads of a CPU are another run
  for (AggregateRow row : cpu) {
    row.workload.threads = 4;
    threads.push_back(row);
  }
  request = safe_request(0.5, 1);
  request.devices.front().name = "EPYC 7763";
  EXPECT_EQ(plan_runs(threads, request).candidates, 72U);
}

TEST(PlanRuns, GivesDevicesWithoutANameOne) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  PlanRequest request = safe_request(0.5, 1);
  for (const PlannedRun& run : plan_runs(rows, request).runs) EXPECT_EQ(run.device, rows.front().workload.device);
  request.devices.push_back({"", 200});
  const RunPlan plan = plan_runs(rows, request);
  std::map<std::string, std::int64_t> taken;
  for (const PlannedRun& run : plan.runs) taken[run.device] += run.cost_sec;
  ASSERT_EQ(taken.size(), 2U);
  EXPECT_GT(taken["gpu0"], 200);
  EXPECT_LE(taken["gpu0"], 300);
  EXPECT_LE(taken["gpu1"], 200);
  request.devices.push_back({"T4", 200});
  EXPECT_THROW((void)plan_runs(rows, request), InputError);
  request.devices.clear();
  EXPECT_THROW((void)plan_runs(rows, request), InputError);
  request = safe_request(0.9, 1);
  EXPECT_THROW((void)plan_runs(rows, request), InputError);      // no model, no confidence
  for (const double no_fraction : {std::nan(""), -0.1, 60.0}) {  // 60: percent
    request.min_acc = no_fraction;
    EXPECT_THROW((void)plan_runs(rows, request, TimeRegressor::fit(rows)), InputError);
  }
  request.min_acc.reset();
  EXPECT_NO_THROW((void)plan_runs(rows, request, TimeRegressor::fit(rows)));
}

TEST(PlanRuns, ItsParetoFrontHasTheRunsThatNoOtherBeats) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  PlanRequest request = safe_request(0.5, 1);
  request.devices[0].budget_sec = 0;  // has no effect on it
  const RunPlan plan = plan_runs(rows, request);
  std::set<std::string> front;
  for (const PlannedRun& run : plan.pareto) front.insert(run.workload.key());
  ASSERT_EQ(front.size(), plan.pareto.size());
  const auto cost = [](const AggregateRow& row) { return std::max(1.0, std::nearbyint(20 * *row.avg_time_mean)); };
  for (const AggregateRow& row : rows) {
    const bool beaten = std::any_of(rows.begin(), rows.end(), [&](const AggregateRow& other) {
      return (cost(other) <= cost(row) && *other.acc_mean > *row.acc_mean) ||
             (cost(other) < cost(row) && *other.acc_mean == *row.acc_mean);
    });
    EXPECT_EQ(front.contains(row.workload.key()), !beaten) << row.workload.key();
  }
}

TEST(PlanRuns, RefusesAConfidenceWithoutTimes) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  const TimeRegressor model = TimeRegressor::fit(rows);
  EXPECT_THROW((void)plan_runs(rows, safe_request(0.95, 1)), InputError);
  PlanProblem problem = to_problem(rows, safe_request(0.95, 1), &model);
  EXPECT_NO_THROW((void)solve(problem));
  problem.times[0].covariance.back() = std::nan("");
  EXPECT_THROW((void)solve(problem), InputError);
  for (const double confidence : {0.2, 0.49, 1.0, std::nan("")}) {
    EXPECT_THROW((void)plan_runs(rows, safe_request(confidence, 1), model), InputError) << confidence;
  }
}

}  // namespace
}  // namespace perfpred
