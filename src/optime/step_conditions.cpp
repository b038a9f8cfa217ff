// SPDX-License-Identifier: Apache-2.0
#include "optime/step_conditions.h"

namespace perfpred {

StepConditions conditions_of(const Workload& workload) {
  return {workload.compiled, workload.software, workload.loader, workload.phases};
}

std::vector<std::string> words_of(const StepConditions& conditions) {
  std::vector<std::string> words;
  if (conditions.compiled) words.emplace_back("compiled");
  if (conditions.software != Software::pytorch)
    words.push_back("software=" + std::string(to_string(conditions.software)));
  if (conditions.loader == Loader::included) words.emplace_back("loader=included");
  if (conditions.phases == Phases::forward) words.emplace_back("forward");
  return words;
}

Compiler compiler_of(const StepConditions& conditions) { return compiler_of(conditions.compiled, conditions.software); }

bool is_compiled(const StepConditions& conditions) { return compiler_of(conditions) != Compiler::none; }

}  // namespace perfpred
