// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <string>
#include <string_view>

namespace perfpred {

/// How a workload differs from all rows that the model was fitted on, so that its prediction is an extrapolation.
enum class DomainViolation {
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
  other_placement,
  other_cluster,
};

/// Its word in files, the value of `reason`; empty for `none`.
[[nodiscard]] PERFPRED_API std::string_view to_string(DomainViolation violation);

/// What a prediction rests on, best first: runs of the network on the device; operators or other steps measured on the
/// device; devices whose libraries choose kernels alike (Pascal | Volta, Turing | Ampere and later | CDNA); other
/// devices; the bytes that an unknown operator moves.
enum class Provenance { runs, probe, family, other_family, bytes };

[[nodiscard]] PERFPRED_API std::string_view to_string(Provenance provenance);

/// Quantiles of one quantity.
struct Quantiles {
  double p05 = 0;
  double p50 = 0;
  double p95 = 0;
};

/// The time per epoch that a model expects for one workload.
struct Prediction {
  Quantiles time_sec;  ///< seconds per epoch, > 0; NaN where nobody stated its samples (Workload::knows_epoch())
  DomainViolation reason = DomainViolation::none;
  Provenance provenance = Provenance::runs;
  std::uint64_t model_id = 0;         ///< of the fitted model; changes when the model learns
  std::uint64_t training_set_id = 0;  ///< of the rows that it was fitted on; their order does not matter; 0: none
  [[nodiscard]] bool in_domain() const { return reason == DomainViolation::none; }
};

/// Part of a time by cause: an operator, all its calls together, or the wait for the host.
struct TimeTerm {
  std::string op;
  double sec = 0;
};

}  // namespace perfpred
