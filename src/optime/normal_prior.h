// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace perfpred {

/// Normal distribution of a parameter before a fit.
struct NormalPrior {
  double mean = 0, deviation = 1;
};

}  // namespace perfpred
