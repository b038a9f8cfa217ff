// SPDX-License-Identifier: Apache-2.0
#include "torch/device/step_clock.h"

#include <c10/core/impl/VirtualGuardImpl.h>

#include <utility>

namespace perfpred {

void StepClock::mark() {
  if (device_.is_cpu()) {
    times_.push_back(std::chrono::steady_clock::now());
    return;
  }
  if (spare_.empty()) {
    events_.emplace_back(device_.type(), c10::EventFlag::BACKEND_DEFAULT);
  } else {
    events_.push_back(std::move(spare_.back()));
    spare_.pop_back();
  }
  const c10::impl::VirtualGuardImpl guard(device_.type());
  events_.back().record(guard.getStream(device_));
}

std::vector<double> StepClock::take(std::size_t behind) {
  std::vector<double> seconds;
  while (times_.size() > 1) {
    seconds.push_back(std::chrono::duration<double>(times_[1] - times_[0]).count());
    times_.pop_front();
  }
  while (events_.size() > 1 && (events_.size() - 1 > behind || events_[1].query())) {
    events_[1].synchronize();
    seconds.push_back(events_[0].elapsedTime(events_[1]) * 1e-3);
    spare_.push_back(std::move(events_.front()));
    events_.pop_front();
  }
  return seconds;
}

void StepClock::restart() {
  times_.clear();
  for (c10::Event& event : events_) spare_.push_back(std::move(event));
  events_.clear();
}

void synchronize(c10::Device device) {
  if (device.is_cpu()) return;
  const c10::impl::VirtualGuardImpl guard(device.type());
  guard.synchronizeDevice(device.index());
}

}  // namespace perfpred
