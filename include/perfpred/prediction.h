// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <string_view>

namespace perfpred {

/// Why a workload lies outside the domain of the rows that the model was fitted on.
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
};

/// The reason's word in files and on the screen; empty for `none`.
[[nodiscard]] PERFPRED_API std::string_view to_string(Reason reason);

/// Quantiles of one quantity.
struct Quantiles {
  double p05 = 0;
  double p50 = 0;
  double p95 = 0;
};

/// The time per epoch that a model expects for one workload.
struct Prediction {
  Quantiles time_sec;  ///< seconds per epoch, > 0
  Reason reason = Reason::none;
  std::uint64_t model_id = 0;         ///< of the fitted model; changes when the model learns
  std::uint64_t training_set_id = 0;  ///< of the rows that it was fitted on; their order does not matter
  [[nodiscard]] bool in_domain() const { return reason == Reason::none; }
};

}  // namespace perfpred
