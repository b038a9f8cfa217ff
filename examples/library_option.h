// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <string>
#include <vector>

#include "cli.h"

namespace perfpred::cli {

/// --library, for the programs that read files of networks.
inline void add_library_option(Program& program, std::vector<std::string>& libraries) {
  program.add_option("--library", libraries, "shared library that registers operators of its own; repeatable")
      ->allow_extra_args(false);
}

}  // namespace perfpred::cli
