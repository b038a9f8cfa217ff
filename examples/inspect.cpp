// SPDX-License-Identifier: Apache-2.0
// perfpred-inspect: what a training step of a network of the zoo asks of a device.
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>

#include <optional>
#include <string>

#include "graphs_option.h"
#include "step_request.h"

using namespace perfpred;

namespace {

/// The steps in a step file. The request gets the batch size that was captured.
NetworkSteps steps_of_file(const StepFile& file, cli::StepRequest& request) {
  for (const SweptField& field : request.fields.fields()) {
    throw InputError(
        fmt::format("{} is for --network: a step file has its own", cli::WorkloadOptions::option_of(field.name)));
  }
  if (!request.inputs.empty()) throw InputError("--input is for --network: a step file has its own");
  if (request.batch_option->count() == 0) request.batch_size = file.batch_size();
  return {file.name(), {}, std::nullopt, [file](std::int64_t batch) { return file.graph(batch); }};
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("inspect", "Counts operators, FLOPs, bytes and memory of a training step of a network.",
                       "perfpred-inspect --network resnet50 --batch-size 32 --device T4");
  cli::StepRequest request;
  std::string file;
  auto* network = request.add_to(program);
  program.add_option("--step", file, "a step that perfpred.capture recorded")
      ->excludes(network)
      ->excludes(program.get_option("--config"));
  cli::add_graphs_options(program);
  return program.run(argc, argv, [&] {
    const bool named = !request.network().empty();
    if (!named && file.empty() && request.tables.empty()) throw InputError("--network is missing");
    std::optional<NetworkSteps> own;
    Precision precision = request.precision();
    if (!file.empty()) {
      const StepFile step(file);
      cli::print_notes(step, file);
      own = steps_of_file(step, request);
      precision = step.precision();
    } else if (named) {
      const Workload workload = request.workload();
      precision = workload.precision;  // a captured step has its own
      own = steps_of(workload);
    }
    request.answer(own, precision, steps_of);
  });
}
