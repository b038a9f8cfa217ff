// SPDX-License-Identifier: Apache-2.0
// perfpred-predict: what a fitted model expects of workloads.
#include <perfpred/forecast.h>
#include <perfpred/step_file.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>
#include <unordered_map>

#include "cli.h"
#include "device_file.h"
#include "graphs_option.h"
#include "text/json.h"
#include "tools/job_answer.h"
#include "tools/model_requests.h"
#include "tools/predictions_file.h"
#include "tools/workload_labels.h"
#include "workload_options.h"

using namespace perfpred;

namespace {

nlohmann::json to_json(const Quantiles& q) { return {{"p05", q.p05}, {"p50", q.p50}, {"p95", q.p95}}; }

nlohmann::json to_json(const JobAnswer& answer) {
  const Forecast& job = answer.job;
  nlohmann::json breakdown = nlohmann::json::array();
  for (const TimeTerm& term : job.breakdown) {
    breakdown.push_back({{"op", term.op}, {"sec", term.sec}, {"share", term.sec / job.prediction.time_sec.p50}});
  }
  nlohmann::json narrow_by = nlohmann::json::array(), narrow_to = nlohmann::json::array();
  for (const Narrowing& narrowing : job.narrow_by) {
    narrow_by.push_back(narrowing.field);
    narrow_to.push_back(std::exp(2 * narrowing.half_width));
  }
  nlohmann::json json = {{"key", answer.key},
                         {"time_sec", to_json(job.prediction.time_sec)},
                         {"images_per_sec", to_json(job.images_per_sec)},
                         {"total_sec", to_json(job.total_sec)},
                         {"price", job.price ? to_json(*job.price) : nlohmann::json()},
                         {"memory_bytes", or_null(job.memory_bytes)},
                         {"fits", or_null(job.fits)},
                         {"bound", job.bound ? nlohmann::json(to_string(*job.bound)) : nlohmann::json()},
                         {"breakdown", breakdown.empty() ? nlohmann::json() : breakdown},
                         {"step_sec", to_json(job.step_sec)},
                         {"narrow_by", narrow_by},
                         {"narrow_to", narrow_to},
                         {"provenance", to_string(job.prediction.provenance)},
                         {"unknown_bytes", job.unknown_bytes},
                         {"in_domain", job.prediction.in_domain()},
                         {"reason", to_string(job.prediction.reason)}};
  if (job.epochs_in_budget) json["epochs_in_budget"] = to_json(*job.epochs_in_budget);
  if (answer.knows_epoch) return json;
  for (const char* key : {"time_sec", "total_sec", "price"}) json[key] = nullptr;
  return json;
}

void print(const JobAnswer& answer) {
  const Forecast& job = answer.job;
  fmt::print("{}\n", answer.key);
  const auto line = [](const char* name, const Quantiles& q, const char* unit) {
    fmt::print("  {:<12} {:>12.4g} {}  (90 %: {:.4g} .. {:.4g})\n", name, q.p50, unit, q.p05, q.p95);
  };
  line("step", job.step_sec, "s");
  if (answer.knows_epoch) line("epoch", job.prediction.time_sec, "s");
  line("throughput", job.images_per_sec, throughput_unit(std::span(&answer.workload, 1)));
  if (answer.knows_epoch) line("total", job.total_sec, "s");
  if (job.price) line("price", *job.price, "");
  if (job.epochs_in_budget) fmt::print("  {:<12} {:>12.0f} epochs\n", "budget", job.epochs_in_budget->p50);
  if (job.memory_bytes) {
    fmt::print("  {:<12} {:>12.1f} MB{}\n", "memory", static_cast<double>(*job.memory_bytes) / 1e6,
               !job.fits   ? ""
               : *job.fits ? ", fits"
                           : ", does not fit");
  }
  if (job.bound) fmt::print("  {:<12} {:>12}\n", "bound by", to_string(*job.bound));
  std::size_t width = 0;
  for (const TimeTerm& term : job.breakdown) width = std::max(width, term.op.size());
  for (const TimeTerm& term : job.breakdown) {
    fmt::print("    {:<{}} {:>10.4g} s {:>6.1f} %\n", term.op, width, term.sec,
               100 * term.sec / job.prediction.time_sec.p50);
  }
  fmt::print("  {:<12} {:>12}\n", "rests on", to_string(job.prediction.provenance));
  for (const Narrowing& narrowing : job.narrow_by) {
    const double now = job.prediction.time_sec.p95 / job.prediction.time_sec.p05;
    fmt::print("  say {} and the interval is narrower: p95 / p05 {:.2f}, not {:.2f}\n",
               cli::WorkloadOptions::option_of(narrowing.field), std::exp(2 * narrowing.half_width), now);
  }
  if (job.unknown_bytes > 0) fmt::print("  unknown operators move {:.1f} % of the bytes\n", 100 * job.unknown_bytes);
  if (!job.prediction.in_domain()) fmt::print("  outside what was measured: {}\n", to_string(job.prediction.reason));
}

void print_table(const std::vector<Workload>& workloads, const std::vector<JobAnswer>& answers,
                 const std::string& field) {
  const bool budget = answers.front().job.epochs_in_budget.has_value();
  fmt::print("{:>14} {:>12} {:>25} {:>12} {:>10} {}{}\n", field, answers.front().knows_epoch ? "epoch s" : "step s",
             "90 % interval", throughput_unit(workloads), "memory MB", budget ? "  epochs " : "", " outside");
  for (const JobAnswer& answer : answers) {
    const Forecast& job = answer.job;
    const Quantiles& sec = job.prediction.time_sec;
    fmt::print("{:>14} {:>12.4g} {:>25} {:>12.4g} {:>10} {} {}{}\n", field_text(answer.workload, field), sec.p50,
               fmt::format("{:.4g} .. {:.4g}", sec.p05, sec.p95), job.images_per_sec.p50,
               job.memory_bytes ? fmt::format("{:.1f}", static_cast<double>(*job.memory_bytes) / 1e6) : "",
               budget ? fmt::format("{:>8.0f}", job.epochs_in_budget->p50) : "", to_string(job.prediction.reason),
               job.fits.value_or(true) ? "" : " does not fit");
  }
}

/// The answer to one request, an object of workload fields. @throws InputError
std::string answer_line(TimeRegressor& model, const ModelRequests& requests, const JobTerms& terms,
                        const std::string& line) {
  const nlohmann::json request = nlohmann::json::parse(line, nullptr, false);
  if (!request.is_object()) throw InputError("a request is a JSON object of workload fields");
  std::vector<SweptField> fields;
  for (const auto& [name, value] : request.items()) {
    fields.push_back({name, {value.is_string() ? value.get<std::string>() : value.dump()}});
  }
  const bool images_given = is_given(fields, "train_images") || is_given(requests.given(), "train_images");
  const Workload workload = requests.of_fields(fields);
  cli::give_rates(model, workload);
  JobTerms own = terms;
  own.unstated = requests.unstated(fields);
  return to_json(answer_job(model, workload, own, images_given)).dump();
}

/// One request a line; one answer a line, an object with `error` for a bad request. A line that was answered before
/// gets the same answer at once.
void answer_lines(TimeRegressor& model, const ModelRequests& requests, const JobTerms& terms) {
  constexpr std::size_t max_known = 100'000;
  std::unordered_map<std::string, std::string> known;
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      auto answer = known.find(line);
      if (answer == known.end()) {
        if (known.size() == max_known) known.clear();
        answer = known.emplace(line, answer_line(model, requests, terms, line)).first;
      }
      fmt::print("{}\n", answer->second);
    } catch (const InputError& error) {
      fmt::print("{}\n", nlohmann::json{{"error", error.what()}}.dump());
    }
    std::fflush(stdout);
  }
}

struct Options {
  std::string model_file, configs, out, sweep, step;
  cli::WorkloadOptions asked;
  cli::DeviceFile device_file;
  JobTerms terms;
  bool json = false, jsonl = false;
  std::vector<CLI::Option*> of_terms;

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
        program.add_option("--epochs", terms.epochs, "epochs of the job")
            ->capture_default_str()
            ->check(cli::positive()),
        program.add_option("--startup-sec", terms.startup_sec, "before the first timed epoch")
            ->capture_default_str()
            ->check(cli::not_negative()),
        program.add_option("--price-per-hour", terms.price_per_hour, "of the device")->check(cli::not_negative()),
        program.add_option("--budget-sec", terms.budget_sec, "seconds; the epochs that fit are shown")
            ->check(cli::positive())};
    CLI::Option* json_option = program.add_flag("--json", json, "one JSON document on stdout");
    CLI::Option* sweep_option =
        program.add_option("--sweep", sweep, "what-if table over one field: batch_size=32,64,128")
            ->excludes(configs_option);
    program.add_flag("--jsonl", jsonl, "answer requests from stdin, one JSON object a line")
        ->excludes(configs_option, out_option, sweep_option, json_option);
  }

  /// Whether only predictions.csv is written.
  [[nodiscard]] bool table_only() const { return !configs.empty() && !json; }

  [[nodiscard]] std::string swept() const { return sweep.substr(0, sweep.find('=')); }

  /// Refuses options of a job where no job is shown.
  void check_terms() const {
    for (const CLI::Option* option : of_terms) {
      if (option->count() == 0) continue;
      if (table_only()) throw InputError(option->get_name() + " changes nothing in predictions.csv; add --json");
      const bool in_budget =
          option->get_name() == "--budget-sec" || (terms.budget_sec && option->get_name() == "--startup-sec");
      if (!sweep.empty() && !json && !in_budget)
        throw InputError(option->get_name() + " changes nothing in the table of --sweep; add --json");
    }
  }

  /// Refuses options of epochs for a captured step without --train-images.
  void check_knows_epoch() const {
    for (const CLI::Option* option : of_terms) {
      if (option->count() > 0) throw InputError(option->get_name() + " needs --train-images for a captured step");
    }
    if (!out.empty()) throw InputError("--out holds times of epochs; a captured step needs --train-images for it");
  }
};

void answer_table(const Options& given, TimeRegressor& model, const ModelRequests& requests) {
  std::vector<Prediction> predictions;
  const std::vector<Workload> workloads = requests.of_table(given.configs, [&](const Workload& workload) {
    cli::give_rates(model, workload);
    predictions.push_back(model.predict(workload));
  });
  write_predictions(given.out.empty() ? "/dev/stdout" : given.out, workloads, predictions);
}

void answer_jobs(const Options& given, TimeRegressor& model, const ModelRequests& requests) {
  const bool images_given =
      !given.configs.empty() || given.swept() == "train_images" || is_given(requests.given(), "train_images");
  std::vector<Prediction> predictions;
  std::vector<JobAnswer> answers;
  JobTerms terms = given.terms;
  if (given.configs.empty()) terms.unstated = requests.unstated();
  std::erase(terms.unstated, given.swept());
  const auto answer = [&](const Workload& workload) {
    cli::give_rates(model, workload);
    answers.push_back(answer_job(model, workload, terms, images_given));
    if (!answers.back().knows_epoch) given.check_knows_epoch();
    predictions.push_back(answers.back().job.prediction);
  };
  std::vector<Workload> workloads;
  if (given.configs.empty()) {
    workloads = requests.of_options(given.sweep);
    std::for_each(workloads.begin(), workloads.end(), answer);
  } else {
    workloads = requests.of_table(given.configs, answer);
  }
  if (!given.out.empty()) write_predictions(given.out, workloads, predictions);
  if (given.json) {
    nlohmann::json list = nlohmann::json::array();
    for (const JobAnswer& one : answers) list.push_back(to_json(one));
    fmt::print("{}\n", (given.configs.empty() && given.sweep.empty() ? list.front() : list).dump(2));
  } else if (!given.sweep.empty()) {
    print_table(workloads, answers, given.swept());
  } else {
    print(answers.front());
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("predict", "Predicts time, throughput, memory and price of a training job, and what limits it.",
                       "perfpred-predict --model model.json --depth 3 --base-filters 32 --batch-size 512");
  Options given(program);
  return program.run(argc, argv, [&] {
    given.check_terms();
    const DeviceCatalogue devices = given.device_file.catalogue();
    TimeRegressor model =
        given.model_file.empty() ? TimeRegressor::standard(devices) : TimeRegressor::load(given.model_file, devices);
    if (!given.step.empty()) given.asked.take(add_graph(given.step), given.swept());
    const ModelRequests requests(model, given.asked.fields());
    if (given.jsonl) {
      answer_lines(model, requests, given.terms);
    } else if (given.table_only()) {
      answer_table(given, model, requests);
    } else {
      answer_jobs(given, model, requests);
    }
  });
}
