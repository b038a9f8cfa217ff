// perfpred-predict: what a fitted model expects of workloads.
#include <perfpred/predictions_file.h>
#include <perfpred/throughput_deriver.h>
#include <perfpred/time_regressor.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

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

  [[nodiscard]] Quantiles total(const Prediction& prediction) const { return scaled(prediction.time_sec, epochs, startup_sec); }
};

nlohmann::json to_json(const TimeRegressor& model, const Workload& workload, const Prediction& prediction, const Job& job) {
  const Quantiles total = job.total(prediction);
  nlohmann::json breakdown = nlohmann::json::array();
  for (const TimeTerm& term : model.breakdown(workload)) {
    breakdown.push_back({{"op", term.op}, {"sec", term.sec}, {"share", term.sec / prediction.time_sec.p50}});
  }
  return {{"key", workload.key()},
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
  for (const TimeTerm& term : model.breakdown(workload)) {
    fmt::print("    {:<24} {:>10.4f} s {:>6.1f} %\n", term.op, term.sec, 100 * term.sec / prediction.time_sec.p50);
  }
  if (!prediction.in_domain()) fmt::print("  outside what was measured: {}\n", to_string(prediction.reason));
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("predict", "Predicts time per epoch, throughput and price of a training job.",
                       "perfpred-predict --model model.json --depth 3 --base-filters 32 --batch-size 512");
  std::string model_file, configs, out;
  cli::WorkloadOptions asked;
  Job job;
  bool json = false;
  program.add_option("--model", model_file, "model file")->required();
  asked.add_to(program);
  program.add_option("--configs", configs, "table of workloads");
  program.add_option("--out", out, "predictions.csv");
  program.add_option("--epochs", job.epochs, "epochs of the job")->capture_default_str()->check(CLI::PositiveNumber);
  program.add_option("--startup-sec", job.startup_sec, "before the first timed epoch")->capture_default_str()->check(CLI::NonNegativeNumber);
  program.add_option("--price-per-hour", job.price_per_hour, "of the device")->check(CLI::NonNegativeNumber);
  program.add_flag("--json", json, "one JSON document on stdout");
  program.not_built_yet({"--sweep", "--budget-sec", "--jsonl"});
  return program.run(argc, argv, [&] {
    const TimeRegressor model = TimeRegressor::load(model_file);
    Workload defaults = model.example();
    std::vector<Workload> workloads;
    if (!configs.empty()) {
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
      fmt::print("{}\n", (configs.empty() ? list.front() : list).dump(2));
    } else if (out.empty() || configs.empty()) {
      for (std::size_t i = 0; i < workloads.size(); ++i) print(model, workloads[i], predictions[i], job);
    }
  });
}
