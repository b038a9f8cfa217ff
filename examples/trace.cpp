// SPDX-License-Identifier: Apache-2.0
// perfpred-trace: the operators of a training step of a user's own network, traced without executing it.
#include <perfpred/torch/trace.h>

#include <cstdint>
#include <future>
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
  std::string file;                // of TorchScript
  std::string exported;            // of torch.export
  std::vector<std::string> types;  // of each input
  std::string loss_kind = "cross_entropy";
  Loss loss;
};

DataType parse_type(const std::string& text) {
  for (const DataType type :
       {DataType::f32, DataType::f16, DataType::bf16, DataType::f64, DataType::i64, DataType::i32, DataType::u8}) {
    if (to_string(type) == text) return type;
  }
  throw InputError(fmt::format("--input-type {} is not one of f32, f16, bf16, f64, i64, i32, u8", text));
}

/// The inputs of one sample; a single size is the length of a sequence of words.
std::vector<InputSpec> samples_of(const Request& request, Precision precision) {
  if (request.inputs.empty()) throw InputError("--input is missing: the shape of one sample, as 3x224x224");
  if (!request.types.empty() && request.types.size() != request.inputs.size()) {
    throw InputError(
        fmt::format("--input-type names {} types for {} inputs", request.types.size(), request.inputs.size()));
  }
  std::vector<InputSpec> inputs;
  for (std::size_t i = 0; i < request.inputs.size(); ++i) {
    const bool scalar = request.inputs[i] == "scalar";  // of each sample, as its class
    InputSpec input{scalar ? std::vector<std::int64_t>() : parse_shape(request.inputs[i]),
                    precision == Precision::fp64 ? DataType::f64 : DataType::f32};
    if (input.shape.size() <= 1) input.type = DataType::i64;
    if (!request.types.empty()) input.type = parse_type(request.types[i]);
    inputs.push_back(std::move(input));
  }
  return inputs;
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
  if (!request.inputs.empty()) samples = samples_of(request, precision);
  NetworkSteps steps = traced(std::move(tracer), std::move(samples), request.optimizer(), request.loss);
  steps.network = pt2_name(request.exported);
  return steps;
}

/// Of the file or the network that the request names; nothing if it names none.
std::optional<NetworkSteps> own_steps(const Request& request) {
  if (request.fields.find("optimizer_impl") != nullptr) {
    throw InputError("--optimizer-impl is for perfpred-inspect: a traced update is LibTorch's fused one");
  }
  if (request.file.empty() && request.exported.empty()) {
    if (request.network().empty()) return std::nullopt;
    return traced_zoo(request.workload());
  }
  for (const SweptField& field : request.fields.fields()) {
    if (field.name == "optimizer" || field.name == "precision") continue;
    throw InputError(
        fmt::format("{} is for --network: a file has its own", cli::WorkloadOptions::option_of(field.name)));
  }
  if (!request.exported.empty()) return traced_pt2(request);
  const Precision precision = request.precision();
  const std::vector<InputSpec> samples = samples_of(request, precision);
  std::future<std::string> name = std::async(std::launch::async, torchscript_name, request.file);  // hashes all of it
  NetworkSteps steps =
      traced(StepTracer::torchscript(request.file, precision), samples, request.optimizer(), request.loss);
  steps.network = name.get();
  return steps;
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program(
      "trace",
      "Counts operators, FLOPs, bytes and memory of a training step of a file of torch.export or TorchScript, without "
      "executing it.",
      "perfpred-trace --pt2 net.pt2 --batch-size 32");
  Request request;
  std::vector<std::string> libraries;
  auto* file = program.add_option("--torchscript", request.file,
                                  "file made by torch.jit.save; several --input are joined by commas");
  auto* exported = program.add_option("--pt2", request.exported, "file made by torch.export.save()")->excludes(file);
  request.add_to(program)->excludes(file)->excludes(exported);
  cli::add_library_option(program, libraries);
  cli::add_op_rules_option(program);
  cli::add_loss_options(program, request.loss_kind, request.loss);
  program
      .add_option("--label-smoothing", request.loss.label_smoothing, "share of a class's probability for all classes")
      ->check(CLI::Range(0.0, 1.0));
  program
      .add_option("--input-type", request.types,
                  "f32, f16, bf16, f64, i64, i32, u8; default i64 for a length, else the precision's")
      ->delimiter(',')
      ->needs(file);
  return program.run(argc, argv, [&] {
    if (request.file.empty() && request.exported.empty() && request.network().empty() && request.tables.empty()) {
      throw InputError("--pt2 or --torchscript is missing");
    }
    for (const std::string& library : libraries) load_operators(library);
    request.loss.kind = parse_loss_kind(request.loss_kind);
    if (request.file.empty() && request.exported.empty() && !(request.loss == Loss{}))
      throw InputError("--loss, --loss-sum and --label-smoothing are for --pt2 and --torchscript");
    request.answer(own_steps(request), request.precision(), traced_zoo);
  });
}
