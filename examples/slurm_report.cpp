// SPDX-License-Identifier: Apache-2.0
// perfpred-slurm-report: how forecasts of a Slurm cluster's jobs compare with what the jobs took.
#include <string>

#include "cli.h"
#include "tools/slurm_history.h"

namespace perfpred::cli {
namespace {

/// @param path  `-` is standard input
SlurmHistory read_history(const std::string& path) {
  return path == "-" ? read_sacct("sacct", read_file("/dev/stdin")) : read_sacct(path, read_file(path));
}

}  // namespace

int slurm_report_command(int argc, char** argv) {
  Program program(
      "slurm-report",
      fmt::format("sacct -P -a -X -S now-7days --format={} | perfpred-slurm-report --sacct -", sacct_columns));
  std::string path, runs_out;
  double grace_sec = 0;
  bool json = false;
  program.add_option("--sacct", path, "what sacct -P printed, of the columns of the example; -: standard input")
      ->required();
  takes_seconds(program.add_option("--grace-sec", grace_sec, "that Slurm lets a job run on (OverTimeLimit)"))
      ->check(not_negative());
  program
      .add_option("--runs-out", runs_out,
                  "where the completed jobs go as runs, for perfpred-observe or a spool folder of perfpred-serve")
      ->type_name("runs.csv");
  program.add_flag("--json", json, "one JSON document on stdout");
  return program.run(argc, argv, [&] {
    if (!runs_out.empty() && file_behind(runs_out) == file_behind(path))
      throw InputError("--runs-out would overwrite --sacct");
    const SlurmHistory history = read_history(path);
    for (const std::string& line : history.damaged) fmt::print(stderr, "perfpred-slurm-report: {}\n", line);
    if (!runs_out.empty()) {
      const SlurmRuns runs = runs_of(history);
      if (runs.rows > 0) write_file(runs_out, runs.csv);
      fmt::print(stderr, "perfpred-slurm-report: {} runs{}\n", runs.rows, runs.rows > 0 ? "" : ", nothing is written");
    }
    const SlurmReport report = slurm_report(history, grace_sec);
    if (json)
      fmt::print("{}\n", dumped(to_json(report), 2));
    else
      fmt::print("{}", text_of(report));
  });
}

}  // namespace perfpred::cli
