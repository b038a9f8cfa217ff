// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string_view>

namespace perfpred {

/// By name; argv[0] is perfpred-NAME, and the exit code is returned.
using OwnCommands = std::map<std::string_view, int (*)(int argc, char** argv)>;

/// The main() of an executable of several commands. Runs the one that argv[0] (perfpred-train) or argv[1] (perfpred
/// train) names: here, or in the executable beside this one that has it.
int run_command(int argc, char** argv, const OwnCommands& own);

/// Becomes the program of this name beside this one. Returns where there is none, and where it is this one.
/// @throws Error if it can't be executed
void become(std::string_view program, char** argv);

}  // namespace perfpred
