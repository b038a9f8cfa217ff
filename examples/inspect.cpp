// perfpred-inspect: what a training step of a network of the zoo asks of a device.
#include <perfpred/complexity_tables.h>
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
  std::string network, input, device;
  std::optional<int> depth, base_filters;
  std::optional<std::int64_t> classes;
  std::int64_t batch_size = 32;
  std::string optimizer = "adam", precision = "fp32";
  std::string tables;
  std::vector<std::string> networks;
  std::vector<std::int64_t> batch_sizes;
};

Workload workload_of(const Request& request) {
  Workload workload;
  if (request.network == "cifar_cnn") {
    if (!request.depth || !request.base_filters) throw InputError("cifar_cnn needs --depth and --base-filters");
    workload = Workload::cifar_cnn(*request.depth, *request.base_filters, request.batch_size);
  } else {
    if (request.depth || request.base_filters) throw InputError("--depth and --base-filters are for cifar_cnn");
    workload = Workload::zoo(request.network, request.batch_size);
  }
  if (!request.input.empty()) workload.input = parse_shape(request.input);
  if (request.classes) workload.classes = *request.classes;
  workload.optimizer = parse_optimizer(request.optimizer);
  workload.precision = parse_precision(request.precision);
  return workload;
}

cli::StepReport report_of(const Request& request) {
  const Workload workload = workload_of(request);
  std::optional<Device> device;
  if (!request.device.empty()) device = DeviceCatalogue().find(request.device);
  cli::StepReport report;
  report.network = workload.network;
  report.batch_size = workload.batch_size;
  report.step = workload.graph();
  report.memory = estimate_memory(report.step, device ? allocator_of(*device) : Allocator::exact);
  if (device) {
    report.device = cli::report_on(*device, report.step, report.memory, workload.precision);
    report.device->largest_batch = largest_batch(workload, *device);
  }
  return report;
}

}  // namespace

int main(int argc, char** argv) {
  cli::Program program("inspect", "Counts operators, FLOPs, bytes and memory of a training step of a network.",
                       "perfpred-inspect --network resnet50 --batch-size 32 --device T4");
  Request request;
  std::string ops;
  bool json = false;
  auto* network = program.add_option("--network", request.network, "a network of the zoo, cifar_cnn or transformer:...");
  program.add_option("--depth", request.depth, "blocks of cifar_cnn");
  program.add_option("--base-filters", request.base_filters, "channels of its first block");
  program.add_option("--batch-size", request.batch_size, "samples a step")->capture_default_str();
  program.add_option("--input", request.input, "one sample, as 3x224x224, or a sequence length; default: the network's own");
  program.add_option("--classes", request.classes, "default: the network's own");
  program.add_option("--optimizer", request.optimizer, "none, sgd, nesterov, adam, ...")->capture_default_str();
  program.add_option("--precision", request.precision, "fp32, tf32, bf16, fp16 or fp64")->capture_default_str();
  program.add_option("--device", request.device, "device of the catalogue that the step is to fit");
  program.add_option("--ops", ops, "write the operators to this CSV");
  auto* tables = program.add_option("--tables", request.tables, "write models.csv and batches.csv into this folder");
  program.add_option("--networks", request.networks, "networks of the tables, joined by commas")->delimiter(',')->needs(tables);
  program.add_option("--batch-sizes", request.batch_sizes, "batch sizes of the tables, joined by commas")->delimiter(',')->needs(tables);
  program.add_flag("--json", json, "one JSON document on stdout");
  return program.run(argc, argv, [&] {
    if (network->count() == 0 && tables->count() == 0) throw InputError("--network is missing");
    if (tables->count() > 0) {
      const auto files = write_complexity_tables(request.tables, request.networks, request.batch_sizes,
                                                 parse_optimizer(request.optimizer), parse_precision(request.precision));
      for (const std::string& file : files) fmt::print(stderr, "wrote {}\n", file);
      if (network->count() == 0) return;
    }
    const cli::StepReport report = report_of(request);
    if (!ops.empty()) write_ops(report.step, ops);
    if (json) {
      fmt::print("{}\n", cli::to_json(report).dump(2));
    } else {
      cli::print_text(report);
    }
  });
}
