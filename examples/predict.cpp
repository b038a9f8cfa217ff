// perfpred-predict: what a fitted model expects of workloads.
#include <perfpred/predictions_file.h>
#include <perfpred/throughput_deriver.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload_field.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <iostream>

#include "cli.h"
#include "workload_options.h"

using namespace perfpred;

namespace {

nlohmann::json to_json(const Quantiles& q) { return {{"p05", q.p05}, {"p50", q.p50}, {"p95", q.p95}}; }

Quantiles scaled(const Quantiles& q, double factor, double offset = 0) {
  return {q.p05 * factor + offset, q.p50 * factor + offset, q.p95 * factor + offset};
}

/// What is made of a prediction of one epoch.
struct Job {
  double epochs = 1;
  double startup_sec = 0;
  std::optional<double> price_per_hour;
  std::optional<double> budget_sec;

  /// Whole epochs within the budget, whatever of the quantiles comes true.
  [[nodiscard]] double epochs_within(double epoch_sec) const {
    return std::max(0.0, std::floor((*budget_sec - startup_sec) / epoch_sec));
  }
  [[nodiscard]] Quantiles total(const Prediction& prediction) const { return scaled(prediction.time_sec, epochs, startup_sec); }
};

nlohmann::json to_json(const TimeRegressor& model, const Workload& workload, const Prediction& prediction, const Job& job) {
  const Quantiles total = job.total(prediction);
  nlohmann::json breakdown = nlohmann::json::array();
  for (const TimeTerm& term : model.breakdown(workload)) {
    breakdown.push_back({{"op", term.op}, {"sec", term.sec}, {"share", term.sec / prediction.time_sec.p50}});
  }
  nlohmann::json json = {{"key", workload.key()},
          {"time_sec", to_json(prediction.time_sec)},
          {"images_per_sec", to_json(ThroughputDeriver(workload.train_images).derive(prediction.time_sec))},
          {"total_sec", to_json(total)},
          {"price", job.price_per_hour ? to_json(scaled(total, *job.price_per_hour / 3600)) : nlohmann::json(nullptr)},
          {"memory_bytes", nullptr},
          {"fits", nullptr},
          {"bound", nullptr},
          {"breakdown", breakdown.empty() ? nlohmann::json(nullptr) : breakdown},
          {"in_domain", prediction.in_domain()},
          {"reason", to_string(prediction.reason)}};
  if (job.budget_sec) {
    const Quantiles& sec = prediction.time_sec;
    json["epochs_in_budget"] = to_json({job.epochs_within(sec.p95), job.epochs_within(sec.p50), job.epochs_within(sec.p05)});
  }
  return json;
}

void print(const TimeRegressor& model, const Workload& workload, const Prediction& prediction, const Job& job) {
  const Quantiles throughput = ThroughputDeriver(workload.train_images).derive(prediction.time_sec);
  const Quantiles total = job.total(prediction);
  fmt::print("{}\n", workload.key());
  const auto line = [](const char* name, const Quantiles& q, const char* unit) {
    fmt::print("  {:<12} {:>12.4g} {}  (90 %: {:.4g} .. {:.4g})\n", name, q.p50, unit, q.p05, q.p95);
  };
  line("epoch", prediction.time_sec, "s");
  line("throughput", throughput, "images/s");
  line("total", total, "s");
  if (job.price_per_hour) line("price", scaled(total, *job.price_per_hour / 3600), "");
  if (job.budget_sec) fmt::print("  {:<12} {:>12.0f} epochs\n", "budget", job.epochs_within(prediction.time_sec.p50));
  for (const TimeTerm& term : model.breakdown(workload)) {
    fmt::print("    {:<24} {:>10.4f} s {:>6.1f} %\n", term.op, term.sec, 100 * term.sec / prediction.time_sec.p50);
  }
  if (!prediction.in_domain()) fmt::print("  outside what was measured: {}\n", to_string(prediction.reason));
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

void print_table(const std::vector<Workload>& workloads, const std::vector<Prediction>& predictions, const std::string& field, const Job& job) {
  fmt::print("{:>14} {:>12} {:>25} {:>12} {}{}\n", field, "epoch s", "90 % interval", "images/s", job.budget_sec ? "  epochs " : "", " outside");
  for (std::size_t i = 0; i < workloads.size(); ++i) {
    const Quantiles& sec = predictions[i].time_sec;
    fmt::print("{:>14} {:>12.4g} {:>25} {:>12.0f} {} {}\n", field_text(workloads[i], field), sec.p50,
               fmt::format("{:.4g} .. {:.4g}", sec.p05, sec.p95),
               ThroughputDeriver(workloads[i].train_images).derive(sec.p50),
               job.budget_sec ? fmt::format("{:>8.0f}", job.epochs_within(sec.p50)) : "", to_string(predictions[i].reason));
  }
}

/// One request a line, an object of workload fields; one answer a line, an object with `error` for a bad request.
void answer_lines(const TimeRegressor& model, const Workload& defaults, const Job& job) {
  std::string line;
  while (std::getline(std::cin, line)) {
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    nlohmann::json answer;
    try {
      const nlohmann::json request = nlohmann::json::parse(line, nullptr, false);
      if (!request.is_object()) throw InputError("a request is a JSON object of workload fields");
      Workload workload = defaults;
      if (request.contains("network") && request["network"] != workload.network) workload.depth = workload.base_filters = std::nullopt;
      for (const auto& [name, value] : request.items()) {
        workload = with_field(workload, name, value.is_string() ? value.get<std::string>() : value.dump());
      }
      answer = to_json(model, workload, model.predict(workload), job);
    } catch (const InputError& error) {
      answer = {{"error", error.what()}};
    }
    fmt::print("{}\n", answer.dump());
    std::fflush(stdout);
  }
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("predict", "Predicts time per epoch, throughput and price of a training job.",
                       "perfpred-predict --model model.json --depth 3 --base-filters 32 --batch-size 512");
  std::string model_file, configs, out;
  cli::WorkloadOptions asked;
  Job job;
  std::string sweep;
  bool json = false, jsonl = false;
  program.add_option("--model", model_file, "model file")->required();
  asked.add_to(program);
  program.add_option("--configs", configs, "table of workloads");
  program.add_option("--out", out, "predictions.csv");
  program.add_option("--epochs", job.epochs, "epochs of the job")->capture_default_str()->check(CLI::PositiveNumber);
  program.add_option("--startup-sec", job.startup_sec, "before the first timed epoch")->capture_default_str()->check(CLI::NonNegativeNumber);
  program.add_option("--price-per-hour", job.price_per_hour, "of the device")->check(CLI::NonNegativeNumber);
  program.add_flag("--json", json, "one JSON document on stdout");
  program.add_option("--sweep", sweep, "what-if table over one field: batch_size=32,64,128");
  program.add_option("--budget-sec", job.budget_sec, "seconds; the epochs that fit are shown")->check(CLI::PositiveNumber);
  program.add_flag("--jsonl", jsonl, "answer requests from stdin, one JSON object a line");
  return program.run(argc, argv, [&] {
    const TimeRegressor model = TimeRegressor::load(model_file);
    Workload defaults = model.example();
    if (jsonl) {
      answer_lines(model, asked.apply_to(defaults), job);
      return;
    }
    std::vector<Workload> workloads;
    if (!sweep.empty()) {
      workloads = sweep_workloads(sweep, asked.apply_to(defaults));
    } else if (!configs.empty()) {
      workloads = read_workloads(configs, asked.apply_to(defaults));
    } else {
      if (!asked.batch_size) throw InputError("--batch-size is missing");
      if (!asked.network || *asked.network == "cifar_cnn") {
        if (!asked.depth) throw InputError("--depth is missing");
        if (!asked.base_filters) throw InputError("--base-filters is missing");
      }
      workloads.push_back(asked.apply_to(defaults));
    }
    const std::vector<Prediction> predictions = model.predict(workloads);
    if (!out.empty()) write_predictions(out, workloads, predictions);
    if (json) {
      nlohmann::json list = nlohmann::json::array();
      for (std::size_t i = 0; i < workloads.size(); ++i) list.push_back(to_json(model, workloads[i], predictions[i], job));
      fmt::print("{}\n", (configs.empty() && sweep.empty() ? list.front() : list).dump(2));
    } else if (!sweep.empty()) {
      print_table(workloads, predictions, sweep.substr(0, sweep.find('=')), job);
    } else if (out.empty() || configs.empty()) {
      for (std::size_t i = 0; i < workloads.size(); ++i) print(model, workloads[i], predictions[i], job);
    }
  });
}
