// SPDX-License-Identifier: Apache-2.0
#pragma once
// Completion of command lines and manual pages, from what programs say of their options.

#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

struct CommandOption {
  std::vector<std::string> names;  ///< `-h`, `--help`; none for a positional argument
  std::string value;               ///< what it takes, as `runs.csv`; empty for a flag
  std::string help;
};

/// What a program's --help-json says of it.
struct CommandHelp {
  std::string name;  ///< perfpred-aggregate
  std::string does;
  std::string example;  ///< a command line
  std::string version;
  std::vector<CommandOption> options;
};

/// @throws InputError if the text is not one that a program's --help-json prints
[[nodiscard]] CommandHelp parse_command_help(std::string_view json);

/// A script that completes the command lines of `perfpred` and of these programs.
/// @param shell  bash, fish or zsh
/// @throws InputError for another shell
[[nodiscard]] std::string completion_script(std::string_view shell, std::span<const CommandHelp> programs);

[[nodiscard]] std::string manual_page(const CommandHelp& program);  ///< in roff, for man(7)
/// Of `perfpred` itself.
[[nodiscard]] std::string manual_page_of_all(std::string_view version);

}  // namespace perfpred
