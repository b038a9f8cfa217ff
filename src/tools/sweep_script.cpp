// SPDX-License-Identifier: Apache-2.0
#include "tools/sweep_script.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#include <algorithm>
#include <filesystem>

#include "text/sbatch.h"

namespace perfpred {
namespace {

/// `{}` of the head: tasks, configurations, array, limit, command, shards. Slurm tells a task its number, but of a task
/// that is submitted again alone (--array=7) not how many shards the sweep has: that is written out.
constexpr std::string_view array_text = R"(#!/bin/sh
# A sweep of {configurations} configurations for Slurm in {shards} tasks, and a table of all their rows. Submit it from this folder:
#   sh sweep.sh OPTIONS    options of sbatch for each task, as --partition=gpu --gres=gpu:1 --time=2:00:00
# Options for the table, too, come from the environment: SBATCH_PARTITION, SBATCH_ACCOUNT (man sbatch).
# Submit it again to measure what is missing: rows that are there stay.
set -eu
tasks=$(sbatch --parsable --job-name=perfpred-collect --array={array} --requeue --open-mode=append "$@" <<'TASK'
#!/bin/sh
exec srun {command} --shard "$SLURM_ARRAY_TASK_ID/{shards}"
TASK
)
table=$(sbatch --parsable --job-name=perfpred-aggregate --dependency="afterok:${{tasks%%;*}}" --kill-on-invalid-dep=yes <<'TABLE'
#!/bin/sh
set --
shard=0
while [ "$shard" -lt {shards} ]; do
  set -- "$@" --runs {stem}."$shard-of-{shards}"{extension}
  shard=$((shard + 1))
done
exec {aggregate} "$@" --out {table}
TABLE
)
echo "tasks ${{tasks%%;*}}, table ${{table%%;*}}"
)";

}  // namespace

std::string text_of(const SweepScript& sweep) {
  std::string command;
  for (const std::string& word : sweep.command) command += (command.empty() ? "" : " ") + shell_word(word);
  const std::filesystem::path runs(sweep.runs_csv);
  std::filesystem::path stem = runs, table = runs;
  stem.replace_extension();
  table.replace_filename(runs.stem().string() + "_agg.csv");
  std::string array = fmt::format("0-{}", sweep.shards - 1);
  if (sweep.at_once) array += fmt::format("%{}", *sweep.at_once);
  return fmt::format(array_text, fmt::arg("configurations", sweep.configurations), fmt::arg("shards", sweep.shards),
                     fmt::arg("array", array), fmt::arg("command", command),
                     fmt::arg("stem", shell_word(stem.string())),
                     fmt::arg("extension", shell_word(runs.extension().string())),
                     fmt::arg("aggregate", shell_word(sweep.aggregate)), fmt::arg("table", shell_word(table.string())));
}

std::int64_t tasks_of(std::int64_t configurations, const std::optional<std::int64_t>& asked) {
  constexpr std::int64_t most = 1000;  // MaxArraySize of slurm.conf is 1001 if nobody says otherwise
  if (!asked) return std::min(configurations, most);
  if (*asked > configurations)
    throw InputError(fmt::format("--shards {}: the sweep has {} configurations", *asked, configurations));
  if (*asked > most) throw InputError(fmt::format("--shards {}: an array of Slurm has at most {} tasks", *asked, most));
  return *asked;
}

std::vector<std::string> words_without(const std::vector<std::string>& words,
                                       const std::vector<std::string_view>& flags,
                                       const std::vector<std::string_view>& valued) {
  std::vector<std::string> left;
  for (std::size_t i = 0; i < words.size(); ++i) {
    const std::string_view word = words[i];
    const std::string_view name = word.substr(0, word.find('='));
    if (std::ranges::find(flags, word) != flags.end()) continue;
    if (std::ranges::find(valued, name) == valued.end()) {
      left.push_back(words[i]);
    } else if (name == word) {
      ++i;  // its value
    }
  }
  return left;
}

}  // namespace perfpred
