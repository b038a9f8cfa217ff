// SPDX-License-Identifier: Apache-2.0
#include "tools/run_command.h"

#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/version.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "text/files.h"
#include "text/sbatch.h"
#include "tools/command_pages.h"
#include "tools/commands.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;

std::string name_of(const Command& command) { return fmt::format("perfpred-{}", command.name); }

fs::path beside_this(std::string_view program) { return fs::read_symlink("/proc/self/exe").parent_path() / program; }

/// @throws InputError if this build lacks the program
fs::path built(const Command& command) {
  fs::path path = beside_this(name_of(command));
  if (fs::exists(path)) return path;
  if (!command.needs_torch)
    throw InputError(fmt::format("{} is not there: the whole build has it (docs/start.md)", path.string()));
  throw InputError(
      fmt::format("{} needs LibTorch, and this build has none: scripts/setup.sh, then the CMake preset release "
                  "(docs/start.md)",
                  command.name));
}

/// Runs the command here, or becomes the program. @throws InputError if this build lacks it, Error if it can't be
/// executed
int run(const Command& command, std::vector<std::string> arguments, const OwnCommands& own) {
  arguments.insert(arguments.begin(), name_of(command));
  std::vector<char*> pointers;
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  if (const auto found = own.find(command.name); found != own.end())
    return found->second(static_cast<int>(arguments.size()), pointers.data());
  const fs::path path = built(command);
  become(name_of(command), pointers.data());
  throw Error(fmt::format("{} is a link to another program", path.string()));
}

/// @throws InputError if this build lacks it
CommandHelp help_of(const Command& command, const OwnCommands& own) {
  const bool is_own = own.contains(command.name);  // where no link perfpred-NAME lies beside this, too
  const std::string path = is_own ? fs::read_symlink("/proc/self/exe").string() : built(command).string();
  const std::string line = fmt::format("{} {} --help-json", shell_word(path), is_own ? command.name : "");
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(line.c_str(), "r"), ::pclose);
  if (!pipe) throw Error(fmt::format("{}: {}", path, std::strerror(errno)));
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) text += static_cast<char>(c);
  return parse_command_help(text);
}

std::vector<CommandHelp> built_programs(const OwnCommands& own) {
  std::vector<CommandHelp> programs;
  for (const Command& command : commands()) {
    if (own.contains(command.name) || fs::exists(beside_this(name_of(command))))
      programs.push_back(help_of(command, own));
  }
  return programs;
}

/// The executable that a program is a link to, else the program.
std::string executable_of(const std::string& program) {
  const fs::path path = beside_this(program);
  return fs::is_symlink(path) ? fs::read_symlink(path).filename().string() : program;
}

/// What an installation has in share/: for the build.
void write_pages(const std::string& share, const OwnCommands& own) {
  const std::vector<CommandHelp> programs = built_programs(own);
  const auto write = [&share](const std::string& folder, const std::string& name, const std::string& text) {
    make_folder(share + folder);
    write_file(share + folder + name, text);
  };
  const std::string bash = "/bash-completion/completions/";
  write("/zsh/site-functions/", "_perfpred", completion_script("zsh", programs));
  write("/fish/vendor_completions.d/", "perfpred.fish", completion_script("fish", programs));
  write(bash, "perfpred", completion_script("bash", programs));
  for (const CommandHelp& program : programs) {
    fs::create_symlink("perfpred", share + bash + program.name);  // bash looks for a file of the program's name
    write("/man/man1/", program.name + ".1", manual_page(program));
    const std::string executable = executable_of(program.name);  // one of several commands has the page of the last
    if (executable != program.name)
      write("/man/man1/", executable + ".1", fmt::format(".so man1/{}.1\n", program.name));
  }
  write("/man/man1/", "perfpred.1", manual_page_of_all(PERFPRED_VERSION));
}

int say(std::string_view text) {
  fmt::print("{}", text);
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw Error("standard output cannot be written");
  return 0;
}

int answer(const std::vector<std::string>& words, const OwnCommands& own) {
  const std::string first = words.empty() ? "--help" : words.front();
  if (first == "--help" || first == "-h" || first == "help") {
    if (words.size() > 1) return run(command_named(words[1]), {"--help"}, own);
    return say(first == "help" ? command_list() : command_overview());
  }
  if (first == "--version") return say(fmt::format("perfpred {}\n", PERFPRED_VERSION));
  if (first == "completion") {
    if (words.size() != 2) throw InputError("completion takes a shell: bash, fish or zsh");
    return say(completion_script(words[1], built_programs(own)));
  }
  if (first == "pages") {
    if (words.size() != 2) throw InputError("pages takes a folder");
    write_pages(words[1], own);
    return 0;
  }
  if (first == "man") {
    return say(words.size() < 2 ? manual_page_of_all(PERFPRED_VERSION)
                                : manual_page(help_of(command_named(words[1]), own)));
  }
  return run(command_named(first), {words.begin() + 1, words.end()}, own);
}

int complain(const std::exception& error, int code) {
  fmt::print(stderr, "perfpred: {}\n", error.what());
  return code;
}

}  // namespace

void become(std::string_view program, char** argv) {
  const fs::path path = beside_this(program);
  if (!fs::exists(path) || fs::equivalent(path, "/proc/self/exe")) return;
  ::execv(path.c_str(), argv);
  throw Error(fmt::format("{}: {}", path.string(), std::strerror(errno)));
}

int run_command(int argc, char** argv, const OwnCommands& own) {
  try {
    const std::string name = fs::path(argc > 0 ? argv[0] : "").filename();
    const std::vector<std::string> words(argv + std::min(argc, 1), argv + argc);
    for (const Command& command : commands()) {
      if (name == name_of(command)) return run(command, words, own);
    }
    return answer(words, own);
  } catch (const InputError& error) {
    return complain(error, 2);
  } catch (const std::exception& error) {
    return complain(error, 1);
  }
}

}  // namespace perfpred
