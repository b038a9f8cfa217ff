// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <string_view>

namespace perfpred {

/// Why a prediction is out of the domain that its model was fitted on.
enum class Reason {
  none,
  depth_out_of_range,
  width_out_of_range,
  batch_out_of_range,
  size_out_of_range,
  other_network,
  other_device,
  other_precision,
  other_optimizer,
  other_layout,
  unknown_op,
};

/// The reason's word in files and on the screen; empty for `none`.
[[nodiscard]] PERFPRED_API std::string_view to_string(Reason reason);

/// Quantiles of one quantity.
struct Quantiles {
  double p05 = 0;
  double p50 = 0;
  double p95 = 0;
};

/// What a model expects of one workload.
struct Prediction {
  Quantiles time_sec;  ///< seconds per epoch, > 0
  Reason reason = Reason::none;
  std::uint64_t model_id = 0;         ///< of the fitted model that answered; changes when it learns
  std::uint64_t training_set_id = 0;  ///< of the rows that it was fitted on, in whatever order
  [[nodiscard]] bool in_domain() const { return reason == Reason::none; }
};

}  // namespace perfpred
