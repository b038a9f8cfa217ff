// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// A sweep that Slurm runs: an array of tasks, each of which measures a shard.
struct SweepScript {
  std::vector<std::string> command;          ///< of perfpred-collect, with its program, without a shard
  std::string aggregate;                     ///< the program perfpred-aggregate
  std::string runs_csv;                      ///< as --out says it; each shard has a file of its own beside it
  std::int64_t configurations = 0;           ///< of the sweep
  std::int64_t shards = 1;                   ///< tasks of the array
  std::optional<std::int64_t> at_once = {};  ///< tasks that run at the same time; all that the cluster has room for
};

/// A script of a POSIX shell that submits the array, and a job that aggregates the rows of all shards once every task
/// has ended well. Its arguments are options of sbatch for the tasks.
[[nodiscard]] std::string text_of(const SweepScript& sweep);

/// Tasks of a sweep's array: so many as are asked for, else one for each configuration, 1,000 at most.
/// @throws InputError for more than the sweep has configurations, or than Slurm takes for an array
[[nodiscard]] std::int64_t tasks_of(std::int64_t configurations, const std::optional<std::int64_t>& asked);

/// The words of a command line without some options.
/// @param flags   options that stand alone
/// @param valued  options with a value, `--name value` or `--name=value`
[[nodiscard]] std::vector<std::string> words_without(const std::vector<std::string>& words,
                                                     const std::vector<std::string_view>& flags,
                                                     const std::vector<std::string_view>& valued);

}  // namespace perfpred
