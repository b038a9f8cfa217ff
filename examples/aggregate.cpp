// SPDX-License-Identifier: Apache-2.0
// perfpred-aggregate: runs.csv, logs of runs, or logs that other software wrote, to runs_agg.csv.
#include <fmt/format.h>
#include <perfpred/aggregator.h>
#include <perfpred/training_log.h>

#include <algorithm>
#include <cstdio>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli.h"
#include "rejected_output.h"
#include "runs/run_row.h"
#include "text/csv.h"
#include "text/enum_names.h"
#include "text/files.h"
#include "text/json.h"
#include "workload_options.h"

namespace {

using namespace perfpred;
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> runs, merge, from;
  RunFacts facts;
  cli::WorkloadOptions workload;
  std::string logs, label = "robust", out, rejected, partial, runs_out;
  bool json = false;
};

/// Adds the run of a log, unless an earlier input has it, and its row of runs.csv. @returns what there is to say of it
std::vector<std::string> add_log(Aggregator& aggregator, const std::string& file, const RunFacts& facts,
                                 std::string& table) {
  const Run run = read_training_log(file, facts);
  Aggregator of_log(aggregator.label());
  of_log.add(run);
  if (!aggregator.merge(of_log)) return {file + ": skipped, since its run is in an earlier input"};
  table += csv_line(run_fields(run));
  if (run.note.empty()) return {};
  return {fmt::format("{}: {}", file, run.note)};
}

Aggregator aggregate(const Options& options) {
  if (options.runs.empty() && options.logs.empty() && options.merge.empty() && options.from.empty()) {
    throw InputError("one of --runs, --logs, --from, --merge is required");
  }
  Aggregator aggregator(parse_label(options.label));
  std::vector<std::string> notes;
  const auto note = [&notes](const std::vector<std::string>& more) {
    notes.insert(notes.end(), more.begin(), more.end());
  };
  for (const std::string& file : options.merge) note(aggregator.add_partial(file));
  for (const std::string& file : options.runs) note(aggregator.add_file(file));
  if (!options.logs.empty()) note(aggregator.add_logs(options.logs));
  RunFacts facts = options.facts;
  for (const SweptField& field : options.workload.fields()) facts.fields.emplace_back(field.name, field.values.front());
  std::string table = csv_line(run_columns());
  for (const std::string& file : options.from) note(add_log(aggregator, file, facts, table));
  if (!options.runs_out.empty()) write_file(options.runs_out, table);
  if (aggregator.runs() == 0) throw InputError(notes.empty() ? "no input holds a run" : notes.front());
  for (const std::string& line : notes) fmt::print(stderr, "perfpred-aggregate: {}\n", line);
  return aggregator;
}

/// One JSON document, written piece by piece: the list of rejected runs may be long.
void print_json(const Aggregator& aggregator, const std::vector<AggregateRow>& rows) {
  fmt::print("{{\"runs\":{},\"rows\":{},\"rejected\":[", aggregator.runs(), rows.size());
  const char* separator = "";
  aggregator.for_each_rejected([&separator](const RejectedRun& run) {
    const Json json = {{"key", run.key},
                       {"timestamp_utc", run.timestamp_utc},
                       {"avg_time_sec", or_null(run.avg_time_sec)},
                       {"reason", run.reason}};
    fmt::print("{}{}", separator, dumped(json));
    separator = ",";
  });
  fmt::print("],\"flagged\":[");
  separator = "";
  for (const AggregateRow& row : rows) {
    if (!row.flags.any()) continue;
    const Json json = {{"key", row.workload.key()}, {"flags", row.flags.text()}};
    fmt::print("{}{}", separator, dumped(json));
    separator = ",";
  }
  fmt::print("]}}\n");
}

/// Sums up on standard error: rejected runs by reason, rows that rest on rejected runs alone.
void report(const Aggregator& aggregator, const std::vector<AggregateRow>& rows) {
  std::map<std::string, std::size_t> by_reason;
  aggregator.for_each_rejected([&by_reason](const RejectedRun& run) { ++by_reason[run.reason]; });
  fmt::print(stderr, "{} runs, {} rows, {}\n", aggregator.runs(), rows.size(), cli::summary(by_reason));
  const auto unstable =
      std::count_if(rows.begin(), rows.end(), [](const AggregateRow& row) { return row.flags.unstable; });
  if (unstable != 0) {
    fmt::print(stderr, "{} of {} rows are unstable: all of their runs were rejected\n", unstable, rows.size());
  }
}

/// Options that say of a run what its log does not.
void add_facts(cli::Program& program, Options& options, CLI::Option* from) {
  options.workload.add_to(program);
  program.add_option("--params", options.facts.params, "trainable parameters of a network of your own")
      ->check(cli::positive());
  program.add_option("--env", options.facts.env, "free tag of the runs");
  program.add_option_function<std::string>(
      "--counted",
      [&options](const std::string& text) {
        const auto counted = enumerator_named<Timing::steps>(text);
        if (!counted) throw InputError(fmt::format("--counted {} is not steps or epochs", text));
        options.facts.counted = counted;
      },
      "what the steps of a TensorBoard file count: steps or epochs");
  std::vector<std::string> names = {"--config", "--params", "--env", "--counted"};
  for (const WorkloadColumn& column : workload_columns()) names.push_back(cli::WorkloadOptions::option_of(column.name));
  for (const std::string& name : names) {
    program.get_option(name)->needs(from)->group("What a log (--from) does not say");
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("aggregate", "Turns measured runs into one row per workload.",
                       "perfpred-aggregate --runs runs.csv --out runs_agg.csv --rejected rejected.csv");
  Options options;
  auto* runs = program.add_option("--runs", options.runs, "Runs to aggregate (repeated)")->type_name("runs.csv");
  program.add_option("--logs", options.logs, "Take the rows from the logs in a folder instead")
      ->type_name("DIR")
      ->excludes(runs);
  CLI::Option* from =
      program.add_option("--from", options.from, "Log that other software wrote (repeated): " + training_log_formats())
          ->type_name("FILE");
  program.add_option("--merge", options.merge, "Partial aggregate to add (repeated)")->type_name("p.json");
  program.add_option("--label", options.label, "robust (default): a run whose epochs disagree is rejected; or mean")
      ->type_name("LABEL");
  program.add_option("--out", options.out, "Where the rows go (default: standard output)")->type_name("runs_agg.csv");
  program.add_option("--rejected", options.rejected, "Where the rejected runs go, with their reasons")
      ->type_name("rejected.csv");
  program.add_option("--partial", options.partial, "Writes a partial aggregate, for --merge")->type_name("p.json");
  program.add_option("--runs-out", options.runs_out, "Where the runs of --from go, for perfpred-observe and others")
      ->type_name("runs.csv")
      ->needs(from);
  program.lets_overwrite("--merge", "--partial");
  program.add_flag("--json", options.json, "Print one JSON document");
  add_facts(program, options, from);
  return program.run(argc, argv, [&options] {
    if (options.rejected == "/dev/stdout" && options.out.empty() && options.partial.empty()) {
      throw InputError("--out is missing: the rejected runs go to standard output");
    }
    const Aggregator aggregator = aggregate(options);
    const std::vector<AggregateRow> rows = aggregator.rows();
    if (!options.partial.empty()) aggregator.write_partial(options.partial);
    if (!options.rejected.empty()) aggregator.write_rejected(options.rejected);
    if (!options.out.empty()) write_aggregate(options.out, rows);
    report(aggregator, rows);
    if (options.json) {
      print_json(aggregator, rows);
    } else if (options.out.empty() && options.partial.empty() && options.runs_out.empty()) {
      write_aggregate("/dev/stdout", rows);
    }
  });
}
