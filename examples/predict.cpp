// SPDX-License-Identifier: Apache-2.0
// perfpred-predict: what a fitted model expects of workloads.
#include <perfpred/forecast.h>
#include <perfpred/step_file.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <iostream>
#include <set>

#include "answer/answer_json.h"
#include "cli.h"
#include "device_file.h"
#include "graphs_option.h"
#include "step/epoch_steps.h"
#include "text/json.h"
#include "text/parse.h"
#include "tools/answer_lines.h"
#include "tools/answer_rows.h"
#include "tools/json_request.h"
#include "tools/layer_answer.h"
#include "tools/model_requests.h"
#include "tools/predictions_file.h"
#include "tools/terminal_text.h"
#include "workload/workload_labels.h"
#include "workload_options.h"

using namespace perfpred;

namespace {

std::string gigabytes(std::int64_t bytes) { return fmt::format("{:.2f}", static_cast<double>(bytes) / 1e9); }

/// Seconds as people say them: s, min, h or days.
std::string duration(double sec) {
  constexpr double minute = 60, hour = 3600, day = 86'400;
  if (sec < 2 * minute) return fmt::format("{:.4g} s", sec);
  if (sec < 2 * hour) return fmt::format("{:.1f} min", sec / minute);
  return sec < 2 * day ? fmt::format("{:.1f} h", sec / hour) : fmt::format("{:.1f} days", sec / day);
}

const char* in_words(MemoryVerdict verdict) {
  return verdict == MemoryVerdict::fits        ? "fits"
         : verdict == MemoryVerdict::only_just ? "may or may not fit"
                                               : "does not fit";
}

/// Nothing where it is not known; in colour where a person looks.
std::string verdict_text(const std::optional<MemoryVerdict>& verdict) {
  return verdict ? coloured(*verdict, in_words(*verdict)) : std::string();
}

/// @param workload  a compiled step may fit where the eager one, whose memory is known, does not
void print_memory(const Forecast& job, const Workload& workload) {
  const bool may_fit = workload.compiled && job.verdict == MemoryVerdict::does_not_fit;
  fmt::print("  {:<12} {:>12} GB  (95 %: below {})", "memory", gigabytes(job.memory->device.p50),
             gigabytes(job.memory->device.upper));
  if (job.usable_bytes) fmt::print(" of {} GB", gigabytes(*job.usable_bytes));
  fmt::print("{}{}{}\n", job.verdict ? ", " : "", verdict_text(job.verdict), may_fit ? " uncompiled" : "");
  if (job.memory->reserved.p50 != job.memory->device.p50) {
    const std::string reserved =
        workload.software == Software::pytorch
            ? fmt::format("{} GB reserved by PyTorch", gigabytes(job.memory->reserved.p50))
            : fmt::format("the rest is the driver's; {} may reserve more, as it is set", to_string(workload.software));
    fmt::print("  {:<12} {:>12} GB of it tensors, {}\n", "", gigabytes(job.memory->tensors.p50), reserved);
  }
  if (job.largest_batch) fmt::print("  {:<12} {:>12}\n", "largest batch", *job.largest_batch);
}

void print_advice(const std::vector<Advice>& advice) {
  if (advice.empty()) return;
  std::size_t width = 0;
  for (const Advice& one : advice) width = std::max(width, one.change.size());
  fmt::print("  what would take less, or has more:\n");
  for (const Advice& one : advice) {
    const bool may_fit = one.verdict != MemoryVerdict::does_not_fit;
    fmt::print("    {:<{}} {:>8} GB  {:>5.2f} x the time{}{}\n", one.change, width, gigabytes(one.memory_bytes),
               one.time_factor, may_fit ? ", " : "", may_fit ? verdict_text(one.verdict) : "");
  }
}

void line(const char* name, const Quantiles& q, const char* unit) {
  fmt::print("  {:<12} {:>12.4g} {}  (90 %: {:.4g} .. {:.4g})\n", name, q.p50, unit, q.p05, q.p95);
}

/// As options, joined by commas.
std::string assumed_options(const std::vector<std::optional<Answer>>& answers) {
  std::vector<std::string> assumed;
  for (const auto& answer : answers) {
    if (!answer) continue;
    for (const std::string& field : answer->assumed) {
      const std::string option = cli::WorkloadOptions::option_of(field) + " " + field_text(answer->workload, field);
      if (std::ranges::find(assumed, option) == assumed.end()) assumed.push_back(option);
    }
  }
  return fmt::format("{}", fmt::join(assumed, ", "));
}

void print_step(const Answer& answer) {
  if (!answer.assumed.empty()) fmt::print("  {:<12} {}\n", "assumed", assumed_options({answer}));
  for (const std::string& text : answer.left_out) fmt::print("  {:<12} {}\n", "left out", text);
  line("step", answer.forecast.step_sec, "s");
  if (answer.batches > 1) {
    fmt::print("  {:<12} {:>12} batches of {}\n", "", answer.batches, answer.workload.batch_size);
  }
  const std::int64_t samples = samples_per_step(answer.workload);
  if (answer.workload.knows_epoch() && answer.workload.train_images < samples) {
    fmt::print(
        "  {:<12} {:>12} samples, fewer than a step's {}: its only step is smaller; with drop_last there is none\n",
        "an epoch has", std::int64_t{answer.workload.train_images}, samples);
  }
}

/// All epochs and the start-up, and what was asked for by number.
void print_total(const Answer& answer) {
  const Forecast& job = answer.forecast;
  if (answer.workload.knows_epoch()) {
    fmt::print("  {:<12} {:>14}  (90 %: {} .. {})\n", "total", duration(job.total_sec.p50), duration(job.total_sec.p05),
               duration(job.total_sec.p95));
  }
  for (const QuantileOfJob& one : job.quantiles) {
    fmt::print("  {:<12} {:>14}  for {}\n", fmt::format("{:g} % below", 100 * one.q),
               duration(answer.workload.knows_epoch() ? one.total_sec : one.step_sec),
               answer.workload.knows_epoch() ? "the job" : "a step");
  }
}

void print(const Answer& answer) {
  const Forecast& job = answer.forecast;
  fmt::print("{}\n", in_bold(answer.key));
  print_step(answer);
  if (answer.workload.knows_epoch()) line("epoch", job.prediction.time_sec, "s");
  line("throughput", job.images_per_sec, throughput_unit(std::span(&answer.workload, 1)));
  if (job.tokens_per_sec) line("", *job.tokens_per_sec, "tokens/s");
  print_total(answer);
  if (job.price) line("price", *job.price, answer.currency.c_str());
  if (job.epochs_in_budget) fmt::print("  {:<12} {:>12.0f} epochs\n", "budget", job.epochs_in_budget->p50);
  if (job.memory) print_memory(job, answer.workload);
  if (job.bound) fmt::print("  {:<12} {:>12}\n", "bound by", to_string(*job.bound));
  if (job.mfu) fmt::print("  {:<12} {:>12.1f} % of the peak FLOP/s\n", "utilisation", 100 * *job.mfu);
  std::size_t width = 0;
  for (const TimeTerm& term : job.breakdown) width = std::max(width, term.op.size());
  if (!job.breakdown.empty()) fmt::print("  where the time goes:\n");
  for (const TimeTerm& term : job.breakdown) {
    fmt::print("    {:<{}} {:>10.4g} s {:>6.1f} %\n", term.op, width, term.sec, 100 * term.sec / answer.sec().p50);
  }
  fmt::print("  {:<12} {:>12}\n", "rests on", to_string(job.prediction.provenance));
  for (const Narrowing& narrowing : job.narrow_by) {
    const double now = answer.sec().p95 / answer.sec().p05;
    fmt::print("  say {} and the interval is narrower: p95 / p05 {:.2f}, not {:.2f}\n",
               cli::WorkloadOptions::option_of(narrowing.field), std::exp(2 * narrowing.half_width), now);
  }
  if (job.unknown_bytes > 0) fmt::print("  unknown operators move {:.1f} % of the bytes\n", 100 * job.unknown_bytes);
  if (!job.prediction.in_domain()) fmt::print("  outside what was measured: {}\n", to_string(job.prediction.reason));
  print_advice(answer.advice);
}

/// A column of the table of answers, left out where all its texts are empty.
struct TableColumn {
  std::string heading;
  std::function<std::string(const Answer& answer)> text;
  bool is_number = true;  // to the right
  bool is_verdict = false;
};

std::string median_text(const std::optional<Quantiles>& q) { return q ? fmt::format("{:.4g}", q->p50) : std::string(); }

/// @param epochs  seconds are those of epochs, which all answers have; else of steps
std::vector<TableColumn> table_columns(bool epochs, const char* throughput) {
  using A = Answer;
  const auto sec = [epochs](const A& a) { return epochs ? a.forecast.prediction.time_sec : a.forecast.step_sec; };
  return {
      {epochs ? "epoch s" : "step s", [sec](const A& a) { return median_text(sec(a)); }},
      {"90 % interval", [sec](const A& a) { return fmt::format("{:.4g} .. {:.4g}", sec(a).p05, sec(a).p95); }},
      {throughput, [](const A& a) { return median_text(a.forecast.images_per_sec); }},
      {"tokens/s", [](const A& a) { return median_text(a.forecast.tokens_per_sec); }},
      {"memory GB", [](const A& a) { return a.forecast.memory ? gigabytes(a.forecast.memory->peak_bytes) : ""; }},
      {"of GB", [](const A& a) { return a.forecast.usable_bytes ? gigabytes(*a.forecast.usable_bytes) : ""; }},
      {"verdict", [](const A& a) { return std::string(a.forecast.verdict ? in_words(*a.forecast.verdict) : ""); }, false, true},
      {"total",
       [epochs](const A& a) {
         const double total = a.forecast.total_sec.p50;
         const bool is_shown = a.workload.knows_epoch() && (!epochs || total != a.forecast.prediction.time_sec.p50);
         return is_shown ? duration(total) : "";
       }},
      {"price", [](const A& a) { return median_text(a.forecast.price); }},
      {"epochs",
       [](const A& a) { return a.forecast.epochs_in_budget ? fmt::format("{:.0f}", a.forecast.epochs_in_budget->p50) : ""; }},
      {"rests on", [](const A& a) { return std::string(to_string(a.forecast.prediction.provenance)); }, false},
      {"outside", [](const A& a) { return std::string(to_string(a.forecast.prediction.reason)); }, false}};
}

/// A column for each quantile that was asked for by number.
std::vector<TableColumn> quantile_columns(const std::vector<std::optional<Answer>>& answers) {
  std::vector<TableColumn> columns;
  const auto any = std::find_if(answers.begin(), answers.end(), [](const auto& answer) { return answer.has_value(); });
  for (std::size_t i = 0; any != answers.end() && i < (*any)->forecast.quantiles.size(); ++i) {
    columns.push_back({fmt::format("{:g} % below", 100 * (*any)->forecast.quantiles[i].q), [i](const Answer& answer) {
                         const QuantileOfJob& one = answer.forecast.quantiles[i];
                         return duration(answer.workload.knows_epoch() ? one.total_sec : one.step_sec);
                       }});
  }
  return columns;
}

/// Adds a column to the lines, of which the first is the heading, unless all its texts are empty.
void add_column(std::vector<std::string>& lines, const TableColumn& column,
                const std::vector<std::optional<Answer>>& answers) {
  std::vector<std::string> cells = {column.heading};
  for (const auto& answer : answers) cells.push_back(answer ? column.text(*answer) : std::string());
  if (std::all_of(cells.begin() + 1, cells.end(), [](const std::string& cell) { return cell.empty(); })) return;
  std::size_t width = 0;
  for (const std::string& cell : cells) width = std::max(width, cell.size());
  for (std::size_t i = 0; i < cells.size(); ++i) {
    const bool is_error = i > 0 && !answers[i - 1];
    if (is_error) continue;
    const std::string cell =
        column.is_number ? fmt::format("{:>{}}", cells[i], width) : fmt::format("{:<{}}", cells[i], width);
    const bool painted = column.is_verdict && i > 0 && answers[i - 1]->forecast.verdict;
    lines[i] += "  " + (painted ? coloured(*answers[i - 1]->forecast.verdict, cell) : cell);
  }
}

/// Below a table: what nobody stated, and what answers do not hold.
void print_remarks(const std::vector<std::optional<Answer>>& answers) {
  if (const std::string assumed = assumed_options(answers); !assumed.empty()) fmt::print("assumed {}\n", assumed);
  std::set<std::string> lines;
  for (const auto& answer : answers) {
    if (answer) lines.insert(answer->left_out.begin(), answer->left_out.end());
  }
  for (const std::string& text : lines) fmt::print("left out: {}\n", text);
}

/// One line for each answer: time, throughput, memory and price.
void print_table(const std::vector<AskedRow>& rows, const std::vector<std::optional<Answer>>& answers,
                 const std::string& field) {
  std::vector<std::string> names = {field};
  std::vector<Workload> workloads;
  for (const AskedRow& row : rows) {
    names.push_back(printable(row.text(field)));
    if (row.workload) workloads.push_back(*row.workload);
  }
  std::size_t width = 0;
  for (const std::string& name : names) width = std::max(width, name.size());
  std::vector<std::string> lines;
  for (const std::string& name : names) lines.push_back(fmt::format("{:>{}}", name, width));
  const bool epochs =
      std::all_of(answers.begin(), answers.end(), [](const auto& one) { return !one || one->workload.knows_epoch(); });
  for (const TableColumn& column : table_columns(epochs, throughput_unit(workloads)))
    add_column(lines, column, answers);
  for (const TableColumn& column : quantile_columns(answers)) add_column(lines, column, answers);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0 && !answers[i - 1]) lines[i] += "  " + rows[i - 1].error;
    lines[i].erase(lines[i].find_last_not_of(' ') + 1);
    fmt::print("{}\n", i == 0 ? in_bold(lines[i]) : lines[i]);
  }
  print_remarks(answers);
}

/// One request a line; one answer a line, an object with `error` for a bad request.
void answer_requests(TimeRegressor& model, const ModelRequests& requests, const AnswerTerms& terms) {
  answer_lines(std::cin, stdout, [&](const nlohmann::json& request) {
    const AskedJob asked = read_request(requests, request, terms);
    for (const std::string& note : asked.notes) fmt::print(stderr, "{}\n", note);
    cli::give_rates(model, asked.workload);
    return to_json(perfpred::answer(model, asked.workload, asked.terms));
  });
}

struct Options {
  std::string model_file, configs, out, sweep, step, layer, price_file;
  cli::WorkloadOptions asked;
  cli::DeviceFile device_file;
  AnswerTerms terms;
  bool json = false, jsonl = false;
  std::vector<CLI::Option*> of_terms, of_jobs;

  explicit Options(cli::Program& program) {
    program.add_option("--model", model_file,
                       "model file; default: the standard model, for any network on any device of the catalogue");
    asked.add_to(program);
    device_file.add_to(program);
    cli::add_graphs_options(program);
    CLI::Option* configs_option =
        program.add_option("--configs", configs, "table of workloads; other options fill missing fields");
    program.add_option("--step", step, "a step that perfpred.capture recorded")->excludes(configs_option);
    CLI::Option* out_option =
        program.add_option("--out", out, "predictions.csv; of --configs it goes to standard output without");
    of_terms = {
        program.add_option("--epochs", terms.job.epochs, "epochs of the job")
            ->capture_default_str()
            ->check(cli::positive()),
        program.add_option("--startup-sec", terms.job.startup_sec, "before the first timed epoch")
            ->capture_default_str()
            ->check(cli::not_negative()),
        program.add_option("--price-per-hour", terms.job.price_per_hour, "of the device")->check(cli::not_negative()),
        cli::takes_seconds(program.add_option("--budget-sec", terms.job.budget_sec,
                                              "seconds or 12:00:00; the epochs that fit are shown"))
            ->check(cli::positive())};
    program
        .add_option("--quantile", terms.job.quantiles,
                    "seconds that the job takes no longer than with this probability, such as 0.999; may be repeated")
        ->check(cli::number_where("above 0 and below 1", [](double q) { return q > 0 && q < 1; }))
        ->allow_extra_args(false);
    program.add_option("--train-tokens", terms.train_tokens, "tokens an epoch, in place of --train-images")
        ->check(CLI::PositiveNumber);
    program.add_option("--prices", price_file, "table of prices: device, price_per_hour, currency");
    program
        .add_option("--reserved-by-others", terms.job.reserved_by_others,
                    "of the device's memory, bytes or as 1500MB, 2GiB: a desktop's or a neighbour's")
        ->transform(CLI::AsSizeValue(true));
    CLI::Option* json_option = program.add_flag("--json", json, "one JSON document on stdout");
    CLI::Option* sweep_option =
        program.add_option("--sweep", sweep, "what-if table over one field: batch_size=32,64,128")
            ->excludes(configs_option);
    CLI::Option* jsonl_option =
        program.add_flag("--jsonl", jsonl, "answer requests from stdin, one JSON object a line")
            ->excludes(configs_option, out_option, sweep_option, json_option);
    program.add_option("--layer", layer, "one layer, as conv2d:in=64,out=128,kernel=3,size=56, in place of a network")
        ->excludes(configs_option, out_option, sweep_option, jsonl_option, program.get_option("--step"));
    of_jobs = of_terms;
    for (const char* name :
         {"--train-tokens", "--prices", "--reserved-by-others", "--quantile", "--graphs", "--op-rules"}) {
      of_jobs.push_back(program.get_option(name));
    }
  }

  /// Whether predictions.csv is all that is asked for.
  [[nodiscard]] bool table_only() const { return !configs.empty() && !json; }

  [[nodiscard]] std::string swept() const { return sweep.substr(0, sweep.find('=')); }

  /// One job without a device, and without runs that have one, is one for this machine's GPU.
  void take_own_gpu(const TimeRegressor& model) {
    if (jsonl || !configs.empty() || swept() == "device" || !model.fitted_rows().empty()) return;
    if (const std::string note = asked.take_gpu(terms.job.reserved_by_others); !note.empty())
      fmt::print(stderr, "perfpred-predict: {}\n", note);
  }

  /// AnswerTerms::of_epochs
  [[nodiscard]] std::string term_of_epochs() const {
    for (const CLI::Option* option : of_terms) {
      if (option->count() > 0) return option->get_name();
    }
    return price_file.empty() ? "" : "--prices";
  }
};

void say_unanswered(const std::vector<AskedRow>& rows) {
  if (const std::string text = unanswered_text(rows); !text.empty()) fmt::print(stderr, "perfpred-predict: {}\n", text);
}

void show(const Options& given, const std::vector<AskedRow>& rows,
          const std::vector<std::optional<Answer>>& answers) {
  if (given.json) {
    nlohmann::json list = nlohmann::json::array();
    for (std::size_t i = 0; i < rows.size(); ++i) list.push_back(answers[i] ? to_json(*answers[i]) : to_json(rows[i]));
    const bool one = given.configs.empty() && given.sweep.empty() && list.size() == 1;
    fmt::print("{}\n", dumped(one ? list.front() : list, 2));
  } else if (!given.sweep.empty()) {
    print_table(rows, answers, given.swept());
  } else if (!given.table_only()) {  // more than one where devices share the name
    for (std::size_t i = 0; i < rows.size(); ++i) {
      if (answers[i]) print(*answers[i]);
    }
  }
}

void answer_jobs(const Options& given, TimeRegressor& model, const ModelRequests& requests) {
  std::vector<AskedRow> rows =
      given.configs.empty() ? requests.of_options(given.sweep) : requests.of_table(given.configs);
  AnswerTerms terms = given.terms;
  terms.advises = given.json || (given.sweep.empty() && given.configs.empty());  // tables show no advice
  const auto answers =
      answer_rows(model, rows, terms, [&](const Workload& workload) { cli::give_rates(model, workload); });
  const std::string table = given.out.empty() && given.table_only() ? "/dev/stdout" : given.out;
  if (!table.empty()) write_predictions(table, rows, answers);
  say_unanswered(rows);
  show(given, rows, answers);
}

void answer_layer_request(const Options& given) {
  cli::refuse(given.of_jobs, "jobs; --layer is one layer's step");
  const std::string* device = given.asked.find("device");
  if (device == nullptr) throw InputError("--device is missing");
  if (given.asked.find("batch_size") == nullptr) throw InputError("--batch-size is missing");
  const LayerCase layer = asked_layer(given.layer, given.asked.fields());
  const LayerAnswer answer = answer_layer(given.model_file, layer, *device, given.device_file.catalogue_for(*device));
  const std::array<std::pair<const char*, std::optional<Quantiles>>, 4> parts = {{{"forward", answer.time.forward},
                                                                                  {"backward", answer.time.backward},
                                                                                  {"optimizer", answer.time.optimizer},
                                                                                  {"step", answer.time.step}}};
  nlohmann::json sec;
  for (const auto& [name, part] : parts) sec[name] = part ? to_json(*part) : nlohmann::json();
  if (given.json) {
    fmt::print("{}\n", dumped(nlohmann::json{{"layer", layer_text(layer)},
                                             {"batch_size", layer.batch_size},
                                             {"optimizer", to_string(layer.optimizer)},
                                             {"precision", to_string(layer.precision)},
                                             {"device", answer.device},
                                             {"layer_sec", sec},
                                             {"provenance", to_string(answer.time.provenance)}},
                              2));
    return;
  }
  fmt::print("{}, batch size {}, {}, {} on {}\n", in_bold(layer_text(layer)), layer.batch_size,
             to_string(layer.precision), to_string(layer.optimizer), answer.device);
  for (const auto& [name, part] : parts) {
    if (!part) continue;
    fmt::print("  {:<12} {:>12.4g} ms  (90 %: {:.4g} .. {:.4g})\n", name, 1e3 * part->p50, 1e3 * part->p05,
               1e3 * part->p95);
  }
  fmt::print("  {:<12} {:>12}\n", "rests on", to_string(answer.time.provenance));
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("predict", "Predicts time, throughput, memory and price of a training job, and what limits it.",
                       "perfpred-predict --model model.json --depth 3 --base-filters 32 --batch-size 512");
  Options given(program);
  return program.run(argc, argv, [&] {
    if (!given.layer.empty()) return answer_layer_request(given);
    const DeviceCatalogue devices = given.device_file.catalogue();
    if (!given.price_file.empty()) given.terms.prices = read_prices(given.price_file, devices);
    given.terms.of_epochs = given.term_of_epochs();
    if (!given.step.empty()) {
      const StepFile step = add_graph(given.step);  // before the model is read, which may have rows of it
      cli::print_notes(step, given.step);
      given.asked.take(step, given.swept());
    }
    TimeRegressor model =
        given.model_file.empty() ? TimeRegressor::standard(devices) : TimeRegressor::load(given.model_file, devices);
    given.take_own_gpu(model);
    const ModelRequests requests(model, given.asked.fields());
    if (given.jsonl) {
      answer_requests(model, requests, given.terms);
    } else {
      answer_jobs(given, model, requests);
    }
  });
}
