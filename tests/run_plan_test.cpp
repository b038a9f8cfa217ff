// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <perfpred/run_plan.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <set>
#include <utility>

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
        AggregateRow row;
        row.workload = Workload::cifar_cnn(depth, filters, batch);
        const auto steps = static_cast<double>(row.workload.steps_per_epoch());
        row.n = 1;
        row.avg_time_mean =
            (0.3 + steps * (2e-4 + 1e-4 * depth) + 2e-3 * depth * filters) * std::exp(0.005 * normal(random));
        row.acc_mean = 0.5 + 0.01 * depth + 0.001 * filters - 1e-5 * batch;
        row.acc_std = 0;
        rows.push_back(std::move(row));
      }
    }
  }
  for (int i = 0; i < disturbed; ++i) *rows[5 + 11 * static_cast<std::size_t>(i)].avg_time_mean *= 1.5;
  return rows;
}

PlanRequest safe_request(double confidence, std::size_t devices) {
  PlanRequest request;
  request.budget_sec = 300;
  request.epochs = 20;
  request.confidence = confidence;
  request.devices.assign(devices, "");
  return request;
}

std::vector<PlanCandidate> on_devices(std::vector<PlanCandidate> candidates, std::size_t devices) {
  for (PlanCandidate& candidate : candidates) candidate.resize(devices, candidate.front());
  return candidates;
}

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
    const std::vector<PlanCandidate> candidates = predicted_candidates(rows, PlanFilter{}, model);
    const std::vector<JointPrediction> times = joint_times(candidates, model);
    ASSERT_EQ(times.size(), 1U);
    for (std::size_t j = 0; j < candidates.size(); ++j) {
      const double variance = times[0].covariance[j * candidates.size() + j];
      const Quantiles alone = model.predict(candidates[j][0]->workload).time_sec;
      const double own = std::log(alone.p95 / alone.p05) / (2 * 1.6448536);
      EXPECT_GE(variance, least_variance(disturbed) + own * own - 1e-7);
      EXPECT_LE(variance, least_variance(disturbed) + 2 * own * own + 1e-7);
      EXPECT_NEAR(times[0].mean[j], std::log(alone.p50) + 0.386294 * (disturbed + 0.5) / 37, 1e-6);
    }
  }
}

TEST(PlanRuns, KeepsTheBudgetOfEachDeviceMoreSafelyWithMoreConfidence) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  const TimeRegressor model = TimeRegressor::fit(rows);
  const std::vector<PlanCandidate> one = predicted_candidates(rows, PlanFilter{}, model);
  for (const std::size_t devices : {1U, 2U, 3U}) {
    double before = 0;
    for (const double confidence : {0.99, 0.9, 0.5}) {
      PlanRequest request = safe_request(confidence, devices);
      request.budget_sec = 100;
      request.times = joint_times(one, model);
      const RunPlan plan = plan_runs(on_devices(one, devices), request);
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
  const std::vector<PlanCandidate> one = predicted_candidates(rows, PlanFilter{}, model);
  for (const std::size_t devices : {1U, 2U}) {
    PlanRequest request = safe_request(0.95, devices);
    request.objective = PlanObjective::best;
    request.budget_sec = 12;
    request.times = joint_times(one, model);
    const RunPlan plan = plan_runs(on_devices(one, devices), request);
    ASSERT_EQ(plan.runs.size(), 1U);
    const Quantiles time = model.predict(plan.runs[0].workload).time_sec;
    EXPECT_LE(20 * time.p95, 12);
  }
}

TEST(PlanRuns, SaysWhatASafePlanJustMissed) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  const TimeRegressor model = TimeRegressor::fit(rows);
  const std::vector<PlanCandidate> candidates = predicted_candidates(rows, PlanFilter{}, model);
  PlanRequest request = safe_request(0.95, 1);
  request.budget_sec = 100;
  request.times = joint_times(candidates, model);
  const RunPlan plan = plan_runs(candidates, request);
  ASSERT_TRUE(plan.optimal);
  ASSERT_EQ(plan.missed.size(), 5U);
  // A run enters the plan when it is worth a little more than its loss, and not for a little less.
  const auto holds = [&](const MissedRun& missed, double more) {
    std::vector<PlanCandidate> changed = candidates;
    for (PlanCandidate& candidate : changed) {
      if (candidate[0]->workload.key() == missed.run.workload.key()) candidate[0]->value += more;
    }
    const RunPlan other = plan_runs(changed, request);
    EXPECT_TRUE(other.optimal);
    return std::any_of(other.runs.begin(), other.runs.end(),
                       [&](const PlannedRun& run) { return run.workload.key() == missed.run.workload.key(); });
  };
  double before = 0;
  for (const MissedRun& missed : plan.missed) {
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
  const std::vector<PlanCandidate> one = predicted_candidates(rows, PlanFilter{}, model);
  for (const std::size_t devices : {1U, 2U}) {
    PlanRequest request = safe_request(0.95, devices);
    request.objective = PlanObjective::cover_architecture;
    request.budget_sec = 200;
    request.times = joint_times(one, model);
    const RunPlan plan = plan_runs(on_devices(one, devices), request);
    std::set<std::pair<int, int>> covered;
    for (const PlannedRun& run : plan.runs) covered.emplace(*run.workload.depth, *run.workload.base_filters);
    EXPECT_EQ(covered.size(), 9U);
    EXPECT_LE(plan.cost_sec, 200 * static_cast<std::int64_t>(devices));
    request.objective = PlanObjective::sum;
    const RunPlan free = plan_runs(on_devices(one, devices), request);
    EXPECT_LE(plan.value, free.upper_bound);
    EXPECT_GE(plan.value, 0.9 * plan.upper_bound);
    request.objective = PlanObjective::cover_architecture;
    request.budget_sec = 20;
    EXPECT_THROW((void)plan_runs(on_devices(one, devices), request), Error);
  }
}

struct MadeUpRun {
  int depth;
  double sec_per_epoch, value;
};

/// The same runs on each device. @param deviation  of the logarithm of each time, independent
std::vector<PlanCandidate> made_up_runs(const std::vector<MadeUpRun>& runs, double deviation, PlanRequest& request) {
  std::vector<PlanCandidate> candidates;
  JointPrediction times;
  times.covariance.assign(runs.size() * runs.size(), 0.0);
  for (std::size_t j = 0; j < runs.size(); ++j) {
    const PlanOption option{Workload::cifar_cnn(runs[j].depth, 8, 1 << j), runs[j].sec_per_epoch, runs[j].value};
    candidates.emplace_back(request.devices.size(), option);
    times.mean.push_back(std::log(runs[j].sec_per_epoch));
    times.covariance[j * runs.size() + j] = deviation * deviation;
  }
  request.times = {times};
  return candidates;
}

TEST(PlanRuns, MoreTimeIsWorthNoLess) {
  PlanRequest request = safe_request(0.51, 1);
  request.budget_sec = 824;
  request.epochs = 10;
  request.startup_sec = 29.115823520085151;
  request.objective = PlanObjective::cover_depth;
  const RunPlan plan =
      plan_runs(made_up_runs({{1, 9, 9}, {3, 4, 4}, {1, 2, 2}, {1, 5, 5}, {1, 9, 9}, {1, 1, 1}, {2, 8, 8}, {2, 5, 5}},
                             1.5 * std::sqrt(1.2), request),
                request);
  ASSERT_GE(plan.marginal.size(), 5U);
  double before = plan.value;
  for (const BudgetValue& more : plan.marginal) {
    EXPECT_GE(more.value, before) << more.budget_sec;
    EXPECT_DOUBLE_EQ(more.value_per_minute,
                     60 * (more.value - plan.value) / static_cast<double>(more.budget_sec - plan.budget_sec));
    before = more.value;
  }
}

TEST(PlanRuns, LossesAreOfTheValuesThemselves) {  // not of sums with a value that no budget holds
  PlanRequest request = safe_request(0.9, 1);
  request.budget_sec = 300;
  const RunPlan plan = plan_runs(made_up_runs({{1, 10, 0.7}, {1, 10, 0.1}, {1, 1e6, 1e6}}, 0.02, request), request);
  ASSERT_EQ(plan.missed.size(), 1U);
  EXPECT_EQ(plan.missed[0].loss, 0.7 - 0.1);
}

TEST(PlanRuns, CoversWithRunsThatAreWorthNothing) {
  PlanRequest request = safe_request(0.999, 1);
  request.budget_sec = 9753;
  request.epochs = 1;
  request.objective = PlanObjective::cover_depth;
  const double deviation = 1.5 * std::sqrt(1.2);
  const RunPlan plan = plan_runs(made_up_runs({{3, 0.46760115461190271, 0},
                                               {3, 372.73120026376836, 3},
                                               {3, 14.720902796318349, 1},
                                               {1, 0.017724849034297361, 3},
                                               {1, 7756.9498673867192, 2},
                                               {3, 28.585201034215654, 2},
                                               {3, 0.062949456883758817, 0},
                                               {2, 1.1881092031055525, 0},
                                               {1, 2493.95174519495, 3}},
                                              deviation, request),
                                 request);
  std::set<int> depths;
  for (const PlannedRun& run : plan.runs) depths.insert(*run.workload.depth);
  EXPECT_EQ(depths.size(), 3U);
  EXPECT_LE(plan.value, 6);  // the best of all sets
  EXPECT_GE(plan.upper_bound, 6);

  // All that is worth something takes too long.
  request.devices = {"a", "b"};
  request.budget_sec = 378;
  request.epochs = 3;
  request.startup_sec = 18.75;
  const RunPlan nothing =
      plan_runs(made_up_runs({{2, 1.16738615243049, 2}, {2, 187.38914611193891, 3}, {2, 0.0097096438175239639, 0}},
                             deviation, request),
                request);
  EXPECT_EQ(nothing.runs.size(), 1U);
}

TEST(PlanRuns, RefusesTimesOfSomethingElse) {
  const std::vector<AggregateRow> rows = made_up_rows(0);
  const TimeRegressor model = TimeRegressor::fit(rows);
  const std::vector<PlanCandidate> one = predicted_candidates(rows, PlanFilter{}, model);
  PlanRequest request = safe_request(0.95, 1);
  EXPECT_THROW((void)plan_runs(one, request), InputError);
  request.times = joint_times(std::span(one).first(3), model);
  EXPECT_THROW((void)plan_runs(one, request), InputError);
  request = safe_request(0.95, 3);
  request.times = joint_times(on_devices(one, 2), model);
  EXPECT_THROW((void)plan_runs(on_devices(one, 3), request), InputError);
  std::vector<PlanCandidate> partial = on_devices(one, 2);
  partial[4][1].reset();
  EXPECT_THROW((void)joint_times(partial, model), InputError);
}

}  // namespace
}  // namespace perfpred
