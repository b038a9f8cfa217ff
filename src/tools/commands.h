// SPDX-License-Identifier: Apache-2.0
#pragma once
// The commands of the program `perfpred`: perfpred NAME ... runs perfpred-NAME ...

#include <span>
#include <string>
#include <string_view>

namespace perfpred {

struct Command {
  std::string_view name;   ///< the program is perfpred-NAME
  std::string_view stage;  ///< its line in the overview
  std::string_view does;   ///< what the program's --help says first
  bool needs_torch = false;
};

/// All, in the order of the overview.
[[nodiscard]] std::span<const Command> commands();

/// The command of this name; `fit` is `train`. @throws InputError, with the nearest name, if there is none
[[nodiscard]] const Command& command_named(std::string_view name);

/// What `perfpred` alone says: ten lines.
[[nodiscard]] std::string command_overview();

/// What `perfpred help` says: a line for each command.
[[nodiscard]] std::string command_list();

}  // namespace perfpred
