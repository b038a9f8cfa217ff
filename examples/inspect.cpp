// SPDX-License-Identifier: Apache-2.0
// perfpred-inspect: what a training step of a network of the zoo asks of a device.
#include <optional>

#include "step_request.h"

using namespace perfpred;

int main(int argc, char** argv) {
  cli::Program program("inspect", "Counts operators, FLOPs, bytes and memory of a training step of a network.",
                       "perfpred-inspect --network resnet50 --batch-size 32 --device T4");
  cli::StepRequest request;
  const auto* network = request.add_to(program);
  return program.run(argc, argv, [&] {
    if (network->count() == 0 && request.tables.empty()) throw InputError("--network is missing");
    std::optional<NetworkSteps> own;
    if (network->count() > 0) own = steps_of(request.workload());
    request.answer(own, steps_of);
  });
}
