// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

namespace perfpred {

/// From now on plan_runs() closes gaps of plans for several devices with CBC (COIN-OR's branch and cut).
PERFPRED_API void enable_cbc();

}  // namespace perfpred
