// SPDX-License-Identifier: Apache-2.0
#include "plan/plan_problem.h"

#include <perfpred/error.h>
#include <perfpred/forecast.h>
#include <perfpred/throughput_deriver.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "aggregate/figures.h"
#include "catalogue/device_table.h"
#include "plan/assignment.h"
#include "statistics/estimate.h"
#include "workload/workload_columns.h"
#include "workload/workload_hash.h"
#include "workload/workload_on.h"
#include "workload/world.h"

namespace perfpred {
namespace {

void check_devices(const PlanRequest& request) {
  if (request.devices.empty()) throw InputError("a plan needs a device");
  for (const PlanDevice& device : request.devices) {
    if (device.budget_sec < 0) throw InputError(fmt::format("budget {} s is negative", device.budget_sec));
    if (device.free_from_sec < 0) throw InputError(fmt::format("free_from_sec {} is negative", device.free_from_sec));
    if (device.name.empty() != request.devices.front().name.empty()) {
      throw InputError("some devices of a plan have no name");
    }
  }
  for (const auto& [device, price] : request.price_per_hour) {
    if (!(price >= 0) || std::isinf(price))
      throw InputError(fmt::format("price per hour {} of {} is not a number >= 0", price, device));
  }
}

void check(const PlanRequest& request, bool has_model) {
  check_devices(request);
  if (request.epochs < 1) throw InputError(fmt::format("{} epochs are not a positive number", request.epochs));
  if (!(request.startup_sec >= 0) || std::isinf(request.startup_sec)) {
    throw InputError(fmt::format("start-up of {} s is not a number >= 0", request.startup_sec));
  }
  if (request.min_acc && !(*request.min_acc >= 0 && *request.min_acc <= 1))
    throw InputError(fmt::format("the least accuracy {} is not a fraction, 0 to 1", *request.min_acc));
  if (!(request.confidence >= 0.5 && request.confidence < 1)) {
    throw InputError(fmt::format("confidence {} is not at least 0.5 and below 1", request.confidence));
  }
  if (request.confidence > 0.5 && !has_model) throw InputError("a confidence above 0.5 needs predicted times");
}

void check(const QueuedJob& job) {
  const std::string key = job.row.workload.key();
  job.row.workload.validate();
  check_figures(job.row, {key, 0, {}});
  if (job.epochs && *job.epochs < 1)
    throw InputError(fmt::format("{}: {} epochs are no positive number", key, *job.epochs));
  if (job.value && (!(*job.value >= 0) || std::isinf(*job.value))) {
    throw InputError(fmt::format("{}: value {} is not a number >= 0", key, *job.value));
  }
  for (const auto& [name, sec] : {std::pair("earliest_sec", job.earliest_sec), {"deadline_sec", job.deadline_sec}}) {
    if (sec && *sec < 0) throw InputError(fmt::format("{}: {} {} is negative", key, name, *sec));
  }
  if (job.earliest_sec && job.deadline_sec && *job.deadline_sec < *job.earliest_sec) {
    throw InputError(
        fmt::format("{}: deadline_sec {} is before earliest_sec {}", key, *job.deadline_sec, *job.earliest_sec));
  }
}

/// What is not planned by earliest times and deadlines.
void check_dates(std::span<const QueuedJob> jobs, const PlanRequest& request) {
  const bool any =
      std::any_of(jobs.begin(), jobs.end(), [](const QueuedJob& job) { return job.earliest_sec || job.deadline_sec; });
  if (!any) return;
  if (request.confidence > 0.5)
    throw InputError("earliest_sec and deadline_sec are planned by median times; leave the confidence at 0.5");
  if (request.objective == PlanObjective::cover_depth || request.objective == PlanObjective::cover_architecture)
    throw InputError("earliest_sec and deadline_sec are not planned with a cover; the objective is sum or best");
}

std::set<std::string> devices_of(std::span<const AggregateRow> rows) {
  std::set<std::string> names;
  for (const AggregateRow& row : rows) names.insert(row.workload.device);
  return names;
}

/// Names that occur more than once with their numbers, from 1.
std::vector<std::string> numbered(std::vector<std::string> names) {
  std::map<std::string, int> times, number;
  for (const std::string& name : names) ++times[name];
  for (std::string& name : names) {
    if (times[name] > 1) name = fmt::format("{} #{}", name, ++number[name]);
  }
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
  const std::size_t n = candidates.size();
  for (std::size_t d = 0; d < devices; ++d) {
    std::vector<std::size_t> places;
    std::vector<Workload> workloads;
    for (std::size_t j = 0; j < n; ++j) {
      if (!candidates[j][d]) continue;
      places.push_back(j);
      workloads.push_back(candidates[j][d]->workload);
    }
    JointPrediction& times = all.emplace_back(JointPrediction{std::vector<double>(n), std::vector<double>(n * n)});
    if (places.empty()) continue;
    const JointPrediction joint = model.joint(workloads);
    for (std::size_t a = 0; a < places.size(); ++a) {
      times.mean[places[a]] = joint.mean[a] + disturbance.mean;
      for (std::size_t b = 0; b < places.size(); ++b) {
        times.covariance[places[a] * n + places[b]] = joint.covariance[a * places.size() + b];
      }
      // The interval of one run includes the noise of its measurement, the joint distribution does not.
      const double deviation = log_deviation(model.predict(workloads[a]).time_sec);
      double& variance = times.covariance[places[a] * n + places[a]];
      variance = std::max(variance, deviation * deviation) + disturbance.variance;
    }
  }
  return all;
}

/// Makes the runs of each job and gathers them into candidates. With named devices, the runs of one workload without
/// its device and what follows from that, its threads, are one candidate; two workloads for one device are two. Of two
/// runs for one workload the first stays where equal jobs are pooled; else they are two candidates.
class ProblemBuilder {
 public:
  ProblemBuilder(std::span<const QueuedJob> jobs, bool pools, const PlanRequest& request, const TimeRegressor* model)
      : jobs_(jobs), pools_(pools), request_(request), model_(model), named_(!request.devices.front().name.empty()) {
    if (jobs.empty()) throw InputError("there is no row to plan with");
    std::set<std::string> planned;
    for (const QueuedJob& job : jobs) {
      check(job);
      planned.insert(job.row.workload.device);
    }
    if (!named_) return;
    const std::set<std::string> modelled = model != nullptr ? devices_of(model->fitted_rows()) : planned;
    for (const PlanDevice& device : request.devices) devices_.push_back(full_name(device.name, modelled, planned));
  }

  PlanProblem build() {
    bool timed = false;
    for (const QueuedJob& job : jobs_) {
      const AggregateRow& row = job.row;
      if (!has_time(row)) continue;
      timed = true;
      if (row.acc_mean) best_acc_ = std::max(best_acc_.value_or(0), *row.acc_mean);
      if (request_.min_acc && !(row.acc_mean && *row.acc_mean >= *request_.min_acc)) continue;
      if (has_value(job)) {
        add(job);
      } else {
        skipped_ = true;
      }
    }
    if (!timed) throw InputError("no row has a time; plan by a model's");
    if (candidates_.empty()) refuse();
    std::vector<std::string> names = devices_;
    const std::size_t n = request_.devices.size();
    for (std::size_t d = 0; d < n && !named_; ++d) names.push_back(n > 1 ? "gpu" + std::to_string(d) : "");
    PlanProblem problem{request_, std::move(candidates_), {}, std::move(left_out_), numbered(std::move(names))};
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
    if (!skipped_) return;
    if (request_.value == PlanValue::own) throw InputError("no row has a value of its own; plan for accuracy");
    throw InputError(request_.value == PlanValue::accuracy ? "no row has an accuracy; plan for throughput (value thr)"
                                                           : "no row has a throughput; plan for accuracy");
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
  [[nodiscard]] bool has_value(const QueuedJob& job) const {
    if (request_.value == PlanValue::own) return job.value.has_value();
    if (request_.value == PlanValue::accuracy) return job.row.acc_mean.has_value();
    return model_ != nullptr || job.row.thr_mean.has_value();
  }

  /// What a model says of an epoch, or why it is no answer.
  struct Answer {
    double sec = 0;
    DomainViolation reason = DomainViolation::none;
    Provenance provenance = {};
    std::optional<MemoryVerdict> verdict;
    std::string error;
  };

  [[nodiscard]] Answer answer_for(const Workload& workload) const {
    try {
      const Forecast forecast = perfpred::forecast(*model_, workload);
      const Prediction& prediction = forecast.prediction;
      Answer answer{prediction.time_sec.p50, prediction.reason, prediction.provenance, forecast.verdict, {}};
      if (answer.verdict == MemoryVerdict::does_not_fit && !request_.ignore_memory) {
        constexpr double gb = 1e9;
        answer.error = fmt::format("does_not_fit: needs {:.3g} GB of memory, the device has {:.3g} GB",
                                   static_cast<double>(forecast.memory->device.p50) / gb,
                                   static_cast<double>(*forecast.usable_bytes) / gb);
      }
      return answer;
    } catch (const InputError& error) {
      Answer none;
      none.error = error.what();
      return none;
    }
  }

  /// On the device that the workload has.
  [[nodiscard]] PlannedRun run_of(Workload workload, const QueuedJob& job) {
    if (!is_on_one_device(workload)) throw InputError("it is a job on several devices, which are not planned");
    double sec = job.row.avg_time_mean.value_or(0);
    double throughput = job.row.thr_mean.value_or(0);
    PlannedRun run;
    if (model_ != nullptr) {
      if (!workload.knows_epoch()) throw InputError(lacking_epoch(workload));
      const auto [place, is_new] = answers_.try_emplace(workload);  // one for equal jobs
      if (is_new) place->second = answer_for(workload);
      const Answer& answer = place->second;
      if (!answer.error.empty()) throw InputError(answer.error);
      sec = answer.sec;
      throughput = ThroughputDeriver(workload.train_images).derive(sec);
      run.reason = answer.reason;
      run.provenance = answer.provenance;
      run.verdict = answer.verdict;
    }
    if (!(sec > 0) || std::isinf(sec)) {
      throw InputError(fmt::format("{}: {} s an epoch is not a positive number", workload.key(), sec));
    }
    run.id = job.id;
    run.earliest_sec = job.earliest_sec;
    run.deadline_sec = job.deadline_sec;
    run.epochs = job.epochs.value_or(request_.epochs);
    run.cost_sec = whole_seconds(sec * static_cast<double>(run.epochs) + request_.startup_sec);
    const bool by_accuracy = request_.value == PlanValue::accuracy;
    run.value = request_.value == PlanValue::own ? *job.value : by_accuracy ? *job.row.acc_mean : throughput;
    if (!(run.value >= 0) || std::isinf(run.value)) {
      throw InputError(fmt::format("{}: value {} is not a number >= 0", workload.key(), run.value));
    }
    run.device = workload.device;
    run.workload = std::move(workload);
    return run;
  }

  /// On a device of the request. Empty, with the reason, if a model says that it cannot run there.
  [[nodiscard]] std::optional<PlannedRun> run_on(std::size_t d, const QueuedJob& job, std::string& reason) {
    const Workload& asked = job.row.workload;
    try {
      PlannedRun run = run_of(named_ && model_ != nullptr ? model_->on_device(asked, devices_[d]) : asked, job);
      run.device_index = d;
      if (!named_ && request_.devices.size() > 1) run.device = "gpu" + std::to_string(d);
      return run;
    } catch (const InputError& error) {
      if (model_ == nullptr) throw;
      reason = error.what();
      return std::nullopt;
    }
  }

  /// Where the job can run; empty if nowhere. Why a device cannot run it goes to left_out_; one reason if none can.
  [[nodiscard]] PlanCandidate runs_of(const QueuedJob& job) {
    PlanCandidate runs(request_.devices.size());
    std::vector<RowLeftOut> reasons;  // of each device name once
    for (std::size_t d = 0; d < runs.size(); ++d) {
      const std::string device = named_ ? devices_[d] : std::string(job.row.workload.device);
      if (named_ && !goes_to(job.row, device)) continue;
      std::string reason;
      runs[d] = run_on(d, job, reason);
      const auto is_known = [&](const RowLeftOut& one) { return one.device == device; };
      if (!runs[d] && std::none_of(reasons.begin(), reasons.end(), is_known)) {
        reasons.push_back({job.row.workload.key(), reason, device});
      }
    }
    const bool any = std::any_of(runs.begin(), runs.end(), [](const auto& run) { return run.has_value(); });
    if (!any && !reasons.empty()) {
      reasons.resize(1);
      reasons.front().device.clear();
    }
    left_out_.insert(left_out_.end(), reasons.begin(), reasons.end());
    return any ? runs : PlanCandidate();
  }

  /// Candidates of one workload on any device, and how many jobs the rows of each device are.
  struct Alike {
    std::vector<std::size_t> candidates;
    std::map<std::string, std::size_t> jobs;
  };

  void add(const QueuedJob& job) {
    PlanCandidate runs = runs_of(job);
    if (runs.empty()) return;
    if (named_) {
      const std::string terms =
          fmt::format("\n{}\n{}\n{}\n{}\n{}", job.epochs.value_or(request_.epochs), job.value.value_or(-1),
                      job.earliest_sec.value_or(-1), job.deadline_sec.value_or(-1), job.id);
      Alike& alike = alike_[key_anywhere(job.row.workload) + terms];
      std::size_t at =
          pools_ ? 0 : alike.jobs[std::string(job.row.workload.device)]++;  // the rows of one device are different jobs
      for (; at < alike.candidates.size(); ++at) {
        PlanCandidate& known = candidates_[alike.candidates[at]];
        const bool same = std::equal(known.begin(), known.end(), runs.begin(), [](const auto& a, const auto& b) {
          return !a || !b || a->workload == b->workload;
        });
        if (!same) continue;
        for (std::size_t d = 0; d < known.size(); ++d) {
          if (!known[d]) known[d] = std::move(runs[d]);
        }
        return;
      }
      alike.candidates.push_back(candidates_.size());
    }
    candidates_.push_back(std::move(runs));
  }

  std::span<const QueuedJob> jobs_;
  bool pools_;
  const PlanRequest& request_;
  const TimeRegressor* model_;  // null: measured times
  bool named_;
  std::vector<std::string> devices_;  // full names; empty if devices have no name
  std::vector<PlanCandidate> candidates_;
  std::map<std::string, Alike> alike_;  // by key without device and threads, epochs, value and id
  ByWorkload<Answer> answers_;
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

PlanProblem to_problem(std::span<const QueuedJob> jobs, bool pools, const PlanRequest& request,
                       const TimeRegressor* model) {
  check(request, model != nullptr);
  check_dates(jobs, request);
  return ProblemBuilder(jobs, pools, request, model).build();
}

PlanProblem to_problem(std::span<const AggregateRow> rows, const PlanRequest& request, const TimeRegressor* model) {
  std::vector<QueuedJob> jobs;
  for (const AggregateRow& row : rows) jobs.push_back({row});
  return to_problem(jobs, true, request, model);
}

}  // namespace perfpred
