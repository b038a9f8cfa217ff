// SPDX-License-Identifier: Apache-2.0
// perfpred-predict: what a fitted model expects of workloads.
#include <perfpred/forecast.h>
#include <perfpred/step_file.h>
#include <perfpred/time_regressor.h>
#include <perfpred/timeline.h>
#include <perfpred/workload.h>

#include <array>
#include <iostream>

#include "answer/answer_json.h"
#include "cli.h"
#include "device_file.h"
#include "graphs_option.h"
#include "text/files.h"
#include "tools/answer_lines.h"
#include "tools/answer_rows.h"
#include "tools/answer_text.h"
#include "tools/json_request.h"
#include "tools/layer_answer.h"
#include "tools/model_requests.h"
#include "tools/predictions_file.h"
#include "tools/terminal_text.h"
#include "workload_options.h"

namespace perfpred::cli {
namespace {

/// One request a line; one answer a line, an object with `error` for a bad request.
void answer_requests(TimeRegressor& model, const ModelRequests& requests, const AnswerTerms& terms) {
  answer_lines(std::cin, stdout, [&](const nlohmann::json& request) {
    const AskedJob asked = read_request(requests, request, terms);
    for (const std::string& note : asked.notes) fmt::print(stderr, "{}\n", note);
    give_rates(model, asked.workload);
    return to_json(perfpred::answer(model, asked.workload, asked.terms));
  });
}

struct PredictOptions {
  std::string model_file, configs, out, sweep, step, layer, price_file, lengths, trace;
  WorkloadOptions asked;
  DeviceFile device_file;
  AnswerTerms terms;
  bool json = false, jsonl = false;
  std::vector<CLI::Option*> of_terms, of_jobs;

  explicit PredictOptions(Program& program) {
    program.add_option("--model", model_file,
                       "model file; default: the standard model, for any network on any device of the catalogue");
    asked.add_to(program);
    device_file.add_to(program);
    device_file.add_links_to(program);
    add_graphs_options(program);
    CLI::Option* configs_option =
        program.add_option("--configs", configs, "table of workloads; other options fill missing fields");
    program.add_option("--step", step, "a step that perfpred.capture recorded")->excludes(configs_option);
    CLI::Option* out_option =
        program.add_option("--out", out, "predictions.csv; of --configs it goes to standard output without");
    add_terms(program);
    program
        .add_option("--quantile", terms.job.quantiles,
                    "seconds that the job takes no longer than with this probability, such as 0.999; may be repeated")
        ->check(number_where("above 0 and below 1", [](double q) { return q > 0 && q < 1; }))
        ->allow_extra_args(false);
    program.add_option("--max-steps", terms.max_steps, "updates of the job, in place of --epochs")
        ->check(positive())
        ->excludes(program.get_option("--epochs"));
    program.add_option("--train-tokens", terms.train_tokens, "tokens an epoch, in place of --train-images")
        ->check(positive());
    program.add_option("--lengths", lengths, "of texts: a file with one a line, or mean=600,p95=1800,max=4096");
    program.add_flag("--group-by-length", terms.group_by_length, "texts of alike lengths come together in a batch")
        ->needs(program.get_option("--lengths"));
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
    program.add_option("--trace", trace, "the predicted step over time, for Perfetto or chrome://tracing")
        ->excludes(configs_option, sweep_option, jsonl_option);
    program.add_option("--layer", layer, "one layer, as conv2d:in=64,out=128,kernel=3,size=56, in place of a network")
        ->excludes(configs_option, out_option, sweep_option, jsonl_option, program.get_option("--step"));
    of_jobs = of_terms;
    for (const char* name : {"--max-steps", "--train-tokens", "--lengths", "--prices", "--reserved-by-others",
                             "--quantile", "--graphs", "--op-rules", "--trace"}) {
      of_jobs.push_back(program.get_option(name));
    }
  }

  /// Terms that need an epoch that is known.
  void add_terms(Program& program) {
    of_terms = {
        program.add_option("--epochs", terms.job.epochs, "epochs of the job")->capture_default_str()->check(positive()),
        program.add_option("--startup-sec", terms.job.startup_sec, "before the first timed epoch")
            ->capture_default_str()
            ->check(not_negative()),
        program
            .add_option("--evaluation", terms.job.evaluation, "samples that the network is judged on after each epoch")
            ->check(not_negative()),
        takes_seconds(program.add_option("--checkpoint-sec", terms.job.checkpoint_sec, "to write the network once"))
            ->check(not_negative()),
        program.add_option("--checkpoint-every", terms.job.checkpoint_every, "epochs from one writing to the next")
            ->check(positive())
            ->needs(program.get_option("--checkpoint-sec")),
        program.add_option("--price-per-hour", terms.job.price_per_hour, "of each device")->check(not_negative()),
        takes_seconds(program.add_option("--budget-sec", terms.job.budget_sec,
                                         "seconds or 12:00:00; the epochs that fit are shown"))
            ->check(positive())};
  }

  /// Whether predictions.csv is all that is asked for.
  [[nodiscard]] bool table_only() const { return !configs.empty() && !json; }

  [[nodiscard]] std::string swept() const { return sweep.substr(0, sweep.find('=')); }

  /// One job without a device, and without runs that have one, is one for this machine's GPU.
  void take_own_gpu(const TimeRegressor& model) {
    if (jsonl || !configs.empty() || swept() == "device" || !model.fitted_rows(false).empty()) return;
    if (const std::string note = asked.take_gpu(terms.job.reserved_by_others); !note.empty())
      fmt::print(stderr, "perfpred-predict: {}\n", note);
  }

  /// @throws InputError for links that nothing asked for uses
  void check_links() const {
    const bool names_cluster = asked.find("cluster") != nullptr || swept() == "cluster" || jsonl || !configs.empty();
    if (!device_file.links.empty() && !names_cluster) throw InputError("--links needs --cluster, one of its clusters");
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

void show(const PredictOptions& given, const std::vector<AskedRow>& rows,
          const std::vector<std::optional<Answer>>& answers) {
  if (given.json) {
    nlohmann::json list = nlohmann::json::array();
    for (std::size_t i = 0; i < rows.size(); ++i) list.push_back(answers[i] ? to_json(*answers[i]) : to_json(rows[i]));
    const bool one = given.configs.empty() && given.sweep.empty() && list.size() == 1;
    fmt::print("{}\n", dumped(one ? list.front() : list, 2));
  } else if (!given.sweep.empty()) {
    std::vector<AnswerLine> lines;
    for (std::size_t i = 0; i < rows.size(); ++i)
      lines.push_back({{printable(rows[i].text(given.swept()))}, answers[i], rows[i].error});
    fmt::print("{}", table_text({given.swept()}, lines, Reader::terminal));
  } else if (!given.table_only()) {  // more than one where devices share the name
    for (const auto& answer : answers) {
      if (answer) fmt::print("{}", answer_text(*answer, Reader::terminal));
    }
  }
}

void write_trace(const std::string& path, const TimeRegressor& model, const std::vector<AskedRow>& rows) {
  const std::vector<Workload> jobs = workloads_of(rows);
  if (jobs.size() > 1) throw InputError("--trace: the device's name is that of several");
  JobTerms terms;
  terms.unstated = rows.front().unstated;
  write_file(path, trace_json(timeline(model, jobs.front(), terms)) + "\n");
}

void answer_jobs(const PredictOptions& given, TimeRegressor& model, const ModelRequests& requests) {
  std::vector<AskedRow> rows =
      given.configs.empty() ? requests.of_options(given.sweep) : requests.of_table(given.configs);
  AnswerTerms terms = given.terms;
  terms.advises = given.json || (given.sweep.empty() && given.configs.empty());  // tables show no advice
  const auto answers = answer_rows(model, rows, terms, [&](const Workload& workload) { give_rates(model, workload); });
  const std::string table = given.out.empty() && given.table_only() ? "/dev/stdout" : given.out;
  if (!table.empty()) write_predictions(table, rows, answers);
  say_unanswered(rows);
  if (!given.trace.empty()) write_trace(given.trace, model, rows);
  show(given, rows, answers);
}

void answer_layer_request(const PredictOptions& given) {
  refuse(given.of_jobs, "jobs; --layer is one layer's step");
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

int predict_command(int argc, char** argv) {
  Program program("predict", "perfpred-predict --model model.json --depth 3 --base-filters 32 --batch-size 512");
  PredictOptions given(program);
  return program.run(argc, argv, [&] {
    if (!given.layer.empty()) return answer_layer_request(given);
    given.check_links();
    const DeviceCatalogue devices = given.device_file.catalogue();
    if (!given.price_file.empty()) given.terms.prices = read_prices(given.price_file, devices);
    if (!given.lengths.empty()) given.terms.lengths = TextLengths::parse(given.lengths);
    given.terms.of_epochs = given.term_of_epochs();
    if (!given.step.empty()) {
      const StepFile step = add_graph(given.step);  // before the model is read, which may have rows of it
      print_notes(step, given.step);
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

}  // namespace perfpred::cli
