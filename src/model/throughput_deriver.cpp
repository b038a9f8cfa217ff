// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/throughput_deriver.h>

#include <cmath>

namespace perfpred {

ThroughputDeriver::ThroughputDeriver(std::int64_t train_images) : train_images_(static_cast<double>(train_images)) {
  if (train_images < 1) throw InputError("train_images is not positive");
}

double ThroughputDeriver::derive(double time_sec) const {
  if (!(time_sec > 0) || !std::isfinite(time_sec)) throw InputError("time per epoch is not positive");
  return train_images_ / time_sec;
}

Quantiles ThroughputDeriver::derive(const Quantiles& time_sec) const {
  return {derive(time_sec.p95), derive(time_sec.p50), derive(time_sec.p05)};
}

}  // namespace perfpred
