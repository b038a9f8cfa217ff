// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_problem.h"

#include <perfpred/error.h>
#include <perfpred/throughput_deriver.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "aggregate/figures.h"
#include "catalogue/device_table.h"
#include "model/lognormal.h"
#include "plan/assignment.h"

namespace perfpred {
namespace {

void check(const PlanRequest& request, bool has_model) {
  if (request.devices.empty()) throw InputError("a plan needs a device");
  for (const PlanDevice& device : request.devices) {
    if (device.budget_sec < 0) throw InputError(fmt::format("budget {} s is negative", device.budget_sec));
    if (device.name.empty() != request.devices.front().name.empty()) {
      throw InputError("some devices of a plan have no name");
    }
  }
  if (request.epochs < 1) throw InputError(fmt::format("{} epochs are not a positive number", request.epochs));
  if (!(request.startup_sec >= 0) || std::isinf(request.startup_sec)) {
    throw InputError(fmt::format("start-up of {} s is not a number >= 0", request.startup_sec));
  }
  if (request.min_acc && std::isnan(*request.min_acc)) throw InputError("the least accuracy is not a number");
  if (!(request.confidence >= 0.5 && request.confidence < 1)) {
    throw InputError(fmt::format("confidence {} is not at least 0.5 and below 1", request.confidence));
  }
  if (request.confidence > 0.5 && !has_model) throw InputError("a confidence above 0.5 needs predicted times");
}

std::set<std::string> devices_of(std::span<const AggregateRow> rows) {
  std::set<std::string> names;
  for (const AggregateRow& row : rows) names.insert(row.workload.device);
  return names;
}

/// Mean and variance that the probability of a disturbance adds to the logarithm of a run's time.
struct Disturbance {
  double mean;
  double variance;
};

/// The probability is estimated from the fitted rows that lie far above their interval, by Jeffreys' rule, so that it
/// is never 0. A disturbed run takes 1 + u times as long, u uniform in [0, 1], as if it shared its device with another
/// job.
Disturbance disturbance_of(const TimeRegressor& model) {
  constexpr double far_above = 1.1;  // as two repeats of one run may differ before they count as disagreeing
  const std::vector<AggregateRow> rows = model.fitted_rows();
  const auto disturbed = std::count_if(rows.begin(), rows.end(), [&](const AggregateRow& row) {
    return *row.avg_time_mean > far_above * model.predict(row.workload).time_sec.p95;
  });
  const double probability = (static_cast<double>(disturbed) + 0.5) / (static_cast<double>(rows.size()) + 1);
  constexpr double ln2 = 0.6931471805599453;
  constexpr double mean = 2 * ln2 - 1;                    // of ln(1 + u)
  constexpr double square = 2 * ln2 * ln2 - 4 * ln2 + 2;  // of its square
  return {probability * mean, probability * square - probability * mean * probability * mean};
}

/// Of the candidates on each of the first `devices` devices.
std::vector<JointPrediction> joint_times(std::span<const PlanCandidate> candidates, std::size_t devices,
                                         const TimeRegressor& model) {
  const Disturbance disturbance = disturbance_of(model);
  std::vector<JointPrediction> all;
  for (std::size_t d = 0; d < devices; ++d) {
    std::vector<Workload> workloads;
    for (const PlanCandidate& candidate : candidates) workloads.push_back(candidate[d]->workload);
    JointPrediction& times = all.emplace_back(model.joint(workloads));
    for (std::size_t j = 0; j < workloads.size(); ++j) {
      // The interval of one run includes the noise of its measurement, the joint distribution does not.
      const double deviation = log_deviation(model.predict(workloads[j]).time_sec);
      double& variance = times.covariance[j * workloads.size() + j];
      variance = std::max(variance, deviation * deviation) + disturbance.variance;
      times.mean[j] += disturbance.mean;
    }
  }
  return all;
}

/// Makes the runs of each row and gathers them into candidates. With named devices, the runs of one workload without
/// its device and what follows from that, its threads, are one candidate; two workloads for one device are two, and the
/// first of two runs for one workload stays.
class ProblemBuilder {
 public:
  ProblemBuilder(std::span<const AggregateRow> rows, const PlanRequest& request, const TimeRegressor* model)
      : rows_(rows), request_(request), model_(model), named_(!request.devices.front().name.empty()) {
    if (rows.empty()) throw InputError("there is no row to plan with");
    for (const AggregateRow& row : rows) {
      row.workload.validate();
      check_figures(row, {row.workload.key(), 0, {}});
    }
    if (!named_) return;
    const std::set<std::string> planned = devices_of(rows);
    const std::set<std::string> modelled = model != nullptr ? devices_of(model->fitted_rows()) : planned;
    for (const PlanDevice& device : request.devices) devices_.push_back(full_name(device.name, modelled, planned));
  }

  PlanProblem build() {
    bool timed = false;
    for (const AggregateRow& row : rows_) {
      if (!has_time(row)) continue;
      timed = true;
      if (row.acc_mean) best_acc_ = std::max(best_acc_.value_or(0), *row.acc_mean);
      if (request_.min_acc && !(row.acc_mean && *row.acc_mean >= *request_.min_acc)) continue;
      if (has_value(row)) {
        add(row);
      } else {
        skipped_ = true;
      }
    }
    if (!timed) throw InputError("no row has a time; plan by a model's");
    if (candidates_.empty()) refuse();
    PlanProblem problem{request_, std::move(candidates_), {}, std::move(left_out_)};
    if (request_.confidence > 0.5) {
      problem.times = joint_times(problem.candidates, std::max<std::size_t>(1, devices_.size()), *model_);
    }
    return problem;
  }

 private:
  /// Says why there is no candidate, where there is a reason.
  void refuse() const {
    if (!left_out_.empty()) {
      throw InputError(fmt::format("{}: {}", left_out_.front().key, left_out_.front().reason));
    }
    if (request_.min_acc) {
      throw Error(best_acc_
                      ? fmt::format("no run reaches an accuracy of {}; the best has {}", *request_.min_acc, *best_acc_)
                      : fmt::format("no run reaches an accuracy of {}: no row has one", *request_.min_acc));
    }
    if (skipped_) {
      throw InputError(request_.value == PlanValue::accuracy ? "no row has an accuracy; plan for throughput (value thr)"
                                                             : "no row has a throughput; plan for accuracy");
    }
  }

  [[nodiscard]] std::string full_name(const std::string& name, const std::set<std::string>& modelled,
                                      const std::set<std::string>& planned) const {
    const ResolvedDevice asked = request_.catalogue.resolve(name);
    auto known = find_name(asked, modelled);
    if (!known) known = find_name(asked, planned);
    if (!known && model_ == nullptr) {
      throw InputError(fmt::format("no row is of device \"{}\"; rows are of {}", name, fmt::join(planned, ", ")));
    }
    return known ? *known : asked.full_name();
  }

  [[nodiscard]] bool goes_to(const AggregateRow& row, const std::string& device) const {
    return model_ != nullptr || device == row.workload.device;
  }
  [[nodiscard]] bool has_time(const AggregateRow& row) const {
    if (model_ != nullptr) return true;
    return row.avg_time_mean &&
           (!named_ || std::find(devices_.begin(), devices_.end(), row.workload.device) != devices_.end());
  }
  [[nodiscard]] bool has_value(const AggregateRow& row) const {
    if (request_.value == PlanValue::accuracy) return row.acc_mean.has_value();
    return model_ != nullptr || row.thr_mean.has_value();
  }

  /// On the device that the workload has.
  [[nodiscard]] PlannedRun run_of(Workload workload, const AggregateRow& row) const {
    double sec = row.avg_time_mean.value_or(0);
    double throughput = row.thr_mean.value_or(0);
    PlannedRun run;
    if (model_ != nullptr) {
      const Prediction prediction = model_->predict(workload);
      sec = prediction.time_sec.p50;
      throughput = ThroughputDeriver(workload.train_images).derive(sec);
      run.reason = prediction.reason;
      run.provenance = prediction.provenance;
    }
    if (!(sec > 0) || std::isinf(sec)) {
      throw InputError(fmt::format("{}: {} s an epoch is not a positive number", workload.key(), sec));
    }
    run.cost_sec = whole_seconds(sec * static_cast<double>(request_.epochs) + request_.startup_sec);
    run.value = request_.value == PlanValue::accuracy ? *row.acc_mean : throughput;
    if (!(run.value >= 0) || std::isinf(run.value)) {
      throw InputError(fmt::format("{}: value {} is not a number >= 0", workload.key(), run.value));
    }
    run.device = workload.device;
    run.workload = std::move(workload);
    return run;
  }

  [[nodiscard]] PlanCandidate runs_of(const AggregateRow& row) const {
    const std::size_t devices = request_.devices.size();
    if (!named_) {
      PlanCandidate runs(devices, run_of(row.workload, row));
      for (std::size_t d = 0; d < devices && devices > 1; ++d) runs[d]->device = "gpu" + std::to_string(d);
      return runs;
    }
    PlanCandidate runs(devices);
    for (std::size_t d = 0; d < devices; ++d) {
      if (!goes_to(row, devices_[d])) continue;
      runs[d] = run_of(model_ != nullptr ? model_->on_device(row.workload, devices_[d]) : row.workload, row);
    }
    return runs;
  }

  void add(const AggregateRow& row) {
    PlanCandidate runs;
    try {
      runs = runs_of(row);
    } catch (const InputError& error) {
      if (model_ == nullptr) throw;
      left_out_.push_back({row.workload.key(), error.what()});
      return;
    }
    if (named_) {
      Workload anywhere = row.workload;
      anywhere.device.clear();
      anywhere.threads.reset();
      std::vector<std::size_t>& alike = places_[anywhere.key()];
      for (const std::size_t index : alike) {
        PlanCandidate& known = candidates_[index];
        const bool same = std::equal(known.begin(), known.end(), runs.begin(), [](const auto& a, const auto& b) {
          return !a || !b || a->workload == b->workload;
        });
        if (!same) continue;
        for (std::size_t d = 0; d < known.size(); ++d) {
          if (!known[d]) known[d] = std::move(runs[d]);
        }
        return;
      }
      alike.push_back(candidates_.size());
    }
    candidates_.push_back(std::move(runs));
  }

  std::span<const AggregateRow> rows_;
  const PlanRequest& request_;
  const TimeRegressor* model_;  // null: measured times
  bool named_;
  std::vector<std::string> devices_;  // full names; empty if devices have no name
  std::vector<PlanCandidate> candidates_;
  std::map<std::string, std::vector<std::size_t>> places_;  // by key without device and threads
  std::vector<RowLeftOut> left_out_;
  std::optional<double> best_acc_;
  bool skipped_ = false;  // a row without a value
};

}  // namespace

std::int64_t whole_seconds(double seconds) {
  const double rounded = std::nearbyint(seconds);
  constexpr double too_long = 9.2e18;
  if (rounded >= too_long) return max_cost;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(rounded));
}

PlanProblem to_problem(std::span<const AggregateRow> rows, const PlanRequest& request, const TimeRegressor* model) {
  check(request, model != nullptr);
  return ProblemBuilder(rows, request, model).build();
}

}  // namespace perfpred
