// SPDX-License-Identifier: Apache-2.0
// perfpred-trace: the operators of a training step of a user's own network, traced without executing it.
#include <perfpred/torch/exported_network.h>
#include <perfpred/torch/trace.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "graphs_option.h"
#include "library_option.h"
#include "loss_options.h"
#include "network/layers.h"
#include "step_request.h"

using namespace perfpred;

namespace {

struct Request : cli::StepRequest {
  std::string exported;  // file of torch.export
  std::string loss_kind = "cross_entropy";
  Loss loss;
};

/// The inputs of one sample; a single size is the length of a sequence of words. Their types are the file's own.
std::vector<InputSpec> samples_of(const std::vector<std::string>& inputs) {
  std::vector<InputSpec> samples;
  for (const std::string& input : inputs) {
    const bool scalar = input == "scalar";  // of each sample, as its class
    samples.push_back({scalar ? std::vector<std::int64_t>() : parse_shape(input)});
  }
  return samples;
}

/// Steps that are traced: of batches of these samples.
NetworkSteps traced(StepTracer tracer, std::vector<InputSpec> samples, Optimizer optimizer, const Loss& loss) {
  NetworkSteps steps;
  for (const InputSpec& sample : samples) {
    if (!steps.input.empty()) steps.input += ',';
    steps.input += shape_text(sample.shape);
  }
  steps.step = [tracer = std::make_shared<StepTracer>(std::move(tracer)), samples = std::move(samples), optimizer,
                loss](std::int64_t batch) {
    if (batch <= 0) throw InputError(fmt::format("batch size {} is not positive", batch));
    std::vector<InputSpec> inputs = samples;
    for (InputSpec& input : inputs) input.shape.insert(input.shape.begin(), batch);
    return tracer->trace(inputs, optimizer, loss);
  };
  return steps;
}

NetworkSteps traced_zoo(const Workload& workload) {
  const Network network = build_network(workload);
  const DataType floats = workload.precision == Precision::fp64 ? DataType::f64 : DataType::f32;
  NetworkSteps steps = traced(StepTracer::network(workload),
                              {{workload.input, network.tokens ? DataType::i64 : floats}}, workload.optimizer, {});
  steps.network = network.name;
  steps.classes = network.classes;
  return steps;
}

NetworkSteps traced_pt2(const Request& request) {
  const Precision precision = request.precision();
  StepTracer tracer = StepTracer::pt2(request.exported, precision);
  if (!tracer.note().empty()) fmt::print(stderr, "perfpred-trace: warning: {}\n", tracer.note());
  std::vector<InputSpec> samples = tracer.inputs();
  for (InputSpec& sample : samples) {
    if (!sample.shape.empty()) sample.shape.erase(sample.shape.begin());
  }
  if (!request.inputs.empty()) samples = samples_of(request.inputs);
  NetworkSteps steps = traced(std::move(tracer), std::move(samples), request.optimizer(), request.loss);
  steps.network = pt2_name(request.exported);
  return steps;
}

/// Of the file or the network that the request names; nothing if it names none.
std::optional<NetworkSteps> own_steps(const Request& request) {
  if (request.exported.empty()) {
    if (request.network().empty()) return std::nullopt;
    return traced_zoo(request.workload());
  }
  for (const SweptField& field : request.fields.fields()) {
    if (field.name == "optimizer" || field.name == "precision") continue;
    throw InputError(fmt::format("{} is for --network: a file has its own", option_of(field.name)));
  }
  return traced_pt2(request);
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program(
      "trace",
      "Counts operators, FLOPs, bytes and memory of a training step of a file of torch.export, without executing it.",
      "perfpred-trace --pt2 net.pt2 --batch-size 32");
  Request request;
  std::vector<std::string> libraries;
  auto* exported = program.add_option("--pt2", request.exported, "file made by torch.export.save()");
  request.add_to(program, true)->excludes(exported);
  cli::add_library_option(program, libraries);
  cli::add_op_rules_option(program);
  cli::add_loss_options(program, request.loss_kind, request.loss);
  program
      .add_option("--label-smoothing", request.loss.label_smoothing, "share of a class's probability for all classes")
      ->check(CLI::Range(0.0, 1.0));
  return program.run(argc, argv, [&] {
    if (request.exported.empty() && request.network().empty() && request.tables.empty())
      throw InputError("--pt2 is missing");
    for (const std::string& library : libraries) load_operators(library);
    request.loss.kind = parse_loss_kind(request.loss_kind);
    if (request.exported.empty() && !(request.loss == Loss{}))
      throw InputError("--loss, --loss-sum and --label-smoothing are for --pt2");
    request.answer(own_steps(request), request.precision(), traced_zoo);
  });
}
