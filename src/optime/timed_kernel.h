// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>

namespace perfpred {

/// A kernel of a step, as a model times it.
struct TimedKernel {
  std::uint32_t op = 0;   ///< index into the ops() of the executed step
  double device_sec = 0;  ///< >= 0
  double host_sec = 0;    ///< that the host takes to dispatch it, >= 0; 0 where it is dispatched with the one before
  double flops = 0;       ///< its share of the operator's, as that of its bytes
  double bytes = 0;       ///< read and written
};

}  // namespace perfpred
