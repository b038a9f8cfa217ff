// SPDX-License-Identifier: Apache-2.0
#pragma once
// The option --graphs, where a network is named.
#include <perfpred/op_graph.h>

#include <string>

#include "cli.h"

namespace perfpred::cli {

inline void add_graphs_option(Program& program) {
  program.add_option_function<std::string>(
      "--graphs", [](const std::string& folder) { add_graphs(folder); },
      "folder of step files: <digits>.json is the network step:<digits>, <model>.json a model of a table of steps");
}

}  // namespace perfpred::cli
