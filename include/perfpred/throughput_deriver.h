// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/prediction.h>

#include <cstdint>

namespace perfpred {

/// Turns seconds per epoch into images a second, without a model of its own: train images / seconds. The order of the
/// quantiles flips: the slow tail of time is the low tail of throughput.
class PERFPRED_API ThroughputDeriver {
 public:
  /// @throws InputError if train_images is not positive
  explicit ThroughputDeriver(std::int64_t train_images);

  [[nodiscard]] double derive(double time_sec) const;  ///< @throws InputError if the time is not positive
  [[nodiscard]] Quantiles derive(const Quantiles& time_sec) const;

 private:
  double train_images_;
};

}  // namespace perfpred
