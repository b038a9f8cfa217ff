// SPDX-License-Identifier: Apache-2.0
#include "tools/command_pages.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/vocabulary.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <utility>

#include "text/enum_names.h"
#include "text/json.h"
#include "tools/commands.h"

namespace perfpred {
namespace {

/// The words that an option takes, where they are few enough to be proposed.
struct OptionValues {
  std::string option;
  std::vector<std::string> words;
};

template <class Words>
std::vector<std::string> strings(const Words& words) {
  std::vector<std::string> all;
  for (const auto& word : words) all.emplace_back(word);
  return all;
}

const std::vector<OptionValues>& option_values() {
  static const std::vector<OptionValues> values = [] {
    std::vector<std::string> devices;
    const DeviceCatalogue catalogue;
    for (const Device& device : catalogue.devices()) {
      devices.push_back(device.name);
      std::replace(devices.back().begin(), devices.back().end(), ' ', '-');  // names agree by letters and digits
    }
    std::vector<std::string> precisions;
    for (const std::string_view name : enumerator_names<Precision::default_>) {
      precisions.emplace_back(name == "default_" ? "default" : name);
    }
    return std::vector<OptionValues>{{"--network", strings(zoo_networks())},
                                     {"--device", std::move(devices)},
                                     {"--precision", std::move(precisions)},
                                     {"--optimizer", strings(enumerator_names<Optimizer::momentum>)},
                                     {"--layout", strings(enumerator_names<Layout::nhwc>)},
                                     {"--attention", strings(enumerator_names<Attention::eager>)}};
  }();
  return values;
}

std::string replaced(std::string_view text, std::string_view letters, std::string_view before) {
  std::string result;
  for (const char c : text) {
    if (letters.find(c) != std::string_view::npos) result += before;
    result += c;
  }
  return result;
}

/// In single quotes for bash and zsh.
std::string in_quotes(std::string_view text) {
  std::string result = "'";
  for (const char c : text) result += c == '\'' ? "'\\''" : std::string(1, c);
  return result + "'";
}

/// The name to propose: `--device-file` of one that also goes by --devices.
std::string_view proposed_name(const CommandOption& option) {
  const auto is_long = [](const std::string& name) { return name.starts_with("--"); };
  const auto found = std::find_if(option.names.begin(), option.names.end(), is_long);
  return found != option.names.end() ? *found : option.names.front();
}

/// `aggregate` of perfpred-aggregate.
std::string_view command_of(const CommandHelp& program) {
  return std::string_view(program.name).substr(program.name.find('-') + 1);
}

/// A command's names, joined by this: `train` also goes by `fit`.
std::string names_of(const CommandHelp& program, std::string_view between) {
  const std::string_view command = command_of(program);
  return command == "train" ? fmt::format("train{}fit", between) : std::string(command);
}

/// Of all programs.
std::string command_words(std::span<const CommandHelp> programs) {
  std::string words;
  for (const CommandHelp& program : programs) words += (words.empty() ? "" : " ") + names_of(program, " ");
  return words;
}

constexpr std::array<std::string_view, 3> own_commands = {"help", "completion", "man"};
constexpr std::array<std::string_view, 3> shells = {"bash", "fish", "zsh"};

std::string bash_script(std::span<const CommandHelp> programs) {
  const std::string words = command_words(programs);
  std::string text = fmt::format(
      "# Completes perfpred and its programs in bash. Made by: perfpred completion bash\n"
      "_perfpred() {{\n"
      "  local current=${{COMP_WORDS[COMP_CWORD]}} before=${{COMP_WORDS[COMP_CWORD - 1]}} "
      "command=${{COMP_WORDS[0]##*/}}"
      " words=\n"
      "  if [[ $command == perfpred ]]; then\n"
      "    if ((COMP_CWORD == 1)); then\n"
      "      COMPREPLY=($(compgen -W '{0} {1} --help --version' -- \"$current\"))\n"
      "      return\n"
      "    fi\n"
      "    command=${{COMP_WORDS[1]}}\n"
      "  fi\n"
      "  case $before in\n",
      words, fmt::join(own_commands, " "));
  for (const OptionValues& values : option_values()) {
    text +=
        fmt::format("    {}) words={} ;;\n", values.option, in_quotes(fmt::format("{}", fmt::join(values.words, " "))));
  }
  text +=
      "  esac\n"
      "  if [[ -z $words && $before == --* && $current != -* ]]; then return; fi  # a file\n"
      "  if [[ -z $words ]]; then case ${command#perfpred-} in\n";
  for (const CommandHelp& program : programs) {
    std::vector<std::string_view> options;
    for (const CommandOption& option : program.options) {
      if (!option.names.empty()) options.push_back(proposed_name(option));
    }
    text += fmt::format("    {}) words={} ;;\n", names_of(program, " | "),
                        in_quotes(fmt::format("{}", fmt::join(options, " "))));
  }
  text += fmt::format(
      "    help | man) words='{}' ;;\n"
      "    completion) words='{}' ;;\n"
      "  esac; fi\n"
      "  COMPREPLY=($(compgen -W \"$words\" -- \"$current\"))\n"
      "}}\n"
      "complete -o default -F _perfpred perfpred",
      words, fmt::join(shells, " "));
  for (const CommandHelp& program : programs) text += " " + program.name;
  return text + "\n";
}

/// `'*--runs[Runs to aggregate]:runs.csv:_files'`
std::string zsh_spec(const CommandOption& option) {
  const auto escaped = [](std::string_view part) { return replaced(part, "[]:\\", "\\"); };
  if (option.names.empty()) return in_quotes(fmt::format("*:{}:_files", escaped(option.help)));
  const std::string_view name = proposed_name(option);
  std::string action = option.value.empty() ? "" : fmt::format(":{}:_files", escaped(option.value));
  for (const OptionValues& values : option_values()) {
    if (values.option != name || option.value.empty()) continue;
    action = fmt::format(":{}:({})", escaped(option.value), fmt::join(values.words, " "));
  }
  return in_quotes(fmt::format("*{}[{}]{}", name, escaped(option.help), action));
}

std::string zsh_script(std::span<const CommandHelp> programs) {
  std::string text = "#compdef perfpred";
  for (const CommandHelp& program : programs) text += " " + program.name;
  text +=
      "\n# Completes perfpred and its programs in zsh. Made by: perfpred completion zsh\n"
      "_perfpred() {\n"
      "  local command=${service#perfpred-}\n"
      "  if [[ $service == perfpred ]]; then\n"
      "    if ((CURRENT == 2)); then\n"
      "      local -a all=(\n";
  for (const CommandHelp& program : programs) {
    text += fmt::format("        {}\n", in_quotes(fmt::format("{}:{}", command_of(program), program.does)));
  }
  text += fmt::format(
      "        'fit:train' {}\n"
      "      )\n"
      "      _describe command all\n"
      "      return\n"
      "    fi\n"
      "    command=$words[2]\n"
      "    shift words\n"
      "    ((CURRENT--))\n"
      "  fi\n"
      "  case $command in\n"
      "    help | man) _arguments '*:command:({})' ;;\n"
      "    completion) _arguments '*:shell:({})' ;;\n",
      fmt::join(own_commands, " "), command_words(programs), fmt::join(shells, " "));
  for (const CommandHelp& program : programs) {
    text += fmt::format("    {}) _arguments", names_of(program, " | "));
    for (const CommandOption& option : program.options) text += " \\\n      " + zsh_spec(option);
    text += " ;;\n";
  }
  return text + "  esac\n}\n_perfpred \"$@\"\n";
}

std::string fish_script(std::span<const CommandHelp> programs) {
  const auto text_of = [](std::string_view text) { return "'" + replaced(text, "'\\", "\\") + "'"; };
  const std::string words = command_words(programs);
  std::string text = "# Completes perfpred in fish. Made by: perfpred completion fish\n";
  const std::string first = fmt::format("__fish_is_first_token");
  const auto variable = [](std::string_view option) { return "__perfpred_" + std::string(option.substr(2)); };
  for (const OptionValues& values : option_values()) {
    text += fmt::format("set -g {} {}\n", variable(values.option), fmt::join(values.words, " "));
  }
  for (const CommandHelp& program : programs) {
    text +=
        fmt::format("complete -c perfpred -f -n {} -a {} -d {}\n", first, command_of(program), text_of(program.does));
  }
  text += fmt::format("complete -c perfpred -f -n {} -a 'fit {}'\n", first, fmt::join(own_commands, " "));
  text += fmt::format("complete -c perfpred -f -n '__fish_seen_subcommand_from help man' -a '{}'\n", words);
  text += fmt::format("complete -c perfpred -f -n '__fish_seen_subcommand_from completion' -a '{}'\n",
                      fmt::join(shells, " "));
  for (const CommandHelp& program : programs) {
    for (const CommandOption& option : program.options) {
      if (option.names.empty() || !proposed_name(option).starts_with("--")) continue;
      const std::string_view name = proposed_name(option);
      std::string value = option.value.empty() ? "" : " -r";
      for (const OptionValues& values : option_values()) {
        if (values.option == name && !option.value.empty()) value = fmt::format(" -x -a '${}'", variable(name));
      }
      text += fmt::format("complete -c perfpred -n '__fish_seen_subcommand_from {}' -l {}{} -d {}\n",
                          names_of(program, " "), name.substr(2), value, text_of(option.help));
    }
  }
  return text;
}

/// A text of a manual page: hyphens that may be copied, no line taken as a request.
std::string roff(std::string_view text) {
  std::string result;
  for (const char c : text) result += c == '\\' ? "\\e" : c == '-' ? "\\-" : std::string(1, c);
  return result.starts_with('.') || result.starts_with('\'') ? "\\&" + result : result;
}

std::string title(std::string_view name, std::string_view version, std::string_view does) {
  return fmt::format(".TH {0} 1 \"\" \"perfpred {1}\"\n.SH NAME\n{0} \\- {2}\n", roff(name), roff(version), roff(does));
}

std::string also(std::string_view page) { return fmt::format(".SH SEE ALSO\n.BR {} (1)\n", roff(page)); }

constexpr std::string_view exit_status =
    ".SH EXIT STATUS\n0: done. 1: failed at run time. 2: wrong input; one line on standard error says what is wrong.\n";

std::vector<std::string> words_of(const nlohmann::json& list) { return list.get<std::vector<std::string>>(); }

}  // namespace

CommandHelp parse_command_help(std::string_view text) {
  try {
    const auto json = parse_json<nlohmann::json>(text);
    CommandHelp help{json.at("name"), json.at("does"), json.at("example"), json.at("version"), {}};
    for (const auto& option : json.at("options")) {
      help.options.push_back({words_of(option.at("names")), option.at("value"), option.at("help")});
    }
    return help;
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("not the help of a program: {}", json_complaint(error)));
  }
}

std::string completion_script(std::string_view shell, std::span<const CommandHelp> programs) {
  if (shell == "bash") return bash_script(programs);
  if (shell == "zsh") return zsh_script(programs);
  if (shell == "fish") return fish_script(programs);
  throw_bad_value({{}, 0, "shell"}, shell, fmt::format("one of {}", fmt::join(shells, ", ")));
}

std::string manual_page(const CommandHelp& program) {
  std::string text = title(program.name, program.version, program.does);
  text += fmt::format(".SH SYNOPSIS\n.B {}\n[OPTIONS]", roff(program.name));
  for (const CommandOption& option : program.options) {
    if (option.names.empty()) text += " " + roff(option.value);
  }
  text += fmt::format("\n.SH DESCRIPTION\n{}\n.SH OPTIONS\n", roff(program.does));
  for (const CommandOption& option : program.options) {
    text += ".TP\n";
    if (!option.names.empty())
      text += fmt::format("\\fB{}\\fR ", roff(fmt::format("{}", fmt::join(option.names, ", "))));
    text += fmt::format("\\fI{}\\fR\n{}\n", roff(option.value), roff(option.help));
  }
  text += fmt::format(".SH EXAMPLE\n.EX\n{}\n.EE\n{}", roff(program.example), exit_status);
  return text + also("perfpred");
}

std::string manual_page_of_all(std::string_view version) {
  std::string text = title("perfpred", version, "predicts time and memory of a training run before its launch");
  text += ".SH SYNOPSIS\n.B perfpred\nCOMMAND [OPTIONS]\n.SH DESCRIPTION\n";
  text +=
      roff("perfpred COMMAND ... runs perfpred-COMMAND ..., whose manual page lists its options.") + "\n.SH COMMANDS\n";
  for (const Command& command : commands()) {
    text += fmt::format(".TP\n\\fB{}\\fR\n{}\n", roff(command.name), roff(command.does));
  }
  return text + std::string(exit_status) + also("perfpred-predict");
}

}  // namespace perfpred
