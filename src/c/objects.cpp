// SPDX-License-Identifier: Apache-2.0
#include "c/objects.h"

#include <utility>

#include "c/guard.h"
#include "tools/kept_cpu.h"

namespace perfpred {
namespace {

/// Never destroyed: handles may be used while a process ends.
template <class Registry>
Registry& kept_for_good(const char* kind) {
  static Registry& registry = *new Registry(kind);
  return registry;
}

}  // namespace

std::shared_ptr<SharedModel> SharedModel::successor(TimeRegressor regressor) const {
  ask([&](const TimeRegressor& before) {
    const ResolvedDevice cpu = before.devices().resolve("cpu");
    if (cpu.origin == DeviceOrigin::this_cpu && !cpu.lacks_rates()) regressor.set_cpu(*cpu.device);
  });
  return std::make_shared<SharedModel>(std::move(regressor), given_devices_);
}

std::vector<RejectedRun> SharedModel::observe(std::span<const Run> runs) {
  std::vector<RejectedRun> rejected;
  {
    const std::shared_lock lock(devices_);
    rejected = regressor_.observe(runs);
  }
  const std::lock_guard lock(making_requests_);
  requests_.reset();  // they are made from the rows
  return rejected;
}

std::shared_ptr<const ModelRequests> SharedModel::requests() const {
  const std::lock_guard lock(making_requests_);
  if (!requests_)
    requests_ = ask([](const TimeRegressor& model) {
      return std::make_shared<const ModelRequests>(model, std::vector<SweptField>());
    });
  return requests_;
}

void SharedModel::rate_cpu_for(const Workload& workload) const {
  if (ask([&](const TimeRegressor& model) { return model.lacks_rates(workload); })) rate_cpu();
}

void SharedModel::rate_cpu() const {
  RatedCpu cpu = rated_cpu();
  if (!cpu.note.empty()) note({cpu.note});
  const std::lock_guard lock(devices_);
  regressor_.set_cpu(std::move(cpu.device));
}

Handles<perfpred_catalogue, const DeviceCatalogue>& catalogues() {
  return kept_for_good<Handles<perfpred_catalogue, const DeviceCatalogue>>("catalogue");
}

Handles<perfpred_model, SharedModel>& models() { return kept_for_good<Handles<perfpred_model, SharedModel>>("model"); }

Handles<perfpred_workload, const AskedWorkload>& workloads() {
  return kept_for_good<Handles<perfpred_workload, const AskedWorkload>>("workload");
}

Handles<perfpred_plan, const MadePlan>& plans() {
  return kept_for_good<Handles<perfpred_plan, const MadePlan>>("plan");
}

Handles<perfpred_samples, SharedSamples>& samples_of_steps() {
  return kept_for_good<Handles<perfpred_samples, SharedSamples>>("samples");
}

DeviceCatalogue known_devices(const char* file) {
  DeviceCatalogue devices;
  if (file != nullptr) note(devices.add(file));
  if (auto cpu = kept_cpu()) devices.set_cpu(std::move(*cpu));
  return devices;
}

}  // namespace perfpred
