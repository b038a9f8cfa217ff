// SPDX-License-Identifier: Apache-2.0
#include "tools/explanation.h"

#include <perfpred/error.h>
#include <perfpred/step_file.h>
#include <perfpred/training_log.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <filesystem>
#include <iterator>
#include <utility>

#include "answer/answer_json.h"
#include "runs/run_row.h"
#include "text/csv.h"
#include "text/json.h"
#include "tools/aggregate_answer.h"
#include "tools/terminal_text.h"

namespace perfpred {
namespace {

constexpr double large_rest = 0.2;  // of the difference: what is left is worth measuring

const char* in_words(Cause cause) {
  constexpr std::array<const char*, 7> words = {"waiting for data",     "host",    "pauses",     "clock",
                                                "others on the device", "kernels", "unexplained"};
  return words.at(static_cast<std::size_t>(cause));
}

/// What of the measurement says so, one line.
std::string evidence(const Explanation& of, const CauseOfTime& one) {
  const MeasuredStep& measured = of.measured;
  switch (one.cause) {
    case Cause::data:
      if (!measured.data_wait_sec) return "the run's note says data-bound, but not how much";
      return fmt::format("the program waits {:.4g} s of each step for its loader, {:.0f} %", *measured.data_wait_sec,
                         100 * *measured.data_wait_sec / measured.sec);
    case Cause::host:
      return fmt::format("the host needs {:.4g} s to submit a step, {}", measured.host_sec.value_or(0),
                         one.sec.value_or(0) > 0 ? "longer than the whole step should take"
                                                 : "and keeps up; the device was expected to wait for it");
    case Cause::pauses:
      return fmt::format("most steps take {:.4g} s: some take much longer, as by evaluations, checkpoints or stalls",
                         measured.median_sec.value_or(0));
    case Cause::clock:
      if (!one.sec) return "the run's note says throttled, but not how much";
      return fmt::format("{:.0f} of {:.0f} MHz; this is what that takes at most", measured.clock_mhz.value_or(0),
                         of.boost_mhz.value_or(0));
    case Cause::company:
      return "others computed there meanwhile; what that takes was not measured";
    case Cause::kernels:
      return fmt::format("what is left: the operators themselves take {}", one.sec.value_or(0) > 0 ? "longer" : "less");
    case Cause::unexplained:
      break;
  }
  std::vector<const char*> missing;
  for (const Cause cause : of.not_measured) missing.push_back(in_words(cause));
  return missing.empty() ? "what is left" : fmt::format("not measured: {}", fmt::join(missing, ", "));
}

/// How to measure a cause.
std::string how_to_measure(Cause cause, bool on_gpu) {
  switch (cause) {
    case Cause::data:
      return "waiting for data: perfpred.measure around the loop writes data_wait_share; or train on one batch again "
             "and again";
    case Cause::host:
      return "host: perfpred.measure on the GPU writes host_p50_ms";
    case Cause::pauses:
      return "pauses: perfpred.measure writes step_p50_ms, the median step";
    case Cause::clock:
      return "clock: perfpred.measure writes clock_mhz; or nvidia-smi --query-gpu=clocks.sm,clocks.max.sm --format=csv "
             "-l 1 meanwhile";
    case Cause::company:
      return on_gpu ? "others on the device: nvidia-smi pmon meanwhile" : "others on the device: top meanwhile";
    default:
      return "kernels: a profile of one step, for perfpred ncu (docs/guides/profiling.md)";
  }
}

/// What is left of a difference, where that is worth measuring.
std::optional<Cause> large_rest_of(const Explanation& of) {
  if (of.finding == Finding::within || of.causes.empty()) return std::nullopt;
  const CauseOfTime& last = of.causes.back();
  const bool is_rest = last.cause == Cause::kernels || last.cause == Cause::unexplained;
  const bool is_large = std::abs(last.sec.value_or(0)) >= large_rest * std::abs(of.difference_sec());
  return is_rest && is_large ? std::optional(last.cause) : std::nullopt;
}

std::vector<std::string> what_to_measure(const Explanation& of) {
  std::vector<std::string> lines;
  const bool on_gpu = !of.answer.workload.threads.has_value();
  const auto is_company = [](const CauseOfTime& one) { return one.cause == Cause::company; };
  if (of.finding != Finding::within && std::ranges::any_of(of.causes, is_company))
    lines.emplace_back("the same step while nobody else computes on the device");
  const std::optional<Cause> rest = large_rest_of(of);
  if (!rest) return lines;
  for (const Cause cause : of.not_measured) lines.push_back(how_to_measure(cause, on_gpu));
  std::vector<std::string> unstated;
  for (const Narrowing& one : of.answer.forecast.narrow_by) unstated.push_back(one.field);
  if (!unstated.empty()) {
    lines.push_back(
        fmt::format("say {}: nobody did, and the expected time depends on it", fmt::join(unstated, " and ")));
  }
  if (of.answer.forecast.prediction.provenance > Provenance::probe) {
    lines.push_back(fmt::format(
        "this device: perfpred probe --device {} --out ops_here.json, and explain again with --model ops_here.json",
        on_gpu ? "cuda:0" : "cpu"));
  }
  if (on_gpu && rest == Cause::kernels) lines.push_back(how_to_measure(Cause::kernels, on_gpu));
  return lines;
}

nlohmann::json to_json(const Explanation& of) {
  nlohmann::json causes = nlohmann::json::array();
  for (const CauseOfTime& one : of.causes) {
    const bool has_share = one.sec && of.difference_sec() != 0;
    causes.push_back({{"cause", to_string(one.cause)},
                      {"sec", or_null(one.sec)},
                      {"share", has_share ? nlohmann::json(*one.sec / of.difference_sec()) : nlohmann::json()},
                      {"evidence", evidence(of, one)}});
  }
  nlohmann::json not_measured = nlohmann::json::array();
  for (const Cause cause : of.not_measured) not_measured.push_back(to_string(cause));
  return {{"key", of.answer.key},
          {"network", std::string(of.answer.workload.network)},
          {"batch_size", of.answer.workload.batch_size},
          {"device", std::string(of.answer.workload.device)},
          {"measured_sec", of.measured.sec},
          {"expected_sec", to_json(of.answer.forecast.step_sec)},
          {"ratio", of.ratio()},
          {"finding", to_string(of.finding)},
          {"difference_sec", of.difference_sec()},
          {"causes", causes},
          {"not_measured", not_measured},
          {"to_measure", what_to_measure(of)},
          {"provenance", to_string(of.answer.forecast.prediction.provenance)},
          {"note", of.measured.note}};
}

/// Texts of a key that holds one or a list of them; the request is left without it.
std::vector<std::string> taken_texts(nlohmann::json& request, const char* key) {
  const nlohmann::json value = request.contains(key) ? request[key] : nlohmann::json();
  request.erase(key);
  std::vector<std::string> texts;
  for (const auto& one : value.is_array() ? value : nlohmann::json::array({value})) {
    if (one.is_null()) continue;
    if (!one.is_string()) throw_bad_value({{}, 0, key}, dumped(one), "a file, or a list of files");
    texts.push_back(one.get<std::string>());
  }
  return texts;
}

void refuse_rest(const nlohmann::json& request, const char* key) {
  for (const auto& [name, value] : request.items()) {
    if (!value.is_null()) throw InputError(fmt::format("{} is given, but {} say all of their workloads", name, key));
  }
}

MeasuredJob job_of(Run run, std::string source, std::vector<std::string> unstated = {}) {
  MeasuredJob job{std::move(source), {run.workload, {}, {}}, std::nullopt};
  job.asked.terms.advises = false;
  job.asked.terms.job.unstated = std::move(unstated);
  job.run = std::move(run);
  return job;
}

/// A row of runs.csv, an object of its columns.
Run run_of(const nlohmann::json& row) {
  if (!row.is_object()) throw_bad_value({{}, 0, "row"}, dumped(row), "an object of columns of runs.csv");
  std::vector<std::string> header, fields;
  for (const auto& [name, value] : row.items()) {
    if (value.is_null()) continue;
    header.push_back(name);
    fields.push_back(value.is_string() ? value.get<std::string>() : dumped(value));
  }
  return run_from_fields(header, fields, "row");
}

/// Rows of a table. The steps that they name may be in graphs/ beside it.
std::vector<Run> runs_of(const std::string& path) {
  const std::filesystem::path graphs = std::filesystem::path(path).parent_path() / "graphs";
  if (std::filesystem::is_directory(graphs)) add_graphs(graphs.string());
  return read_runs(path);
}

/// What a request says of its logs.
RunFacts facts_of(const nlohmann::json& request) {
  RunFacts facts;
  facts.of_step = true;
  for (const auto& [name, value] : request.items()) {
    if (!value.is_null()) add_fact(facts, name, value);
  }
  return facts;
}

MeasuredJob job_of_log(const std::string& path, const RunFacts& facts) {
  Run run = read_training_log(path, facts);
  std::vector<std::string> unstated;
  for (const char* field : {"layout", "compiled"}) {
    const bool is_usual = field_text(run.workload, field) == field_text(Workload(), field);
    const auto says = [field](const auto& given) { return given.first == field; };
    if (is_usual && std::ranges::none_of(facts.fields, says)) unstated.emplace_back(field);
  }
  return job_of(std::move(run), path, std::move(unstated));
}

/// Whether a file is a table of runs and not a log. @throws InputError if it cannot be read
bool is_run_table(const std::string& path) {
  if (!path.ends_with(".csv")) return false;
  const std::vector<std::string> columns = CsvReader(path).header();
  const auto has = [&](const char* name) { return std::ranges::find(columns, name) != columns.end(); };
  return has("avg_time_sec") || (has("seconds") && has("epochs"));
}

// Texts for people.

std::string finding_text(const nlohmann::json& one) {
  const auto finding = one.at("finding").get<std::string>();
  const double ratio = one.at("ratio").get<double>();
  if (finding == to_string(Finding::within))
    return fmt::format("{:.2f} x, inside the interval: nothing to explain", ratio);
  return fmt::format("{:.2f} x, {} the interval", ratio, finding);
}

Cause cause_of(const nlohmann::json& one) {
  for (std::size_t i = 0; i <= static_cast<std::size_t>(Cause::unexplained); ++i) {
    if (one.at("cause").get<std::string>() == to_string(static_cast<Cause>(i))) return static_cast<Cause>(i);
  }
  throw InputError(fmt::format("\"{}\" is no cause", shown(one.at("cause").get<std::string>())));
}

/// Of the difference.
double percent(const nlohmann::json& cause) {
  const nlohmann::json& share = cause.at("share");
  return share.is_null() ? 0 : 100 * share.get<double>();
}

/// Causes; of a step inside its interval only those that were measured.
void add_causes(std::string& text, const nlohmann::json& one) {
  const bool within = one.at("finding").get<std::string>() == to_string(Finding::within);
  std::size_t width = 0;
  std::vector<std::pair<Cause, const nlohmann::json*>> shown_ones;
  for (const auto& cause : one.at("causes")) {
    const Cause kind = cause_of(cause);
    if (within && (kind == Cause::kernels || kind == Cause::unexplained)) continue;
    shown_ones.emplace_back(kind, &cause);
    width = std::max(width, std::string_view(in_words(kind)).size());
  }
  if (!shown_ones.empty()) text += within ? "  measured all the same:\n" : "  why:\n";
  for (const auto& [kind, cause] : shown_ones) {
    const nlohmann::json& sec = cause->at("sec");
    const std::string amount = sec.is_null()
                                   ? fmt::format("{:>21}", "-")
                                   : fmt::format("{:>10.4g} s {:>6.1f} %", sec.get<double>(), percent(*cause));
    text += fmt::format("    {:<{}} {}  {}\n", in_words(kind), width, amount, cause->at("evidence").get<std::string>());
  }
}

std::string block(const nlohmann::json& one, Reader reader) {
  const auto key = one.at("key").get<std::string>();
  std::string text = (reader == Reader::terminal ? in_bold(key) : key) + "\n";
  const nlohmann::json& expected = one.at("expected_sec");
  const auto add = [&text](const char* name, const std::string& what) {
    text += fmt::format("  {:<12} {}\n", name, what);
  };
  add("measured", fmt::format("{:>12.4g} s a step", one.at("measured_sec").get<double>()));
  add("expected", fmt::format("{:>12.4g} s  (90 %: {:.4g} .. {:.4g})", expected.at("p50").get<double>(),
                              expected.at("p05").get<double>(), expected.at("p95").get<double>()));
  add("that is", finding_text(one));
  add_causes(text, one);
  if (const auto note = one.at("note").get<std::string>(); !note.empty()) add("its note", note);
  if (!one.at("to_measure").empty()) text += "  to measure:\n";
  for (const auto& line : one.at("to_measure")) text += fmt::format("    {}\n", line.get<std::string>());
  add("rests on", one.at("provenance").get<std::string>());
  return text;
}

/// The cause that changes a step most.
std::string main_cause(const nlohmann::json& one) {
  const nlohmann::json* most = nullptr;
  const auto size = [](const nlohmann::json& cause) { return std::abs(cause.at("sec").get<double>()); };
  for (const auto& cause : one.at("causes")) {
    if (!cause.at("sec").is_null() && (most == nullptr || size(cause) > size(*most))) most = &cause;
  }
  if (most == nullptr || one.at("finding").get<std::string>() == to_string(Finding::within)) return {};
  return fmt::format("{} {:.0f} %", in_words(cause_of(*most)), percent(*most));
}

std::string table(const nlohmann::json& list, Reader reader) {
  std::vector<std::array<std::string, 8>> rows = {
      {"network", "batch", "device", "measured s", "expected s", "90 % interval", "is", "mostly"}};
  std::vector<std::string> errors = {""};
  for (const auto& one : list) {
    errors.push_back(one.value("error", std::string()));
    if (!errors.back().empty()) {
      rows.push_back({one.at("key").get<std::string>(), "", "", "", "", "", "", ""});
      continue;
    }
    const nlohmann::json& expected = one.at("expected_sec");
    rows.push_back({one.at("network").get<std::string>(), std::to_string(one.at("batch_size").get<std::int64_t>()),
                    one.at("device").get<std::string>(), fmt::format("{:.4g}", one.at("measured_sec").get<double>()),
                    fmt::format("{:.4g}", expected.at("p50").get<double>()),
                    fmt::format("{:.4g} .. {:.4g}", expected.at("p05").get<double>(), expected.at("p95").get<double>()),
                    fmt::format("{:.2f} x {}", one.at("ratio").get<double>(), one.at("finding").get<std::string>()),
                    main_cause(one)});
  }
  std::array<std::size_t, 8> widths{};
  for (std::size_t i = 0; i < rows.size(); ++i) {
    if (!errors[i].empty()) continue;
    for (std::size_t k = 0; k < widths.size(); ++k) widths.at(k) = std::max(widths.at(k), rows[i].at(k).size());
  }
  std::string text;
  for (std::size_t i = 0; i < rows.size(); ++i) {
    std::string line = errors[i].empty() ? "" : fmt::format("{}: {}", rows[i][0], errors[i]);
    for (std::size_t k = 0; errors[i].empty() && k < widths.size(); ++k) {
      const bool left = k == 0 || k + 1 >= widths.size();
      line += (k == 0 ? "" : "  ") + (left ? fmt::format("{:<{}}", rows[i].at(k), widths.at(k))
                                           : fmt::format("{:>{}}", rows[i].at(k), widths.at(k)));
    }
    line.erase(line.find_last_not_of(' ') + 1);
    text += (i == 0 && reader == Reader::terminal ? in_bold(line) : line) + "\n";
  }
  return text;
}

}  // namespace

std::vector<MeasuredJob> read_measured(const ModelRequests& requests, nlohmann::json request) {
  std::vector<std::string> runs = taken_texts(request, "runs"), logs = taken_texts(request, "log");
  for (std::string& file : taken_texts(request, "files")) (is_run_table(file) ? runs : logs).push_back(std::move(file));
  const nlohmann::json row = request.value("row", nlohmann::json()),
                       ms = request.value("measured_ms", nlohmann::json());
  request.erase("row");
  request.erase("measured_ms");
  const std::array<bool, 3> given = {!runs.empty() || !logs.empty(), !row.is_null(), !ms.is_null()};
  if (std::ranges::count(given, true) != 1) {
    throw InputError("one of runs, log, measured_ms is required");
  }
  if (!ms.is_null()) {
    if (!ms.is_number() || !(ms.get<double>() > 0))
      throw_bad_value({{}, 0, "measured_ms"}, dumped(ms), "a positive number");
    MeasuredJob job{"", read_request(requests, request), {}, ms.get<double>() * 1e-3};
    job.asked.terms.advises = false;
    return {std::move(job)};
  }
  if (logs.empty()) refuse_rest(request, "runs");
  std::vector<MeasuredJob> jobs;
  if (!row.is_null()) jobs.push_back(job_of(run_of(row), ""));
  for (const std::string& path : runs) {
    for (Run& run : runs_of(path)) jobs.push_back(job_of(std::move(run), path));
  }
  const RunFacts facts = logs.empty() ? RunFacts() : facts_of(request);
  for (const std::string& path : logs) jobs.push_back(job_of_log(path, facts));
  if (jobs.empty()) throw InputError(fmt::format("{}: holds no run", runs.front()));
  return jobs;
}

nlohmann::json explained(const TimeRegressor& model, const MeasuredJob& job) {
  const Answer expected = answer(model, job.asked.workload, job.asked.terms);
  const MeasuredStep measured = job.run ? measured_step(*job.run, expected) : MeasuredStep{job.step_sec};
  nlohmann::json document = to_json(explain(expected, measured, model.devices()));
  if (!job.source.empty()) document["source"] = job.source;
  if (job.run && !job.run->timestamp_utc.empty()) document["timestamp_utc"] = job.run->timestamp_utc;
  return document;
}

nlohmann::json explained_all(const std::vector<MeasuredJob>& jobs,
                             const std::function<nlohmann::json(const MeasuredJob&)>& explain_one) {
  nlohmann::json list = nlohmann::json::array();
  std::string first;
  for (const MeasuredJob& job : jobs) {
    try {
      list.push_back(explain_one(job));
    } catch (const InputError& error) {
      if (first.empty()) first = error.what();
      list.push_back({{"key", job.asked.workload.key()}, {"error", error.what()}});
    }
  }
  const auto has_answer = [](const nlohmann::json& one) { return !one.contains("error"); };
  if (std::none_of(list.begin(), list.end(), has_answer)) throw InputError(first);
  return list.size() == 1 ? list.front() : list;
}

std::string explanation_text(const nlohmann::json& document, Reader reader) {
  try {
    return document.is_array() ? table(document, reader) : block(document, reader);
  } catch (const nlohmann::json::exception& error) {
    throw InputError(fmt::format("this is no explanation: {}", json_complaint(error)));
  }
}

}  // namespace perfpred
