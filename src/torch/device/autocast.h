// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/autocast_mode.h>
#include <c10/core/Device.h>

#include <optional>

namespace perfpred {

/// While it lives, this thread computes in automatic mixed precision, or without it where there is no half type: what
/// torch.autocast does.
class Autocast {
 public:
  Autocast(c10::DeviceType device, std::optional<at::ScalarType> type)
      : device_(device),
        was_enabled_(at::autocast::is_autocast_enabled(device)),
        was_type_(at::autocast::get_autocast_dtype(device)) {
    at::autocast::increment_nesting();
    at::autocast::set_autocast_enabled(device, type.has_value());
    if (type) at::autocast::set_autocast_dtype(device, *type);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    at::autocast::set_autocast_enabled(device_, was_enabled_);
    at::autocast::set_autocast_dtype(device_, was_type_);
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
  }

 private:
  c10::DeviceType device_;
  bool was_enabled_;
  at::ScalarType was_type_;
};

}  // namespace perfpred
