// SPDX-License-Identifier: Apache-2.0
#pragma once
// What a disturbed measurement is worth, a run's or a layer's: the rule in docs/measure.md.
#include <perfpred/run.h>

namespace perfpred {

/// Whether a command that is started again leaves a measurement with this outcome as it is. A disturbance may have
/// passed, and so may a failure; memory does not grow.
[[nodiscard]] constexpr bool is_settled(Outcome outcome) { return outcome == Outcome::ok || outcome == Outcome::oom; }

/// Whether a timed measurement counts: an undisturbed one does, a disturbed one where its workload or layer has no
/// other.
[[nodiscard]] constexpr bool counts(bool disturbed, bool has_undisturbed) { return !disturbed || !has_undisturbed; }

}  // namespace perfpred
