// SPDX-License-Identifier: Apache-2.0
// perfpred-predict: what a fitted model expects of workloads.
#include <perfpred/device.h>
#include <perfpred/forecast.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <iostream>

#include "cli.h"
#include "tools/predictions_file.h"
#include "workload_options.h"

using namespace perfpred;

namespace {

nlohmann::json to_json(const Quantiles& q) { return {{"p05", q.p05}, {"p50", q.p50}, {"p95", q.p95}}; }

template <class Value, class Convert>
nlohmann::json or_null(const std::optional<Value>& value, const Convert& convert) {
  return value ? nlohmann::json(convert(*value)) : nlohmann::json(nullptr);
}

nlohmann::json to_json(const Workload& workload, const Forecast& job) {
  const auto quantiles = [](const Quantiles& q) { return to_json(q); };
  const auto itself = [](const auto& value) { return value; };
  nlohmann::json breakdown = nlohmann::json::array();
  for (const TimeTerm& term : job.breakdown) {
    breakdown.push_back({{"op", term.op}, {"sec", term.sec}, {"share", term.sec / job.prediction.time_sec.p50}});
  }
  nlohmann::json json = {{"key", workload.key()},
                         {"time_sec", to_json(job.prediction.time_sec)},
                         {"images_per_sec", to_json(job.images_per_sec)},
                         {"total_sec", to_json(job.total_sec)},
                         {"price", or_null(job.price, quantiles)},
                         {"memory_bytes", or_null(job.memory_bytes, itself)},
                         {"fits", or_null(job.fits, itself)},
                         {"bound", or_null(job.bound, [](Bound bound) { return to_string(bound); })},
                         {"breakdown", breakdown.empty() ? nlohmann::json(nullptr) : breakdown},
                         {"in_domain", job.prediction.in_domain()},
                         {"reason", to_string(job.prediction.reason)}};
  if (job.epochs_in_budget) json["epochs_in_budget"] = to_json(*job.epochs_in_budget);
  return json;
}

void print(const Workload& workload, const Forecast& job) {
  fmt::print("{}\n", workload.key());
  const auto line = [](const char* name, const Quantiles& q, const char* unit) {
    fmt::print("  {:<12} {:>12.4g} {}  (90 %: {:.4g} .. {:.4g})\n", name, q.p50, unit, q.p05, q.p95);
  };
  line("epoch", job.prediction.time_sec, "s");
  line("throughput", job.images_per_sec, "images/s");
  line("total", job.total_sec, "s");
  if (job.price) line("price", *job.price, "");
  if (job.epochs_in_budget) fmt::print("  {:<12} {:>12.0f} epochs\n", "budget", job.epochs_in_budget->p50);
  if (job.memory_bytes) {
    fmt::print("  {:<12} {:>12.1f} MB{}\n", "memory", static_cast<double>(*job.memory_bytes) / 1e6,
               !job.fits   ? ""
               : *job.fits ? ", fits"
                           : ", does not fit");
  }
  if (job.bound) fmt::print("  {:<12} {:>12}\n", "bound by", to_string(*job.bound));
  for (const TimeTerm& term : job.breakdown) {
    fmt::print("    {:<24} {:>10.4f} s {:>6.1f} %\n", term.op, term.sec, 100 * term.sec / job.prediction.time_sec.p50);
  }
  if (!job.prediction.in_domain()) fmt::print("  outside what was measured: {}\n", to_string(job.prediction.reason));
}

/// "batch_size=32,64" -> the workloads with that field replaced, in order.
std::vector<Workload> sweep_workloads(const std::string& sweep, const Workload& base) {
  const auto equals = sweep.find('=');
  if (equals == std::string::npos) throw InputError("--sweep is not field=value,value,...");
  const std::string field = sweep.substr(0, equals);
  std::vector<Workload> workloads;
  for (const std::string& value : CLI::detail::split(sweep.substr(equals + 1), ',')) {
    workloads.push_back(with_field(base, field, value));
    workloads.back().validate();
  }
  return workloads;
}

void print_table(const std::vector<Workload>& workloads, const std::vector<Forecast>& jobs, const std::string& field) {
  const bool budget = jobs.front().epochs_in_budget.has_value();
  fmt::print("{:>14} {:>12} {:>25} {:>12} {}{}\n", field, "epoch s", "90 % interval", "images/s",
             budget ? "  epochs " : "", " outside");
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const Quantiles& sec = jobs[i].prediction.time_sec;
    fmt::print("{:>14} {:>12.4g} {:>25} {:>12.0f} {} {}\n", field_text(workloads[i], field), sec.p50,
               fmt::format("{:.4g} .. {:.4g}", sec.p05, sec.p95), jobs[i].images_per_sec.p50,
               budget ? fmt::format("{:>8.0f}", jobs[i].epochs_in_budget->p50) : "",
               to_string(jobs[i].prediction.reason));
  }
}

/// One request a line, an object of workload fields; one answer a line, an object with `error` for a bad request.
void answer_lines(const TimeRegressor& model, const DeviceCatalogue& devices, const Workload& defaults,
                  const JobTerms& terms) {
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    nlohmann::json answer;
    try {
      const nlohmann::json request = nlohmann::json::parse(line, nullptr, false);
      if (!request.is_object()) throw InputError("a request is a JSON object of workload fields");
      Workload workload = defaults;
      if (request.contains("network") && request["network"] != workload.network)
        workload.depth = workload.base_filters = std::nullopt;
      for (const auto& [name, value] : request.items()) {
        workload = with_field(workload, name, value.is_string() ? value.get<std::string>() : value.dump());
      }
      answer = to_json(workload, forecast(model, devices, workload, terms));
    } catch (const InputError& error) {
      answer = {{"error", error.what()}};
    }
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("predict", "Predicts time, throughput, memory, bound and price of a training job.",
                       "perfpred-predict --model model.json --depth 3 --base-filters 32 --batch-size 512");
  std::string model_file, configs, out;
  cli::WorkloadOptions asked;
  JobTerms terms;
  std::string sweep;
  bool json = false, jsonl = false;
  program.add_option("--model", model_file, "model file")->required();
  asked.add_to(program);
  program.add_option("--configs", configs, "table of workloads");
  program.add_option("--out", out, "predictions.csv");
  program.add_option("--epochs", terms.epochs, "epochs of the job")->capture_default_str()->check(cli::positive());
  program.add_option("--startup-sec", terms.startup_sec, "before the first timed epoch")
      ->capture_default_str()
      ->check(cli::not_negative());
  program.add_option("--price-per-hour", terms.price_per_hour, "of the device")->check(cli::not_negative());
  program.add_flag("--json", json, "one JSON document on stdout");
  program.add_option("--sweep", sweep, "what-if table over one field: batch_size=32,64,128");
  program.add_option("--budget-sec", terms.budget_sec, "seconds; the epochs that fit are shown")
      ->check(cli::positive());
  program.add_flag("--jsonl", jsonl, "answer requests from stdin, one JSON object a line");
  return program.run(argc, argv, [&] {
    const TimeRegressor model = TimeRegressor::load(model_file);
    const DeviceCatalogue devices;
    if (asked.device && *asked.device != model.example().device) asked.device = devices.full_name(*asked.device);
    const Workload defaults = asked.apply_to(model.example());
    if (jsonl) {
      answer_lines(model, devices, defaults, terms);
      return;
    }
    std::vector<Workload> workloads;
    if (!sweep.empty()) {
      workloads = sweep_workloads(sweep, defaults);
    } else if (!configs.empty()) {
      workloads = read_workloads(configs, defaults);
    } else {
      if (!asked.batch_size) throw InputError("--batch-size is missing");
      if (!asked.network || *asked.network == "cifar_cnn") {
        if (!asked.depth) throw InputError("--depth is missing");
        if (!asked.base_filters) throw InputError("--base-filters is missing");
      }
      workloads.push_back(defaults);
    }
    if (!out.empty()) write_predictions(out, workloads, model.predict(workloads));
    if (!out.empty() && !configs.empty() && !json) return;
    std::vector<Forecast> jobs;
    for (const Workload& workload : workloads) jobs.push_back(forecast(model, devices, workload, terms));
    if (json) {
      nlohmann::json list = nlohmann::json::array();
      for (std::size_t i = 0; i < workloads.size(); ++i) list.push_back(to_json(workloads[i], jobs[i]));
      fmt::print("{}\n", (configs.empty() && sweep.empty() ? list.front() : list).dump(2));
    } else if (!sweep.empty()) {
      print_table(workloads, jobs, sweep.substr(0, sweep.find('=')));
    } else {
      for (std::size_t i = 0; i < workloads.size(); ++i) print(workloads[i], jobs[i]);
    }
  });
}
