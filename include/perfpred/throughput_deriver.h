// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/prediction.h>

#include <cstdint>

namespace perfpred {

/// Converts seconds per epoch into images per second: train_images / seconds. The quantiles change places: p95 of the
/// time gives p05 of the throughput.
class PERFPRED_API ThroughputDeriver {
 public:
  /// @throws InputError if train_images is not positive
  explicit ThroughputDeriver(std::int64_t train_images);

  [[nodiscard]] double derive(double time_sec) const;  ///< @throws InputError if the time is not positive and finite
  [[nodiscard]] Quantiles derive(const Quantiles& time_sec) const;

 private:
  double train_images_;
};

}  // namespace perfpred
