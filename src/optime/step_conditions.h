// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/executed_step.h>
#include <perfpred/workload.h>

#include <string>
#include <vector>

namespace perfpred {

/// How a step is executed, beside its device, precision and layout: fields of a workload.
struct StepConditions {
  bool compiled = false;
  Software software = Software::pytorch;
  Loader loader = Loader::none;
  Phases phases = Phases::all;

  friend auto operator<=>(const StepConditions&, const StepConditions&) = default;
};

[[nodiscard]] StepConditions conditions_of(const Workload& workload);

/// Those that differ from the default, each by its word: `compiled`, `software=xla`, `loader=included`, `forward`.
[[nodiscard]] std::vector<std::string> words_of(const StepConditions& conditions);

[[nodiscard]] Compiler compiler_of(const StepConditions& conditions);

/// Whether a compiler fuses operators, and dispatches kernels itself.
[[nodiscard]] bool is_compiled(const StepConditions& conditions);

}  // namespace perfpred
