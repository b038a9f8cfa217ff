// SPDX-License-Identifier: Apache-2.0
// perfpred-trace: the operators of a training step of a user's own module, traced without executing it.
#include <perfpred/torch/trace.h>

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "graphs_option.h"
#include "loss_options.h"
#include "step_request.h"

namespace perfpred::cli {
namespace {

struct TraceRequest : StepRequest {
  std::vector<std::string> libraries;  // the last one has the module
  std::string loss_kind = "cross_entropy";
  Loss loss;
};

/// The inputs of one sample; a single size is the length of a sequence of words, "scalar" a class.
std::vector<InputSpec> samples_of(const std::vector<std::string>& inputs, Precision precision) {
  const DataType floats = precision == Precision::fp64 ? DataType::f64 : DataType::f32;
  std::vector<InputSpec> samples;
  for (const std::string& input : inputs) {
    const std::vector<std::int64_t> shape = input == "scalar" ? std::vector<std::int64_t>() : parse_shape(input);
    samples.push_back({shape, shape.size() < 2 ? DataType::i64 : floats});
  }
  return samples;
}

/// The steps of the module in a library, of batches of these samples.
NetworkSteps traced(const std::string& library, const TraceRequest& request) {
  NetworkSteps steps;
  steps.network = std::filesystem::path(library).stem().string();
  for (const std::string& input : request.inputs) steps.input += (steps.input.empty() ? "" : ",") + input;
  steps.step = [tracer = std::make_shared<StepTracer>(StepTracer::library(library, request.precision())),
                samples = samples_of(request.inputs, request.precision()), optimizer = request.optimizer(),
                loss = request.loss](std::int64_t batch) {
    if (batch <= 0) throw InputError(fmt::format("batch size {} is not positive", batch));
    std::vector<InputSpec> inputs = samples;
    for (InputSpec& input : inputs) input.shape.insert(input.shape.begin(), batch);
    return tracer->trace(inputs, optimizer, loss);
  };
  return steps;
}

}  // namespace

int trace_command(int argc, char** argv) {
  Program program("trace", "perfpred-trace --library ./libnet.so --input 3x224x224 --batch-size 32");
  TraceRequest request;
  program
      .add_option("--library", request.libraries,
                  "shared library that defines perfpred_make_module(); those before it register operators")
      ->allow_extra_args(false);
  program.add_refused("--network", "perfpred-inspect counts the networks of the zoo");
  request.add_to(program, false);
  add_op_rules_option(program);
  add_loss_options(program, request.loss_kind, request.loss);
  program
      .add_option("--label-smoothing", request.loss.label_smoothing, "share of a class's probability for all classes")
      ->check(CLI::Range(0.0, 1.0));
  return program.run(argc, argv, [&] {
    if (request.libraries.empty()) throw InputError("--library is missing");
    if (request.inputs.empty()) throw InputError("--input is missing");
    for (const std::string& library : request.libraries) load_operators(library);
    request.loss.kind = parse_loss_kind(request.loss_kind);
    request.answer(traced(request.libraries.back(), request), request.precision());
  });
}

}  // namespace perfpred::cli
