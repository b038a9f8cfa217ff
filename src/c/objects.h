// SPDX-License-Identifier: Apache-2.0
#pragma once
// What the handles of the C interface stand for.
#include <perfpred/c_api.h>
#include <perfpred/step_samples.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <cstddef>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "c/handles.h"
#include "tools/model_requests.h"
#include "tools/plan_answer.h"

namespace perfpred {

/// A regressor that any number of threads ask, while others teach it or measure this machine's CPU for it.
class SharedModel {
 public:
  /// @param devices   that the regressor was given
  /// @param left_out  rows of the table that the regressor was fitted on without
  SharedModel(TimeRegressor regressor, DeviceCatalogue devices, std::vector<RejectedRun> left_out = {})
      : given_devices_(std::move(devices)), left_out_(std::move(left_out)), regressor_(std::move(regressor)) {}

  [[nodiscard]] const DeviceCatalogue& given_devices() const { return given_devices_; }

  /// A model that takes the place of this one, and knows the rates of this machine's CPU if this one does.
  [[nodiscard]] std::shared_ptr<SharedModel> successor(TimeRegressor regressor) const;

  [[nodiscard]] const std::vector<RejectedRun>& left_out() const { return left_out_; }

  /// What a call gives for the regressor, whose devices stay as they are meanwhile.
  template <class Call>
  auto ask(const Call& call) const {
    const std::shared_lock lock(devices_);
    return call(regressor_);
  }

  /// TimeRegressor::observe()
  std::vector<RejectedRun> observe(std::span<const Run> runs);

  /// Reads requests; valid as long as the model.
  [[nodiscard]] std::shared_ptr<const ModelRequests> requests() const;

  /// Gives the regressor the rates of this machine's CPU, if its answer needs them.
  void rate_cpu_for(const Workload& workload) const;
  void rate_cpu() const;

 private:
  DeviceCatalogue given_devices_;
  std::vector<RejectedRun> left_out_;
  mutable TimeRegressor regressor_;     // but for set_cpu() it locks itself
  mutable std::shared_mutex devices_;   // alone: set_cpu()
  mutable std::mutex making_requests_;  // guards requests_
  mutable std::shared_ptr<const ModelRequests> requests_;
};

struct AskedWorkload {
  Workload workload;
  std::vector<std::string> unstated = {};  ///< JobTerms::unstated
};

struct MadePlan {
  RunPlan plan;
  PlanTerms terms;
};

struct SharedSamples {
  std::mutex mutex;  ///< guards the samples
  StepSamples samples;
};

[[nodiscard]] Handles<perfpred_catalogue, const DeviceCatalogue>& catalogues();
[[nodiscard]] Handles<perfpred_model, SharedModel>& models();
[[nodiscard]] Handles<perfpred_workload, const AskedWorkload>& workloads();
[[nodiscard]] Handles<perfpred_plan, const MadePlan>& plans();
[[nodiscard]] Handles<perfpred_samples, SharedSamples>& samples_of_steps();

/// The devices that the library knows, those of a file (null: none), and this machine's CPU if it has been measured.
[[nodiscard]] DeviceCatalogue known_devices(const char* file);

}  // namespace perfpred
