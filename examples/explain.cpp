// SPDX-License-Identifier: Apache-2.0
// perfpred-explain: measured steps beside the expected ones, and why they differ.
#include <perfpred/step_file.h>
#include <perfpred/time_regressor.h>
#include <perfpred/training_log.h>

#include "cli.h"
#include "device_file.h"
#include "graphs_option.h"
#include "tools/explanation.h"
#include "tools/model_requests.h"
#include "workload_options.h"

namespace perfpred::cli {
namespace {

struct ExplainOptions {
  std::string model_file, step;
  std::vector<std::string> files, runs, logs;
  std::optional<double> measured_ms, step_tokens, params;
  std::string counted;
  WorkloadOptions workload;
  DeviceFile device_file;
  bool json = false;

  explicit ExplainOptions(Program& program) {
    program.add_option("FILE", files, "runs.csv or logs, told apart by their content")->type_name("");
    program.add_option("--runs", runs, "measured runs (repeated)")->type_name("runs.csv");
    program.add_option("--log", logs, "log that other software wrote (repeated): " + training_log_formats())
        ->type_name("FILE");
    program.add_option("--measured-ms", measured_ms, "of a step, whose workload the other options say")
        ->check(positive());
    program.add_option("--model", model_file, "model file; default: the standard model");
    workload.add_to(program);
    program.add_option("--step", step, "with --measured-ms: a step that perfpred.capture recorded");
    program.add_option("--params", params, "of a log: trainable parameters of a network of your own")
        ->check(positive());
    program.add_option("--counted", counted, "of a log: what its steps count, steps or epochs");
    program.add_option("--step-tokens", step_tokens, "of torchtune's log: tokens of a step that count in the loss")
        ->check(positive());
    device_file.add_to(program);
    device_file.add_links_to(program);
    add_graphs_options(program);
    program.add_flag("--json", json, "one JSON document on stdout");
  }

  [[nodiscard]] nlohmann::json request() const {
    nlohmann::json request = {{"files", files}, {"runs", runs}, {"log", logs}};
    for (const SweptField& field : workload.fields()) request[field.name] = field.values.front();
    if (!step.empty()) request["step"] = step;
    if (!counted.empty()) request["counted"] = counted;
    if (measured_ms) request["measured_ms"] = *measured_ms;
    if (step_tokens) request["step_tokens"] = *step_tokens;
    if (params) request["params"] = *params;
    return request;
  }
};

}  // namespace

int explain_command(int argc, char** argv) {
  Program program("explain", "perfpred-explain runs.csv --model model.json");
  ExplainOptions options(program);
  return program.run(argc, argv, [&options] {
    if (!options.step.empty()) (void)add_graph(options.step);  // before the model is read, which may have rows of it
    const DeviceCatalogue devices = options.device_file.catalogue();
    TimeRegressor model = options.model_file.empty() ? TimeRegressor::standard(devices)
                                                     : TimeRegressor::load(options.model_file, devices);
    const ModelRequests requests(model, {});
    const std::vector<MeasuredJob> jobs = read_measured(requests, options.request());
    for (const MeasuredJob& job : jobs) {
      for (const std::string& note : job.asked.notes) fmt::print(stderr, "{}\n", note);
    }
    const nlohmann::json document = explained_all(jobs, [&model](const MeasuredJob& job) {
      give_rates(model, job.asked.workload);
      return explained(model, job);
    });
    if (options.json) {
      fmt::print("{}\n", dumped(document, 2));
    } else {
      fmt::print("{}", explanation_text(document, Reader::terminal));
    }
  });
}

}  // namespace perfpred::cli
