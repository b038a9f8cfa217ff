// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/run_plan.h>

#include <string>

#include "tools/plan_answer.h"

namespace perfpred {

/// A shell script that submits a plan to Slurm, one line of sbatch a run, in the plan's order on each device: after the
/// run before it there has ended, well or not, and not before the plan lets it begin. `script` gets the run's key, its
/// epochs and its id as arguments. A comment says what the time limits rest on.
/// @param predicted  whether times are a model's
[[nodiscard]] std::string sbatch_lines(const RunPlan& plan, const PlanTerms& terms, const std::string& script,
                                       bool predicted);

}  // namespace perfpred
