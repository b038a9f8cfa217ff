// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <chrono>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <stop_token>
#include <thread>
#include <utility>

namespace perfpred {

/// Does something at once and again after each pause, in a thread of its own, as long as it lives.
class Repeated {
 public:
  /// @param act  throws nothing
  Repeated(std::chrono::milliseconds pause, std::function<void()> act)
      : thread_([pause, act = std::move(act)](const std::stop_token& stop) {
          std::mutex mutex;
          std::condition_variable_any never;
          std::unique_lock lock(mutex);
          do act();
          while (!never.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); }));
        }) {}

 private:
  std::jthread thread_;
};

}  // namespace perfpred
