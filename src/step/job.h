// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/workload.h>

#include <memory>
#include <utility>

#include "step/program.h"

namespace perfpred {

/// A workload and what its names mean: the program behind its network, and its device. Both are looked up once; jobs
/// that differ in other fields share them.
class Job {
 public:
  /// @param devices  outlives the job, unchanged
  /// @throws InputError as Program
  Job(Workload workload, const DeviceCatalogue& devices)
      : workload_(std::move(workload)), names_(std::make_shared<const Names>(workload_, devices)) {}

  /// The job with other fields; another network or device is looked up. @throws InputError as Program
  [[nodiscard]] Job with(Workload changed) const {
    if (changed.network == names_->network && changed.device == names_->device_name)
      return {std::move(changed), names_};
    return {std::move(changed), devices()};
  }

  [[nodiscard]] const Workload& workload() const { return workload_; }
  [[nodiscard]] const Program& program() const { return names_->program; }
  [[nodiscard]] const ResolvedDevice& device() const { return names_->device; }
  [[nodiscard]] const DeviceCatalogue& devices() const { return *device().catalogue; }
  [[nodiscard]] DeviceKind device_kind() const { return device().kind(workload_.threads.has_value()); }

 private:
  struct Names {
    NetworkName network;
    DeviceName device_name;
    Program program;
    ResolvedDevice device;  // points into device_name

    Names(const Workload& workload, const DeviceCatalogue& devices)
        : network(workload.network),
          device_name(workload.device),
          program(network),
          device(devices.resolve(device_name)) {}
    Names(const Names&) = delete;
    Names& operator=(const Names&) = delete;
  };

  Job(Workload workload, std::shared_ptr<const Names> names)
      : workload_(std::move(workload)), names_(std::move(names)) {}

  Workload workload_;
  std::shared_ptr<const Names> names_;
};

}  // namespace perfpred
