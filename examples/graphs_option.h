// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options --graphs, where a network is named, and --op-rules, where operators are counted.
#include <perfpred/op_graph.h>
#include <perfpred/op_rule_registry.h>
#include <perfpred/step_file.h>

#include <string>
#include <vector>

#include "cli.h"
#include "step/op_rules.h"

namespace perfpred::cli {

inline CLI::Option* add_op_rules_option(Program& program) {
  program.at_end([] {
    if (const std::string rules = unused_rules(); !rules.empty()) {
      fmt::print(stderr, "--op-rules: {} matched no operator\n", rules);
    }
  });
  return program.add_option_function<std::string>(
      "--op-rules", [](const std::string& file) { register_ops(file); },
      "text file of rules that count operators of your own: mylib::op flops = 2 * in0 * in1[-1]");
}

/// @return both options
inline std::vector<CLI::Option*> add_graphs_options(Program& program) {
  auto* graphs = program.add_option_function<std::string>(
      "--graphs", [](const std::string& folder) { add_graphs(folder); },
      "folder of step files: <digits>.json is the network with these digits (step:), <model>.json "
      "a model of a table of steps; or one step file");
  return {graphs, add_op_rules_option(program)};
}

}  // namespace perfpred::cli
