// SPDX-License-Identifier: Apache-2.0
// perfpred-aggregate: runs.csv, or logs of runs, to runs_agg.csv.
#include <fmt/format.h>
#include <perfpred/aggregator.h>

#include <cstdio>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli.h"

namespace {

using namespace perfpred;
using Json = nlohmann::ordered_json;

struct Options {
  std::vector<std::string> runs, merge;
  std::string logs, label = "robust", out, rejected, partial;
  bool json = false;
};

Aggregator aggregate(const Options& options) {
  if (options.runs.empty() && options.logs.empty() && options.merge.empty()) {
    throw InputError("one of --runs, --logs, --merge is required");
  }
  Aggregator aggregator(parse_label(options.label));
  for (const std::string& file : options.merge) {
    const Aggregator partial = Aggregator::read_partial(file);
    if (partial.label() != aggregator.label()) {
      throw InputError(
          fmt::format("{}: holds label {}; --label is {}", file, to_string(partial.label()), options.label));
    }
    aggregator.merge(partial);
  }
  for (const std::string& file : options.runs) aggregator.add_file(file);
  if (!options.logs.empty()) {
    for (const std::string& log : aggregator.add_logs(options.logs)) {
      fmt::print(stderr, "perfpred-aggregate: {}: holds no row; its run was cut off\n", log);
    }
  }
  return aggregator;
}

/// One JSON document, written piece by piece: the list of rejected runs may be long.
void print_json(const Aggregator& aggregator, const std::vector<AggregateRow>& rows) {
  fmt::print("{{\"runs\":{},\"rows\":{},\"rejected\":[", aggregator.runs(), rows.size());
  const char* separator = "";
  aggregator.for_each_rejected([&separator](const RejectedRun& run) {
    const Json json = {{"key", run.key},
                       {"timestamp_utc", run.timestamp_utc},
                       {"avg_time_sec", run.avg_time_sec ? Json(*run.avg_time_sec) : Json(nullptr)},
                       {"reason", to_string(run.reason)}};
    fmt::print("{}{}", separator, json.dump(-1, ' ', false, Json::error_handler_t::replace));
    separator = ",";
  });
  fmt::print("],\"flagged\":[");
  separator = "";
  for (const AggregateRow& row : rows) {
    if (!row.flags.any()) continue;
    const Json json = {{"key", row.workload.key()}, {"flags", row.flags.text()}};
    fmt::print("{}{}", separator, json.dump(-1, ' ', false, Json::error_handler_t::replace));
    separator = ",";
  }
  fmt::print("]}}\n");
}

void report(const Aggregator& aggregator, const std::vector<AggregateRow>& rows) {
  constexpr std::int64_t most_listed = 20;
  fmt::print(stderr, "{} runs, {} workloads, {} runs rejected\n", aggregator.runs(), rows.size(),
             aggregator.rejected());
  std::int64_t listed = 0;
  aggregator.for_each_rejected([&listed](const RejectedRun& run) {
    if (listed++ >= most_listed) return;
    const std::string sec = run.avg_time_sec ? fmt::format("{:.4g} s", *run.avg_time_sec) : std::string("no time");
    fmt::print(stderr, "rejected: {} ({}, {}): {}\n", run.key, run.timestamp_utc, sec, to_string(run.reason));
  });
  if (listed > most_listed) fmt::print(stderr, "... and {} more; --rejected writes them all\n", listed - most_listed);
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
  program.add_option("--merge", options.merge, "Partial aggregate to add (repeated)")->type_name("p.json");
  program
      .add_option("--label", options.label, "robust (default): runs that disagree with themselves do not count; mean")
      ->type_name("LABEL");
  program.add_option("--out", options.out, "Where the rows go (default: standard output)")->type_name("runs_agg.csv");
  program.add_option("--rejected", options.rejected, "Lists the runs that do not count, with the reason")
      ->type_name("rejected.csv");
  program.add_option("--partial", options.partial, "Writes a partial aggregate, for --merge")->type_name("p.json");
  program.add_flag("--json", options.json, "Print one JSON document");
  return program.run(argc, argv, [&options] {
    const Aggregator aggregator = aggregate(options);
    const std::vector<AggregateRow> rows = aggregator.rows();
    if (!options.partial.empty()) aggregator.write_partial(options.partial);
    if (!options.rejected.empty()) aggregator.write_rejected(options.rejected);
    if (!options.out.empty()) write_aggregate(options.out, rows);
    report(aggregator, rows);
    if (options.json) {
      print_json(aggregator, rows);
    } else if (options.out.empty() && options.partial.empty()) {
      write_aggregate("/dev/stdout", rows);
    }
  });
}
