// SPDX-License-Identifier: Apache-2.0
// perfpred-aggregate: runs.csv, logs of runs, or logs that other software wrote, to runs_agg.csv.
#include <perfpred/aggregator.h>
#include <perfpred/training_log.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "cli.h"
#include "rejected_output.h"
#include "tools/aggregate_answer.h"
#include "workload_options.h"

namespace perfpred::cli {
namespace {

struct AggregateOptions {
  AggregateInputs inputs;
  WorkloadOptions workload;
  std::string out, rejected;
  bool json = false;
};

/// Sums up on standard error: rejected runs by reason, rows that rest on rejected runs alone.
void report(const Aggregator& aggregator, const std::vector<AggregateRow>& rows) {
  std::map<std::string, std::size_t> by_reason;
  aggregator.for_each_rejected([&by_reason](const RejectedRun& run) { ++by_reason[run.reason]; });
  fmt::print(stderr, "{} runs, {} rows, {}\n", aggregator.runs(), rows.size(), summary(by_reason));
  const auto unstable =
      std::count_if(rows.begin(), rows.end(), [](const AggregateRow& row) { return row.flags.unstable; });
  if (unstable != 0) {
    fmt::print(stderr, "{} of {} rows are unstable: all of their runs were rejected\n", unstable, rows.size());
  }
}

/// Options that say of a run what its log does not.
void add_facts(Program& program, AggregateOptions& options, CLI::Option* from) {
  options.workload.add_to(program);
  program.add_option("--params", options.inputs.facts.params, "trainable parameters of a network of your own")
      ->check(positive());
  program.add_option("--env", options.inputs.facts.env, "free tag of the runs");
  program.add_option_function<std::string>(
      "--counted",
      [&options](const std::string& text) { options.inputs.facts.counted = parse_counted(text, "--counted"); },
      "what the steps of a TensorBoard file or of W&B's history count: steps or epochs");
  program
      .add_option("--step-tokens", options.inputs.facts.step_tokens,
                  "of torchtune's log: tokens of a step on one device that count in the loss")
      ->check(positive());
  std::vector<std::string> names = {"--config", "--params", "--env", "--counted", "--step-tokens"};
  for (const WorkloadColumn& column : workload_columns()) names.push_back(option_of(column.name));
  for (const std::string& name : names) {
    program.get_option(name)->needs(from)->group("What a log (--from) does not say");
  }
}

}  // namespace

int aggregate_command(int argc, char** argv) {
  Program program("aggregate", "perfpred-aggregate --runs runs.csv --out runs_agg.csv --rejected rejected.csv");
  AggregateOptions options;
  auto* runs = program.add_option("--runs", options.inputs.runs, "Runs to aggregate (repeated)")->type_name("runs.csv");
  program.add_option("--logs", options.inputs.logs, "Take the rows from the logs in a folder instead")
      ->type_name("DIR")
      ->excludes(runs);
  CLI::Option* from = program
                          .add_option("--from", options.inputs.from,
                                      "Log that other software wrote (repeated): " + training_log_formats())
                          ->type_name("FILE");
  program
      .add_option("--label", options.inputs.label, "robust (default): a run whose epochs disagree is rejected; or mean")
      ->type_name("LABEL");
  program.add_option("--out", options.out, "Where the rows go (default: standard output)")->type_name("runs_agg.csv");
  program.add_option("--rejected", options.rejected, "Where the rejected runs go, with their reasons")
      ->type_name("rejected.csv");
  for (const char* name : {"--merge", "--partial"}) program.add_refused(name, instead_of_parts);
  program
      .add_option("--runs-out", options.inputs.runs_out, "Where the runs of --from go, for perfpred-observe and others")
      ->type_name("runs.csv")
      ->needs(from);
  program.add_flag("--json", options.json, "Print one JSON document");
  add_facts(program, options, from);
  return program.run(argc, argv, [&options] {
    if (options.rejected == "/dev/stdout" && options.out.empty()) {
      throw InputError("--out is missing: the rejected runs go to standard output");
    }
    for (const SweptField& field : options.workload.fields()) {
      options.inputs.facts.fields.emplace_back(field.name, field.values.front());
    }
    std::vector<std::string> notes;
    const Aggregator aggregator = aggregate(options.inputs, notes);
    for (const std::string& line : notes) fmt::print(stderr, "perfpred-aggregate: {}\n", line);
    const std::vector<AggregateRow> rows = aggregator.rows();
    if (!options.rejected.empty()) aggregator.write_rejected(options.rejected);
    if (!options.out.empty()) write_aggregate(options.out, rows);
    report(aggregator, rows);
    if (options.json) {
      write_json(aggregator, rows, [](std::string_view text) { fmt::print("{}", text); });
    } else if (options.out.empty() && options.inputs.runs_out.empty()) {
      write_aggregate("/dev/stdout", rows);
    }
  });
}

}  // namespace perfpred::cli
