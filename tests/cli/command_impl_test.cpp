// SPDX-License-Identifier: Apache-2.0
// `perfpred` as a user runs it: one name for all programs.
#include <perfpred/device.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <regex>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "spawn.h"
#include "tools/command_pages.h"
#include "tools/commands.h"

namespace perfpred {
namespace {

using testing::Finished;
using ::testing::HasSubstr;
using testing::program;
using testing::spawn;
using ::testing::StartsWith;
using testing::TemporaryFolder;

const std::string perfpred_program = PERFPRED_BIN_DIR "/perfpred";

Finished perfpred(std::vector<std::string> words, const std::string& input = {}) {
  words.insert(words.begin(), perfpred_program);
  return spawn(words, input);
}

/// What a POSIX shell says to one line.
Finished shell(const std::string& line) { return spawn({"/bin/sh", "-c", line}); }

bool is_installed(const std::string& name) { return shell("command -v " + name).exit_code == 0; }

std::vector<std::string> built_commands() {
  std::vector<std::string> names;
  for (const auto& entry : std::filesystem::directory_iterator(PERFPRED_BIN_DIR)) {
    const std::string name = entry.path().filename().string();
    const bool has_several = name == "perfpred-learn" || name == "perfpred-torch";
    if (!has_several && name.starts_with("perfpred-")) names.push_back(name.substr(9));
  }
  return names;
}

TEST(Command, AloneSaysInTenLinesWhatItCanDoWithThreeExamples) {
  const Finished alone = perfpred({});
  EXPECT_EQ(alone.exit_code, 0);
  EXPECT_EQ(std::count(alone.out.begin(), alone.out.end(), '\n'), 10) << alone.out;
  std::size_t examples = 0;
  for (std::size_t at = alone.out.find("\n  perfpred "); at != std::string::npos;
       at = alone.out.find("\n  perfpred ", at + 1)) {
    ++examples;
  }
  EXPECT_EQ(examples, 3U) << alone.out;
  for (const Command& command : commands()) EXPECT_THAT(alone.out, HasSubstr(std::string(command.name)));
  EXPECT_EQ(perfpred({"--help"}).out, alone.out);
}

TEST(Command, EveryProgramIsInTheTableWithTheFirstLineOfItsHelp) {
  const std::string list = perfpred({"help"}).out;
  for (const Command& command : commands()) {
    EXPECT_TRUE(command.needs_torch || !program(std::string(command.name)).empty()) << command.name;
  }
  for (const std::string& name : built_commands()) {
    const auto found = std::find_if(commands().begin(), commands().end(),
                                    [&name](const Command& command) { return command.name == name; });
    ASSERT_NE(found, commands().end()) << name;
    EXPECT_THAT(spawn({program(name), "--help"}).out, StartsWith(std::string(found->does) + "\n"));
    EXPECT_THAT(list, HasSubstr(std::string(found->does)));
  }
}

TEST(Command, IsTheProgramOfThatName) {
  const std::vector<std::string> question = {"--network", "resnet18", "--batch-size", "32", "--device", "T4"};
  std::vector<std::string> by_name = question, by_command = question;
  by_name.insert(by_name.begin(), program("predict"));
  by_command.insert(by_command.begin(), "predict");
  const Finished one = spawn(by_name), other = perfpred(by_command);
  EXPECT_EQ(other.exit_code, 0) << other.err;
  EXPECT_EQ(other.out, one.out);
  EXPECT_EQ(perfpred({"fit", "--version"}).out, spawn({program("train"), "--version"}).out);
  EXPECT_EQ(perfpred({"help", "plan"}).out, spawn({program("plan"), "--help"}).out);
}

TEST(Command, PassesInputsExitCodesAndSignalsOn) {
  const Finished refused = perfpred({"predict", "--network", "resnet51"});
  EXPECT_EQ(refused.exit_code, 2);
  EXPECT_THAT(refused.err, StartsWith("perfpred-predict: "));
  const Finished answered = perfpred({"predict", "--jsonl"}, R"({"network":"resnet18","batch_size":8,"device":"T4"})");
  EXPECT_THAT(answered.out, HasSubstr("\"step_sec\""));
  const TemporaryFolder folder;  // a file that may not grow ends its writer by SIGXFSZ
  const Finished ended =
      shell("ulimit -c 0; ulimit -f 0; exec " + perfpred_program + " devices > " + folder.file("out"));
  EXPECT_EQ(ended.exit_code, 128 + SIGXFSZ) << ended.err;
}

TEST(Command, NamesTheNearestOfAnUnknownOne) {
  for (const auto& [typed, message] : std::vector<std::pair<std::string, std::string>>{
           {"predct", "perfpred: no command \"predct\"; did you mean predict?\n"},
           {"fti", "perfpred: no command \"fti\"; did you mean fit?\n"},
           {"capture", "perfpred: capture is of the Python package: python -m perfpred.capture train.py\n"},
           {"measure",
            "perfpred: measure is of the Python package: perfpred.measure(\"runs.csv\", ...) around a training loop\n"},
           {"../sh", "perfpred: no command \"../sh\"; perfpred help lists them\n"},
           {"", "perfpred: no command \"\"; perfpred help lists them\n"}}) {
    const Finished finished = perfpred({typed});
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_EQ(finished.out, "");
    EXPECT_EQ(finished.err, message);
  }
  EXPECT_EQ(perfpred({"help", "nothing"}).exit_code, 2);
}

TEST(Command, SaysHowACommandOfLibTorchIsBuilt) {
  if (!program("collect").empty()) GTEST_SKIP() << "built with LibTorch";
  const Finished finished = perfpred({"collect"});
  EXPECT_EQ(finished.exit_code, 2);
  EXPECT_THAT(finished.err, StartsWith("perfpred: collect needs LibTorch"));
  EXPECT_THAT(finished.err, HasSubstr("scripts/setup.sh"));
  EXPECT_EQ(std::count(finished.err.begin(), finished.err.end(), '\n'), 1);
}

TEST(Command, HasAVersionAndFailsWhereStandardOutputDoes) {
  EXPECT_THAT(perfpred({"--version"}).out, StartsWith("perfpred "));
  const Finished full = spawn({perfpred_program}, {}, "/dev/full");
  EXPECT_EQ(full.exit_code, 1);
  EXPECT_EQ(full.err, "perfpred: standard output cannot be written\n");
}

/// What bash proposes for the last of these words.
std::vector<std::string> bash_proposes(const std::string& script, const std::string& words, int count) {
  const Finished finished =
      spawn({"/bin/bash", "-c",
             "source " + script + "; COMP_WORDS=(" + words + "); COMP_CWORD=" + std::to_string(count - 1) +
                 "; _perfpred; printf '%s\\n' \"${COMPREPLY[@]}\""});
  EXPECT_EQ(finished.err, "");
  std::vector<std::string> proposed;
  for (std::size_t at = 0, end = 0; (end = finished.out.find('\n', at)) != std::string::npos; at = end + 1) {
    if (end > at) proposed.push_back(finished.out.substr(at, end - at));
  }
  return proposed;
}

TEST(Completion, OfBashProposesCommandsOptionsAndNames) {
  if (!std::filesystem::exists("/bin/bash")) GTEST_SKIP() << "no bash";
  const TemporaryFolder folder;
  const std::string script = folder.write("perfpred", perfpred({"completion", "bash"}).out);
  EXPECT_THAT(bash_proposes(script, "perfpred pl", 2), ::testing::ElementsAre("plan", "plot"));
  EXPECT_THAT(bash_proposes(script, "perfpred aggregate --rej", 3), ::testing::ElementsAre("--rejected"));
  EXPECT_THAT(bash_proposes(script, "perfpred-aggregate --rej", 2), ::testing::ElementsAre("--rejected"));
  EXPECT_THAT(bash_proposes(script, "perfpred predict --network resnet1", 4),
              ::testing::ElementsAre("resnet101", "resnet152", "resnet18"));
  EXPECT_THAT(bash_proposes(script, "perfpred predict --precision b", 4), ::testing::ElementsAre("bf16"));
  EXPECT_THAT(bash_proposes(script, "perfpred fit --runs-agg ''", 4), ::testing::IsEmpty());  // a file
  EXPECT_THAT(bash_proposes(script, "perfpred help ev", 3), ::testing::ElementsAre("evaluate"));
  const DeviceCatalogue catalogue;
  for (const std::string& device : bash_proposes(script, "perfpred predict --device ''", 4)) {
    EXPECT_NO_THROW((void)catalogue.resolve(device).known()) << device;
  }
}

TEST(Completion, OfOtherShellsIsWellFormed) {
  const TemporaryFolder folder;
  for (const std::string name : {"zsh", "fish"}) {
    const Finished script = perfpred({"completion", name});
    EXPECT_EQ(script.exit_code, 0) << script.err;
    EXPECT_THAT(script.out, HasSubstr("budget-sec"));
    if (is_installed(name)) {
      const Finished read = shell(name + " -n " + folder.write(name, script.out));
      EXPECT_EQ(read.exit_code, 0) << read.err;
    }
  }
  EXPECT_EQ(perfpred({"completion", "csh"}).exit_code, 2);
  EXPECT_EQ(perfpred({"completion"}).exit_code, 2);
}

TEST(ManualPage, HasEveryOptionAndNoMistakeOfRoff) {
  const TemporaryFolder folder;
  for (const std::string& name : built_commands()) {
    const std::string json = spawn({program(name), "--help-json"}).out;
    const std::string page = perfpred({"man", name}).out, help = spawn({program(name), "--help"}).out;
    const CommandHelp known = parse_command_help(json);
    EXPECT_GT(known.options.size(), 2U);
    for (const CommandOption& option : known.options) {
      if (option.names.empty()) continue;
      EXPECT_THAT(help, HasSubstr(option.names.back())) << name;
      std::string escaped;
      for (const char c : option.names.back()) escaped += c == '-' ? "\\-" : std::string(1, c);
      EXPECT_THAT(page, HasSubstr(escaped)) << name;
    }
    if (!is_installed("groff")) continue;
    const Finished set = shell("groff -man -ww -Tascii -z " + folder.write(name, page));
    EXPECT_EQ(set.err, "") << name;
  }
  EXPECT_THAT(perfpred({"man"}).out, HasSubstr("bench\\-layers"));
}

TEST(Pages, OfAnInstallationLieWhereShellsAndManLook) {
  const TemporaryFolder share;
  const Finished written = perfpred({"pages", share.path()});
  EXPECT_EQ(written.exit_code, 0) << written.err;
  EXPECT_EQ(testing::slurp(share.file("zsh/site-functions/_perfpred")), perfpred({"completion", "zsh"}).out);
  EXPECT_EQ(testing::slurp(share.file("fish/vendor_completions.d/perfpred.fish")),
            perfpred({"completion", "fish"}).out);
  EXPECT_EQ(testing::slurp(share.file("man/man1/perfpred.1")), perfpred({"man"}).out);
  const std::string bash = perfpred({"completion", "bash"}).out;
  for (const std::string& name : built_commands()) {
    EXPECT_EQ(testing::slurp(share.file("bash-completion/completions/perfpred-" + name)), bash) << name;
    EXPECT_EQ(testing::slurp(share.file("man/man1/perfpred-" + name + ".1")), perfpred({"man", name}).out);
  }
  EXPECT_THAT(testing::slurp(share.file("man/man1/perfpred-learn.1")), StartsWith(".so man1/perfpred-"));
}

/// What --help lists: the long options, and those that have only a short name.
std::vector<std::string> options_of_help(const std::string& help) {
  std::vector<std::string> options;
  std::istringstream lines(help);
  for (std::string line; std::getline(lines, line);) {
    const std::regex start(R"(^  (-[A-Za-z],?)?(--[a-z0-9-]+)?)");
    std::smatch found;
    if (!std::regex_search(line, found, start) || found.length() <= 2) continue;
    options.push_back(found[2].matched ? found[2].str() : found[1].str());
  }
  return options;
}

/// The words of a completion script of zsh that _arguments gets for a program.
std::string zsh_specs(const std::string& script, const std::string& name) {
  const std::size_t begin = script.find("\n    " + name + ") _arguments");
  if (begin == std::string::npos) return {};
  return script.substr(begin, script.find(";;", begin) - begin);
}

/// What fish proposes for the last word of a command line, without descriptions.
std::vector<std::string> fish_proposes(const std::string& script, const std::string& line) {
  const Finished finished = shell("fish --no-config -c 'source " + script + "; complete -C \"" + line + "\"'");
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  std::vector<std::string> proposed;
  std::istringstream lines(finished.out);
  for (std::string word; std::getline(lines, word);) proposed.push_back(word.substr(0, word.find('\t')));
  return proposed;
}

TEST(Completion, HasTheOptionsThatHelpListsAndNoOther) {
  const TemporaryFolder folder;
  const std::string bash = folder.write("perfpred", perfpred({"completion", "bash"}).out);
  const std::string zsh = perfpred({"completion", "zsh"}).out;
  const std::string fish = folder.write("perfpred.fish", perfpred({"completion", "fish"}).out);
  for (const std::string& name : built_commands()) {
    const std::vector<std::string> options = options_of_help(spawn({program(name), "--help"}).out);
    ASSERT_GT(options.size(), 1U) << name;
    EXPECT_THAT(bash_proposes(bash, "perfpred " + name + " -", 3), ::testing::UnorderedElementsAreArray(options));
    const std::string specs = zsh_specs(zsh, name == "train" ? "train | fit" : name);
    for (const std::string& option : options) EXPECT_THAT(specs, HasSubstr("'*" + option + "[")) << name;
    if (is_installed("fish")) {
      EXPECT_THAT(fish_proposes(fish, "perfpred " + name + " --"), ::testing::UnorderedElementsAreArray(options));
    }
  }
  if (is_installed("fish")) {
    EXPECT_THAT(fish_proposes(fish, "perfpred predict --precision b"), ::testing::ElementsAre("bf16"));
  }
}

TEST(Completion, AndManualPagesOfTheProgramAloneAreThoseOfItsOwnCommands) {
  const TemporaryFolder folder;  // as in a wheel, without links
  std::filesystem::copy_file(perfpred_program, folder.file("perfpred"));
  const Finished script = spawn({folder.file("perfpred"), "completion", "bash"});
  EXPECT_EQ(script.exit_code, 0) << script.err;
  const std::string file = folder.write("script", script.out);
  EXPECT_THAT(bash_proposes(file, "perfpred p", 2), ::testing::UnorderedElementsAre("plot", "predict"));
  EXPECT_THAT(bash_proposes(file, "perfpred predict --quantil", 3), ::testing::ElementsAre("--quantile"));
  EXPECT_EQ(spawn({folder.file("perfpred"), "man", "predict"}).out, perfpred({"man", "predict"}).out);
}

TEST(HelpOfAProgram, IsRefusedWhereItIsNone) {
  EXPECT_THAT([] { (void)parse_command_help("{}"); }, ::testing::Throws<std::exception>());
  EXPECT_THAT([] { (void)parse_command_help("no"); }, ::testing::Throws<std::exception>());
}

/// On a terminal, as `script` makes one.
/// @param program_and_options  the last option takes a file, in a folder of its own
void expect_progress(const std::string& program_and_options, const std::string& at_end) {
  const testing::TemporaryFolder folder;
  const std::string command = "cd " + folder.file("") + " && " + program_and_options;
  const Finished on_terminal = shell("NO_COLOR=1 script -qec '" + command + " on_terminal.csv' /dev/null < /dev/null");
  EXPECT_EQ(on_terminal.exit_code, 0) << on_terminal.out;
  EXPECT_THAT(on_terminal.out, HasSubstr(at_end + ": 100 %, 0:00:00 left"));
  const Finished in_pipe = shell(command + " in_pipe.csv 2>&1");
  EXPECT_EQ(in_pipe.exit_code, 0) << in_pipe.out;
  for (const char* shown : {":00 left", "[1/"}) EXPECT_THAT(in_pipe.out, ::testing::Not(HasSubstr(shown)));
  for (const std::string& text : {on_terminal.out, in_pipe.out}) EXPECT_THAT(text, ::testing::Not(HasSubstr("\x1b[")));
}

TEST(Progress, IsShownOnATerminalOnly) {
  if (!is_installed("script")) GTEST_SKIP() << "no script (util-linux)";
  expect_progress(program("evaluate") +
                      " --runs-agg " PERFPRED_SOURCE_DIR
                      "/data/intel_xeon_processor_2_threads/runs_agg.csv --kind linear --protocol kfold --folds 2 "
                      "--repeats 2 --out",
                  "fitting");
  if (!program("bench-layers").empty()) {
    expect_progress(program("bench-layers") + " --device cpu --layer linear --num 2 --iter-benchmark 10 --out",
                    "layers");
  }
}

}  // namespace
}  // namespace perfpred
