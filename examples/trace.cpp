// perfpred-trace: the operators of a training step of a user's own network, traced without executing it.
#include <perfpred/network.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "cli.h"
#include "step_report.h"

using namespace perfpred;

namespace {

struct Request {
  std::string file, network;
  std::vector<std::string> samples, types;  // of each input
  std::int64_t batch_size = 32;
  std::optional<std::int64_t> classes;
  std::string optimizer = "adam", precision = "fp32";
  std::string device;
};

DataType parse_type(const std::string& text) {
  for (const DataType type :
       {DataType::f32, DataType::f16, DataType::bf16, DataType::f64, DataType::i64, DataType::i32, DataType::u8}) {
    if (to_string(type) == text) return type;
  }
  throw InputError(fmt::format("--input-type {} is none of f32, f16, bf16, f64, i64, i32, u8", text));
}

/// The inputs of one sample; a single size is the length of a sequence of words.
std::vector<InputSpec> samples_of(const Request& request, Precision precision) {
  if (request.samples.empty()) throw InputError("--input is missing: the shape of one sample, as 3x224x224");
  if (!request.types.empty() && request.types.size() != request.samples.size()) {
    throw InputError(
        fmt::format("--input-type names {} types for {} inputs", request.types.size(), request.samples.size()));
  }
  std::vector<InputSpec> inputs;
  for (std::size_t i = 0; i < request.samples.size(); ++i) {
    InputSpec input{parse_shape(request.samples[i]), precision == Precision::fp64 ? DataType::f64 : DataType::f32};
    if (input.shape.size() == 1) input.type = DataType::i64;
    if (!request.types.empty()) input.type = parse_type(request.types[i]);
    inputs.push_back(std::move(input));
  }
  return inputs;
}

OpGraph trace(StepTracer& tracer, std::vector<InputSpec> samples, std::int64_t batch, Optimizer optimizer) {
  for (InputSpec& sample : samples) sample.shape.insert(sample.shape.begin(), batch);
  return tracer.trace(samples, optimizer);
}

cli::StepReport report_of(const Request& request) {
  const Optimizer optimizer = parse_optimizer(request.optimizer);
  const Precision precision = parse_precision(request.precision);
  std::optional<Device> device;
  if (!request.device.empty()) device = DeviceCatalogue().find(request.device);

  cli::StepReport report;
  report.batch_size = request.batch_size;
  std::optional<StepTracer> tracer;
  std::vector<InputSpec> samples;
  if (!request.file.empty()) {
    if (request.classes) throw InputError("--classes is for --network: a TorchScript file has its own");
    samples = samples_of(request, precision);
    tracer = StepTracer::torchscript(request.file, precision);
    report.network = torchscript_name(request.file);
  } else if (!request.network.empty()) {
    Workload workload = Workload::zoo(request.network, request.batch_size);
    if (!request.samples.empty()) workload.input = parse_shape(request.samples.at(0));
    if (request.classes) workload.classes = *request.classes;
    const Network network = build_network(workload);
    samples = {{workload.input, network.tokens                 ? DataType::i64
                                : precision == Precision::fp64 ? DataType::f64
                                                               : DataType::f32}};
    tracer = StepTracer::network(network, precision);
    report.network = network.name;
  } else {
    throw InputError("--torchscript is missing");
  }

  report.step = trace(*tracer, samples, request.batch_size, optimizer);
  report.memory = estimate_memory(report.step, device ? allocator_of(*device) : Allocator::exact);
  if (device) {
    report.device = cli::report_on(*device, report.step, report.memory, precision);
    try {
      report.device->largest_batch =
          largest_batch([&](std::int64_t batch) { return trace(*tracer, samples, batch, optimizer); }, *device);
    } catch (const InputError& error) {  // a file that was traced may hold its batch size
      fmt::print(stderr, "perfpred-trace: the largest batch is not known: {}\n", error.what());
    }
  }
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program(
      "trace",
      "Counts operators, FLOPs, bytes and memory of a training step of a TorchScript file, without executing it.",
      "perfpred-trace --torchscript net.pt --input 3x224x224 --batch-size 32");
  Request request;
  std::string ops;
  bool json = false;
  auto* file = program.add_option("--torchscript", request.file, "file made by torch.jit.save");
  program.add_option("--network", request.network, "a network of the zoo instead")->excludes(file);
  program.add_option("--batch-size", request.batch_size, "samples a step")
      ->capture_default_str()
      ->check(CLI::PositiveNumber);
  program
      .add_option("--input", request.samples,
                  "one sample, as 3x224x224, or the length of a sequence; joined by commas for several inputs")
      ->delimiter(',');
  program
      .add_option("--input-type", request.types,
                  "f32, f16, bf16, f64, i64, i32, u8; default i64 for a length, else the precision's")
      ->delimiter(',');
  program.add_option("--classes", request.classes, "of a network of the zoo");
  program.add_option("--optimizer", request.optimizer, "none, sgd, nesterov, adam, ...")->capture_default_str();
  program.add_option("--precision", request.precision, "fp32, tf32, bf16, fp16 or fp64")->capture_default_str();
  program.add_option("--device", request.device, "device of the catalogue that the step is to fit");
  program.add_option("--ops", ops, "write the operators to this CSV");
  program.add_flag("--json", json, "one JSON document on stdout");
  program.not_built_yet({"--tables", "--networks", "--batch-sizes"});
  return program.run(argc, argv, [&] {
    const cli::StepReport report = report_of(request);
    if (!ops.empty()) write_ops(report.step, ops);
    if (json) {
      fmt::print("{}\n", cli::to_json(report).dump(2));
    } else {
      cli::print_text(report);
    }
  });
}
