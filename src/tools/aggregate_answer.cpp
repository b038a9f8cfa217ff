// SPDX-License-Identifier: Apache-2.0
#include "tools/aggregate_answer.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include "catalogue/device_table.h"
#include "runs/run_row.h"
#include "text/csv.h"
#include "text/enum_names.h"
#include "text/files.h"
#include "text/json.h"
#include "tools/json_request.h"
#include "tools/workload_sweep.h"
#include "workload/workload_columns.h"

namespace perfpred {

using Json = nlohmann::ordered_json;

namespace {

/// Adds the run of a log, unless an earlier input has it, and its row of runs.csv. @returns what there is to say of it
std::vector<std::string> add_log(Aggregator& aggregator, const std::string& file, const RunFacts& facts,
                                 std::string& table) {
  const Run run = read_training_log(file, facts);
  Aggregator of_log(aggregator.label());
  of_log.add(run);
  if (!aggregator.merge(of_log)) return {file + ": skipped, since its run is in an earlier input"};
  table += csv_line(run_fields(run));
  std::vector<std::string> notes;
  const std::string unknown = run.workload.threads ? std::string() : unknown_device(run.workload.device);
  if (!unknown.empty()) notes.push_back(unknown);  // CPUs are called by their models
  if (!run.note.empty()) notes.push_back(fmt::format("{}: {}", file, run.note));
  return notes;
}

}  // namespace

Timing parse_counted(std::string_view text, std::string_view name) {
  const auto counted = enumerator_named<Timing::steps>(text);
  if (!counted) throw_bad_value({{}, 0, name}, text, "steps or epochs");
  return *counted;
}

void add_fact(RunFacts& facts, const std::string& name, const nlohmann::json& value) {
  const std::string text = option_text(name, value);
  const ValuePlace place{{}, 0, name};
  if (name == "params") {
    facts.params = parse_positive_integer(text, place);
  } else if (name == "env") {
    facts.env = text;
  } else if (name == "counted") {
    facts.counted = parse_counted(text, name);
  } else if (name == "step_tokens") {
    facts.step_tokens = parse_positive(text, place);
  } else {
    const SweptField field = with_configs({name, {text}});
    (void)workload_column(field.name);
    facts.fields.emplace_back(field.name, field.values.front());
  }
}

Aggregator aggregate(const AggregateInputs& inputs, std::vector<std::string>& notes) {
  if (inputs.runs.empty() && inputs.logs.empty() && inputs.from.empty()) {
    throw InputError("one of runs (--runs), logs, from is required");
  }
  Aggregator aggregator(parse_label(inputs.label));
  const auto note = [&notes](const std::vector<std::string>& more) {
    notes.insert(notes.end(), more.begin(), more.end());
  };
  for (const std::string& file : inputs.runs) note(aggregator.add_file(file));
  if (!inputs.logs.empty()) note(aggregator.add_logs(inputs.logs));
  std::string table = csv_line(run_columns());
  for (const std::string& file : inputs.from) note(add_log(aggregator, file, inputs.facts, table));
  if (!inputs.runs_out.empty()) write_file(inputs.runs_out, table);
  if (aggregator.runs() == 0) throw InputError(notes.empty() ? "no input holds a run" : notes.front());
  return aggregator;
}

void write_json(const Aggregator& aggregator, const std::vector<AggregateRow>& rows,
                const std::function<void(std::string_view)>& write) {
  write(fmt::format("{{\"runs\":{},\"rows\":{},\"rejected\":[", aggregator.runs(), rows.size()));
  const char* separator = "";
  const auto add = [&](const Json& json) {
    write(separator);
    write(dumped(json));
    separator = ",";
  };
  aggregator.for_each_rejected([&](const RejectedRun& run) {
    add({{"key", run.key},
         {"timestamp_utc", run.timestamp_utc},
         {"avg_time_sec", or_null(run.avg_time_sec)},
         {"reason", run.reason}});
  });
  write("],\"flagged\":[");
  separator = "";
  for (const AggregateRow& row : rows) {
    if (row.flags.any()) add({{"key", row.workload.key()}, {"flags", row.flags.text()}});
  }
  write("]}\n");
}

nlohmann::json to_json(const std::vector<RejectedRun>& rows) {
  nlohmann::json list = nlohmann::json::array();
  for (const RejectedRun& row : rows) list.push_back({{"key", row.key}, {"reason", row.reason}});
  return list;
}

}  // namespace perfpred
