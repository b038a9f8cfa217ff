// SPDX-License-Identifier: Apache-2.0
// perfpred-inspect: what a training step of a network of the zoo asks of a device.
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>

#include <optional>
#include <string>
#include <vector>

#include "graphs_option.h"
#include "optime/layers/layer_step.h"
#include "rank_output.h"
#include "step_request.h"
#include "tools/layer_answer.h"
#include "tools/report_json.h"

namespace perfpred::cli {
namespace {

/// The steps in a step file. The request gets the batch size that was captured.
NetworkSteps steps_of_file(const StepFile& file, StepRequest& request) {
  for (const SweptField& field : request.fields.fields()) {
    throw InputError(fmt::format("{} is for --network: a step file has its own", option_of(field.name)));
  }
  if (!request.inputs.empty()) throw InputError("--input is for --network: a step file has its own");
  if (request.batch_option->count() == 0) request.batch_size = file.batch_size();
  return steps_of(file);
}

/// What a layer's step holds; on a device, as it executes it.
void inspect_layer(const std::string& text, const StepRequest& request) {
  if (!request.inputs.empty()) throw InputError("--input is for --network: a layer's text has its sizes");
  if (!request.ops.empty() || !request.tables.empty()) throw InputError("--ops and --tables are for --network");
  LayerCase layer = asked_layer(text, request.fields.fields());
  layer.batch_size = request.batch_size;
  check_layer(layer);
  std::optional<Device> device;
  if (!request.device.empty()) device = request.device_file.catalogue_for(request.device).find(request.device);
  const LayerWork work = layer_work(layer, device ? device->kind : DeviceKind::other);
  if (!request.json) {
    fmt::print("{}, batch size {}, {} parameters\n\n", layer_text(layer), layer.batch_size, work.params);
    print_totals_header();
    for (const auto& [phase, totals] : work.phases) print_totals(to_string(phase), totals);
    print_totals("total", work.totals);
    fmt::print("\n");
    for (const auto& [name, totals] : work.kinds) print_totals(name, totals);
    return;
  }
  fmt::print("{}\n", dumped(to_json(layer, work, device), 2));
}

/// Options for a training over several devices.
struct RankOptions {
  std::string program;
  std::vector<CLI::Option*> all;

  void add_to(Program& to) {
    all = {to.get_option("--parallel"), to.get_option("--gpus-per-node"),
           to.add_option("--program", program,
                         "flags of Megatron-LM that change memory, as attention-backend=flash,deterministic-mode")};
  }

  /// Prints the memory of each rank. @returns false if the request is for one device
  [[nodiscard]] bool answer(const StepRequest& request) const {
    std::optional<Device> device;
    if (!request.device.empty()) device = request.device_file.catalogue_for(request.device).find(request.device);
    const auto report = report_ranks(request.workload(), program, device);
    if (!report) return false;
    if (request.layers || !request.ops.empty() || !request.tables.empty()) {
      throw InputError("--layers, --ops and --tables are for one device");
    }
    if (request.json) {
      fmt::print("{}\n", dumped(to_json(*report), 2));
    } else {
      print_text(*report);
    }
    return true;
  }
};

}  // namespace

int inspect_command(int argc, char** argv) {
  Program program("inspect", "perfpred-inspect --network resnet50 --batch-size 32 --device T4");
  StepRequest request;
  RankOptions ranks;
  std::string file, layer;
  request.add_to(program, true);
  ranks.add_to(program);
  CLI::Option* network = program.get_option("--network");
  program.add_option("--step", file, "a step that perfpred.capture recorded")
      ->excludes(network)
      ->excludes(program.get_option("--config"));
  program.add_option("--layer", layer, "one layer, as conv2d:in=64,out=128,kernel=3,size=56")
      ->excludes(network)
      ->excludes(program.get_option("--step"));
  add_graphs_options(program);
  return program.run(argc, argv, [&] {
    if (!layer.empty()) {
      refuse(ranks.all, "--network");
      return inspect_layer(layer, request);
    }
    const bool named = !request.network().empty();
    if (!named) refuse(ranks.all, "--network");
    if (named && ranks.answer(request)) return;
    if (!named && file.empty() && request.tables.empty()) throw InputError("--network is missing");
    std::optional<NetworkSteps> own;
    Precision precision = request.precision();
    if (!file.empty()) {
      const StepFile step = add_graph(file);
      print_notes(step, file);
      own = steps_of_file(step, request);
      precision = step.precision();
    } else if (named) {
      const Workload workload = request.workload();
      precision = workload.precision;  // a captured step has its own
      own = steps_of(workload);
    }
    request.answer(own, precision);
  });
}

}  // namespace perfpred::cli
