// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>

#include <fmt/format.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <shared_mutex>
#include <unordered_map>
#include <utility>

namespace perfpred {

/// A number that no handle of any kind had before. The first is far from the addresses of objects.
[[nodiscard]] inline std::uintptr_t next_handle() {
  static std::atomic<std::uintptr_t> last{0x1000};
  return ++last;
}

/// The open handles of one kind and what they stand for.
/// @tparam Handle  the type that C sees, which is never defined
template <class Handle, class Object>
class Handles {
 public:
  /// @param kind  for messages: "model"
  explicit Handles(const char* kind) : kind_(kind) {}

  [[nodiscard]] Handle* add(std::shared_ptr<Object> object) {
    const std::uintptr_t handle = next_handle();
    const std::lock_guard lock(mutex_);
    open_.emplace(handle, std::move(object));
    return reinterpret_cast<Handle*>(handle);  // NOLINT(performance-no-int-to-ptr): nobody follows it
  }

  /// Allocates nothing. @throws InputError for a handle that is not open
  [[nodiscard]] std::shared_ptr<Object> get(const Handle* handle) const {
    const std::shared_lock lock(mutex_);
    const auto found = open_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == open_.end()) refuse(handle);
    return found->second;
  }

  /// @throws InputError for a handle that is not open
  void replace(const Handle* handle, std::shared_ptr<Object> object) {
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == open_.end()) refuse(handle);
    found->second.swap(object);
  }

  /// Nothing where it is not open.
  void remove(const Handle* handle) {
    std::shared_ptr<Object> last;  // goes after the lock
    const std::lock_guard lock(mutex_);
    const auto found = open_.find(reinterpret_cast<std::uintptr_t>(handle));
    if (found == open_.end()) return;
    last = std::move(found->second);
    open_.erase(found);
  }

 private:
  [[noreturn]] void refuse(const Handle* handle) const {
    if (handle == nullptr) throw InputError(fmt::format("the {} is NULL", kind_));
    throw InputError(fmt::format("the {} is not open: it was freed, or is a handle of another kind", kind_));
  }

  const char* kind_;
  mutable std::shared_mutex mutex_;
  std::unordered_map<std::uintptr_t, std::shared_ptr<Object>> open_;
};

}  // namespace perfpred
