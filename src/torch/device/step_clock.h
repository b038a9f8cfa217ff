// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <c10/core/Event.h>

#include <chrono>
#include <cstddef>
#include <deque>
#include <vector>

namespace perfpred {

inline constexpr std::size_t max_open_marks = 8;  ///< how far the host should run ahead of the device

/// Times between marks in a device's work: events on CUDA, so that nothing waits, the steady clock on a CPU.
class StepClock {
 public:
  explicit StepClock(c10::Device device) : device_(device) {}

  void mark();

  /// Seconds between marks that the device has passed and that were not taken yet. On CUDA it waits until at most
  /// `behind` marks are open: 0 waits for all.
  [[nodiscard]] std::vector<double> take(std::size_t behind);

  /// The next mark begins anew: no interval ends there. Open intervals are dropped.
  void restart();

 private:
  c10::Device device_;
  std::deque<c10::Event> events_;
  std::vector<c10::Event> spare_;
  std::deque<std::chrono::steady_clock::time_point> times_;
};

/// Waits until the device has done all work; nothing on a CPU.
void synchronize(c10::Device device);

/// Seconds of the steady clock since then.
[[nodiscard]] inline double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

}  // namespace perfpred
