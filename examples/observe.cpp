// SPDX-License-Identifier: Apache-2.0
// perfpred-observe: corrects a model by finished runs.
#include <perfpred/run.h>
#include <perfpred/time_regressor.h>

#include "cli.h"
#include "device_file.h"
#include "graphs_option.h"
#include "rejected_output.h"
#include "tools/aggregate_answer.h"

namespace perfpred::cli {

int observe_command(int argc, char** argv) {
  Program program("observe", "perfpred-observe --model model.json --runs new.csv --out model.json");
  std::string model_file, runs_file, out;
  DeviceFile device_file;
  bool json = false;
  program.add_option("--model", model_file, "model file")->required();
  program.add_option("--runs", runs_file, "runs.csv with the new runs")->required();
  program.add_option("--out", out, "corrected model file")->required();
  program.lets_overwrite("--model", "--out");
  device_file.add_to(program);
  device_file.add_links_to(program);
  add_graphs_options(program);
  program.add_flag("--json", json, "one JSON document on stdout");
  return program.run(argc, argv, [&] {
    const std::vector<Run> runs = read_runs(runs_file);
    if (runs.empty()) throw InputError(runs_file + ": holds no run");
    const std::vector<RejectedRun> rejected =
        TimeRegressor::observe_in_file(model_file, runs, out, device_file.catalogue());
    const std::size_t observed = runs.size() - rejected.size();
    if (json) {
      const nlohmann::json document = {{"observed", observed}, {"set_aside", to_json(rejected)}};
      fmt::print("{}\n", dumped(document, 2));
      return;
    }
    fmt::print("{} runs observed, {}\n", observed, summary(rejected));
  });
}

}  // namespace perfpred::cli
