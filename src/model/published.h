// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <atomic>
#include <cstddef>
#include <memory>
#include <thread>

namespace perfpred {

/// A value that any number of threads read while another one replaces it. Readers take no lock and never wait;
/// replace() waits until nobody reads the old value any more. This is read-copy-update with counters of readers in two
/// phases (Desnoyers et al., IEEE Transactions on Parallel and Distributed Systems 23, 2012), as
/// std::atomic<std::shared_ptr> takes a lock and has a data race in libstdc++ 12.
template <class T>
class Published {
 public:
  explicit Published(std::unique_ptr<const T> value) : value_(value.release()) {}
  Published(const Published&) = delete;
  Published& operator=(const Published&) = delete;
  ~Published() { delete value_.load(); }

  /// Keeps the value that it read alive.
  class Reader {
   public:
    explicit Reader(const Published& from) : readers_(from.slots_[slot_of_this_thread()].readers[from.phase_.load()]) {
      readers_.fetch_add(1);
      value_ = from.value_.load();
    }
    Reader(const Reader&) = delete;
    Reader& operator=(const Reader&) = delete;
    ~Reader() { readers_.fetch_sub(1); }
    const T* operator->() const { return value_; }
    const T& operator*() const { return *value_; }

   private:
    std::atomic<long>& readers_;
    const T* value_;
  };

  [[nodiscard]] Reader read() const { return Reader(*this); }

  /// By one thread at a time, which must not hold a Reader.
  void replace(std::unique_ptr<const T> value) {
    const std::unique_ptr<const T> old(value_.exchange(value.release()));
    // Who reads the old value has counted itself before the exchange, in either phase. Readers that come later count
    // in the other phase, so that the wait ends.
    for (int flip = 0; flip < 2; ++flip) {
      const std::size_t phase = phase_.load();
      phase_.store(1 - phase);
      for (const Slot& slot : slots_) {
        while (slot.readers[phase].load() != 0) std::this_thread::yield();
      }
    }
  }

 private:
  static constexpr std::size_t slots = 16;  // so that few threads share a counter
  struct alignas(64) Slot {
    mutable std::array<std::atomic<long>, 2> readers{};
  };

  static std::size_t slot_of_this_thread() {
    static std::atomic<std::size_t> next{0};
    thread_local const std::size_t slot = next++ % slots;
    return slot;
  }

  std::array<Slot, slots> slots_{};
  std::atomic<std::size_t> phase_{0};
  std::atomic<const T*> value_;
};

}  // namespace perfpred
