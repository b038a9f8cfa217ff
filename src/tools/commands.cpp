// SPDX-License-Identifier: Apache-2.0
#include "tools/commands.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <array>
#include <vector>

#include "text/nearest_name.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::array<Command, 22> command_table = {{
    {"predict", "ask", "Predicts time, throughput, memory and price of a training job, and what limits it."},
    {"explain", "ask", "Puts measured steps beside the expected ones, and says why they differ."},
    {"layouts", "ask", "Ranks the ways to spread a transformer's training over several devices."},
    {"plan", "ask", "Chooses the runs that a time budget is best spent on."},
    {"inspect", "ask", "Counts operators, FLOPs, bytes and memory of a training step of a network."},
    {"trace", "ask",
     "Counts operators, FLOPs, bytes and memory of a training step of a C++ module, without executing it.", true},
    {"serve", "ask", "Answers the same over HTTP, and shows a page on which people ask."},
    {"networks", "ask", "Lists the networks that are known by name."},
    {"devices", "ask", "Shows the device catalogue, or one device of it."},
    {"collect", "measure", "Measures training runs on this machine and records them.", true},
    {"probe", "measure", "Measures this device for some seconds, and writes an op model that knows it.", true},
    {"bench-layers", "measure", "Times layers alone: forward, backward and update.", true},
    {"train-net", "measure", "Trains a network on images.", true},
    {"sysinfo", "measure", "Describes this machine.", true},
    {"aggregate", "learn", "Turns measured runs into one row per workload."},
    {"train", "learn", "Fits a regressor of epoch times on measured rows."},
    {"evaluate", "learn", "Judges a model on measured rows, or a kind of model by leaving rows out."},
    {"observe", "learn", "Corrects a model by finished runs."},
    {"slurm-report", "learn", "Compares forecasts of a Slurm cluster's jobs with what the jobs took."},
    {"plot", "look", "Draws measurements, predictions and plans, through gnuplot, and writes a report of them."},
    {"roofline", "look", "Places measured training steps under the rooflines of their devices."},
    {"ncu", "look", "Sums up a CSV export of Nsight Compute: FLOPs, bytes, time, rates, NVTX ranges."},
}};

struct OtherName {
  std::string_view name, command;
};
constexpr std::array<OtherName, 1> other_names = {{{"fit", "train"}}};

/// `train (fit)`
std::string with_other_names(const Command& command) {
  std::string text(command.name);
  for (const OtherName& other : other_names) {
    if (other.command == command.name) text += fmt::format(" ({})", other.name);
  }
  return text;
}

}  // namespace

std::span<const Command> commands() { return command_table; }

const Command& command_named(std::string_view name) {
  const auto other = std::find_if(other_names.begin(), other_names.end(),
                                  [name](const OtherName& known) { return known.name == name; });
  const std::string_view wanted = other == other_names.end() ? name : other->command;
  const auto found = std::find_if(command_table.begin(), command_table.end(),
                                  [wanted](const Command& command) { return command.name == wanted; });
  if (found != command_table.end()) return *found;
  if (name == "capture") throw InputError("capture is of the Python package: python -m perfpred.capture train.py");
  if (name == "measure") {
    throw InputError("measure is of the Python package: perfpred.measure(\"runs.csv\", ...) around a training loop");
  }
  NearestName nearest{std::string(name)};
  for (const Command& command : command_table) nearest.offer(command.name, command.name);
  for (const OtherName& known : other_names) nearest.offer(known.name, known.name);
  throw InputError(nearest.found() ? fmt::format("no command \"{}\"; did you mean {}?", shown(name), *nearest.found())
                                   : fmt::format("no command \"{}\"; perfpred help lists them", shown(name)));
}

std::string command_overview() {
  std::string text =
      "perfpred predicts a training run before its launch: time, throughput, memory, and how sure that is.\n";
  std::string_view stage;
  for (const Command& command : command_table) {
    if (command.stage != stage) text += fmt::format("{}  {:8}", stage.empty() ? "" : "\n", command.stage);
    stage = command.stage;
    text += "  " + with_other_names(command);
  }
  return text +
         "\nExamples:\n"
         "  perfpred predict --network resnet50 --batch-size 64 --device A100-80GB-PCIe --precision fp16\n"
         "  perfpred train --runs-agg runs_agg.csv --out model.json\n"
         "  perfpred plan --runs-agg runs_agg.csv --budget-sec 3600 --epochs 50\n"
         "perfpred help lists the commands, perfpred help COMMAND its options.\n";
}

std::string command_list() {
  std::string text = "perfpred COMMAND ... runs perfpred-COMMAND ...\n";
  for (const Command& command : command_table)
    text += fmt::format("  {:14}{}\n", with_other_names(command), command.does);
  return text +
         "  help          Lists the commands, or shows the options of one: perfpred help COMMAND.\n"
         "  completion    Prints what completes command lines in a shell: perfpred completion bash|fish|zsh.\n"
         "  man           Prints the manual page of a command, for man -l: perfpred man COMMAND.\n";
}

}  // namespace perfpred
