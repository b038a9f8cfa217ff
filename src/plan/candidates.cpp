// SPDX-License-Identifier: Apache-2.0
#include "plan/candidates.h"

#include <perfpred/error.h>
#include <perfpred/throughput_deriver.h>

#include <fmt/ranges.h>

#include <algorithm>
#include <map>
#include <set>

#include "aggregate/figures.h"
#include "catalogue/device_table.h"
#include "model/lognormal.h"

namespace perfpred {
namespace {

/// Of the places of a candidate; devices without a name share one place.
std::vector<std::string> device_names(const PlanRequest& request) {
  std::vector<std::string> names;
  for (const PlanDevice& device : request.devices) names.push_back(device.name);
  if (names.front().empty()) names.resize(1);
  return names;
}

/// Gathers options into candidates; with named devices, those of one workload without its device and what follows from
/// that, its threads. Two workloads for one device are two candidates; the first of two options for one workload stays.
class CandidateTable {
 public:
  CandidateTable(std::span<const AggregateRow> rows, const PlanRequest& request)
      : request_(request), devices_(device_names(request)) {
    if (rows.empty()) throw InputError("there is no row to plan with");
    for (const AggregateRow& row : rows) {
      row.workload.validate();
      check_figures(row, {row.workload.key(), 0, {}});
    }
  }

  [[nodiscard]] bool passes(const AggregateRow& row) {
    if (row.acc_mean) best_acc_ = std::max(best_acc_.value_or(0), *row.acc_mean);
    return !request_.min_acc || (row.acc_mean && *row.acc_mean >= *request_.min_acc);
  }

  /// @param anywhere  the row's workload
  /// @param options   one for each place; not all are empty
  void add(Workload anywhere, PlanCandidate options) {
    if (devices_.front().empty()) {
      candidates_.push_back(std::move(options));
      return;
    }
    anywhere.device.clear();
    anywhere.threads.reset();
    std::vector<std::size_t>& alike = places_[anywhere.key()];
    for (const std::size_t index : alike) {
      PlanCandidate& known = candidates_[index];
      const bool other = !std::equal(known.begin(), known.end(), options.begin(), [](const auto& a, const auto& b) {
        return !a || !b || a->workload == b->workload;
      });
      if (other) continue;
      for (std::size_t d = 0; d < known.size(); ++d) {
        if (!known[d]) known[d] = std::move(options[d]);
      }
      return;
    }
    alike.push_back(candidates_.size());
    candidates_.push_back(std::move(options));
  }

  /// As the request names them, one for each place of a candidate.
  [[nodiscard]] const std::vector<std::string>& devices() const { return devices_; }

  /// A row without a value.
  void skip() { skipped_ = true; }

  [[nodiscard]] std::vector<PlanCandidate> finish() {
    if (request_.min_acc && candidates_.empty()) {
      throw Error(best_acc_
                      ? fmt::format("no run reaches an accuracy of {}; the best has {}", *request_.min_acc, *best_acc_)
                      : fmt::format("no run reaches an accuracy of {}: no row has one", *request_.min_acc));
    }
    if (skipped_ && candidates_.empty()) {
      throw InputError(request_.value == PlanValue::accuracy ? "no row has an accuracy; plan for throughput"
                                                             : "no row has a throughput; plan for accuracy");
    }
    return std::move(candidates_);
  }

 private:
  const PlanRequest& request_;
  std::vector<std::string> devices_;
  std::vector<PlanCandidate> candidates_;
  std::map<std::string, std::vector<std::size_t>> places_;  // by key without device and threads
  std::optional<double> best_acc_;
  bool skipped_ = false;
};

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

}  // namespace

std::vector<PlanCandidate> measured_candidates(std::span<const AggregateRow> rows, const PlanRequest& request) {
  CandidateTable table(rows, request);
  std::vector<std::string> devices = table.devices();
  const std::set<std::string> measured = devices_of(rows);
  for (std::string& device : devices) {
    if (device.empty()) continue;
    const auto known = find_name(request.catalogue.resolve(device), measured);
    if (!known) {
      throw InputError(fmt::format("no row is of device \"{}\"; rows are of {}", device, fmt::join(measured, ", ")));
    }
    device = *known;
  }
  bool timed = false;
  for (const AggregateRow& row : rows) {
    const auto goes_to = [&](const std::string& device) { return device.empty() || device == row.workload.device; };
    if (!row.avg_time_mean || std::none_of(devices.begin(), devices.end(), goes_to)) continue;
    timed = true;
    if (!table.passes(row)) continue;
    const auto value = request.value == PlanValue::accuracy ? row.acc_mean : row.thr_mean;
    if (!value) {
      table.skip();
      continue;
    }
    PlanCandidate options(devices.size());
    for (std::size_t d = 0; d < devices.size(); ++d) {
      if (goes_to(devices[d])) options[d] = PlanOption{row.workload, *row.avg_time_mean, *value};
    }
    table.add(row.workload, std::move(options));
  }
  if (!timed) throw InputError("no row has a time; plan by a model's");
  return table.finish();
}

std::vector<PlanCandidate> predicted_candidates(std::span<const AggregateRow> rows, const PlanRequest& request,
                                                const TimeRegressor& model) {
  CandidateTable table(rows, request);
  std::vector<std::string> devices = table.devices();
  const std::set<std::string> modelled = devices_of(model.fitted_rows()), planned = devices_of(rows);
  for (std::string& device : devices) {
    if (device.empty()) continue;
    const ResolvedDevice asked = request.catalogue.resolve(device);
    auto known = find_name(asked, modelled);
    if (!known) known = find_name(asked, planned);
    device = known ? *known : asked.full_name();
  }
  const auto predict = [&](const Workload& workload) {
    try {
      return model.predict(workload);
    } catch (const InputError& error) {
      throw InputError(fmt::format("{}: {}", workload.key(), error.what()));
    }
  };
  for (const AggregateRow& row : rows) {
    if (!table.passes(row)) continue;
    if (request.value == PlanValue::accuracy && !row.acc_mean) {
      table.skip();
      continue;
    }
    PlanCandidate options;
    for (const std::string& device : devices) {
      Workload workload = device.empty() ? row.workload : model.on_device(row.workload, device);
      const Prediction prediction = predict(workload);
      const double sec = prediction.time_sec.p50;
      const double value =
          request.value == PlanValue::accuracy ? *row.acc_mean : ThroughputDeriver(workload.train_images).derive(sec);
      options.push_back(PlanOption{std::move(workload), sec, value, prediction.reason});
    }
    table.add(row.workload, std::move(options));
  }
  return table.finish();
}

std::vector<JointPrediction> joint_times(std::span<const PlanCandidate> candidates, const TimeRegressor& model) {
  const Disturbance disturbance = disturbance_of(model);
  std::vector<JointPrediction> all;
  const std::size_t devices = candidates.empty() ? 1 : candidates.front().size();
  for (std::size_t d = 0; d < devices; ++d) {
    std::vector<Workload> workloads;
    for (const PlanCandidate& candidate : candidates) {
      workloads.push_back(candidate[d]->workload);
    }
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

}  // namespace perfpred
