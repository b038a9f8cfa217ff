// SPDX-License-Identifier: Apache-2.0
// perfpred-observe: lets finished runs correct a model.
#include <perfpred/run.h>
#include <perfpred/time_regressor.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli.h"

using namespace perfpred;

int main(int argc, char** argv) {
  cli::Program program("observe", "Corrects a model by finished runs.",
                       "perfpred-observe --model model.json --runs new.csv --out model.json");
  std::string model_file, runs_file, out;
  bool json = false;
  program.add_option("--model", model_file, "model file")->required();
  program.add_option("--runs", runs_file, "runs.csv with the new runs")->required();
  program.add_option("--out", out, "corrected model file")->required();
  program.add_flag("--json", json, "one JSON document on stdout");
  return program.run(argc, argv, [&] {
    TimeRegressor model = TimeRegressor::load(model_file);
    const Observed result = model.observe(read_runs(runs_file));
    model.save(out);
    if (json) {
      nlohmann::json set_aside = nlohmann::json::array();
      for (const SetAside& run : result.set_aside) set_aside.push_back({{"key", run.key}, {"reason", run.reason}});
      fmt::print("{}\n", nlohmann::json{{"observed", result.observed}, {"set_aside", set_aside}}.dump(2));
      return;
    }
    fmt::print("{} runs observed, {} set aside\n", result.observed, result.set_aside.size());
    for (const SetAside& run : result.set_aside) fmt::print("  {}: {}\n", run.key, run.reason);
  });
}
