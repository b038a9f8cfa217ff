// SPDX-License-Identifier: Apache-2.0
// perfpred: one name for all programs. perfpred COMMAND ... becomes perfpred-COMMAND ..., in the same process.
#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/version.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <exception>
#include <filesystem>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "text/files.h"
#include "tools/command_pages.h"
#include "tools/commands.h"

namespace {

using namespace perfpred;
namespace fs = std::filesystem;

fs::path path_of(const Command& command) {
  return fs::read_symlink("/proc/self/exe").parent_path() / fmt::format("perfpred-{}", command.name);
}

/// @throws InputError if this build lacks the program
fs::path built(const Command& command) {
  fs::path path = path_of(command);
  if (fs::exists(path)) return path;
  if (!command.needs_torch) throw InputError(fmt::format("{} is not there", path.string()));
  throw InputError(
      fmt::format("{} needs LibTorch, and this build has none: scripts/setup.sh, then the CMake preset release "
                  "(docs/start.md)",
                  command.name));
}

/// Becomes the program. @throws InputError if this build lacks it, Error if it can't be executed
[[noreturn]] void become(const Command& command, std::vector<std::string> arguments) {
  std::string path = built(command).string();
  std::vector<char*> pointers = {path.data()};
  for (std::string& argument : arguments) pointers.push_back(argument.data());
  pointers.push_back(nullptr);
  ::execv(path.c_str(), pointers.data());
  throw Error(fmt::format("{}: {}", path, std::strerror(errno)));
}

CommandHelp help_of(const Command& command) {
  const std::string path = built(command).string();
  std::string quoted = "'";
  for (const char c : path) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen((quoted + "' --help-json").c_str(), "r"), ::pclose);
  if (!pipe) throw Error(fmt::format("{}: {}", path, std::strerror(errno)));
  std::string text;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) text += static_cast<char>(c);
  return parse_command_help(text);
}

std::vector<CommandHelp> built_programs() {
  std::vector<CommandHelp> programs;
  for (const Command& command : commands()) {
    if (fs::exists(path_of(command))) programs.push_back(help_of(command));
  }
  return programs;
}

/// What an installation has in share/: for the build.
void write_pages(const std::string& share) {
  const std::vector<CommandHelp> programs = built_programs();
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
  }
  write("/man/man1/", "perfpred.1", manual_page_of_all(PERFPRED_VERSION));
}

void answer(const std::vector<std::string>& words) {
  const std::string& first = words.front();
  if (first == "--help" || first == "-h" || first == "help") {
    if (words.size() > 1) become(command_named(words[1]), {"--help"});
    fmt::print("{}", first == "help" ? command_list() : command_overview());
  } else if (first == "--version") {
    fmt::print("perfpred {}\n", PERFPRED_VERSION);
  } else if (first == "completion") {
    if (words.size() != 2) throw InputError("completion takes a shell: bash, fish or zsh");
    fmt::print("{}", completion_script(words[1], built_programs()));
  } else if (first == "pages") {
    if (words.size() != 2) throw InputError("pages takes a folder");
    write_pages(words[1]);
  } else if (first == "man") {
    fmt::print("{}",
               words.size() < 2 ? manual_page_of_all(PERFPRED_VERSION) : manual_page(help_of(command_named(words[1]))));
  } else {
    become(command_named(first), {words.begin() + 1, words.end()});
  }
}

int complain(const std::exception& error, int code) {
  fmt::print(stderr, "perfpred: {}\n", error.what());
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    if (argc < 2) {
      fmt::print("{}", command_overview());
    } else {
      answer({argv + 1, argv + argc});
    }
    if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) throw Error("standard output cannot be written");
    return 0;
  } catch (const InputError& error) {
    return complain(error, 2);
  } catch (const std::exception& error) {
    return complain(error, 1);
  }
}
