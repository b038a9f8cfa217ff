// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/autocast_mode.h>
#include <c10/core/DeviceType.h>
#include <perfpred/vocabulary.h>

#include <optional>

#include "torch/device/scalar_types.h"

namespace perfpred {

/// Automatic mixed precision while it lives.
class Autocast {
 public:
  Autocast(c10::DeviceType device, Precision precision) : device_(device), on_(half_type(precision)) {
    if (!on_) return;
    at::autocast::set_autocast_dtype(device, *half_type(precision));
    at::autocast::set_autocast_enabled(device, true);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;
  ~Autocast() {
    if (!on_) return;
    at::autocast::set_autocast_enabled(device_, false);
    at::autocast::clear_cache();
  }

 private:
  c10::DeviceType device_;
  bool on_;
};

}  // namespace perfpred
