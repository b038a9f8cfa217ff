// SPDX-License-Identifier: Apache-2.0
// perfpred-bench-layers: times layers alone, one row of layers.csv for each.
#include <perfpred/torch/system_info.h>

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "cli.h"
#include "optime/layers/layer_sampler.h"
#include "torch/layers/layer_bench.h"
#include "waiting_threads.h"

namespace {

using namespace perfpred;

std::atomic<bool> interrupted = false;

void show(std::size_t finished, std::size_t total, const LayerRow& row) {
  const std::string how = row.step_sec ? fmt::format("{:.4g} ms", *row.step_sec * 1e3) : row.outcome + " " + row.note;
  fmt::print(stderr, "[{}/{}] {} {}batch {} {}: {}{}\n", finished, total, to_string(row.layer.type),
             row.layer.variant.empty() ? "" : row.layer.variant + " ", row.layer.batch_size,
             to_string(row.layer.precision), how, row.outcome == "untrusted" ? " (disturbed)" : "");
}

}  // namespace

int main(int argc, char** argv) {
  cli::let_threads_spin_briefly(argv);
  prepare_process();
  cli::Program program("bench-layers", "Times layers alone: forward, backward and update.",
                       "perfpred-bench-layers --layer conv2d,linear --num 100 --shapes log --out layers.csv");
  std::vector<std::string> types = {"conv2d",    "linear",    "rnn",         "attention",
                                    "embedding", "layernorm", "rmsnorm",     "positional_encoding",
                                    "batchnorm", "pooling",   "elementwise", "softmax"};
  std::vector<std::string> optimizers = {"none"}, precisions = {"fp32"};
  std::string shapes = "uniform", device = "auto", out = "layers.csv";
  std::size_t count = 1000;
  SamplerOptions sampler;
  LayerTiming timing;
  std::int64_t steps = 0;
  bool json = false;
  program.add_option("--layer", types, "types, joined by commas (default: all)")->delimiter(',');
  program.add_option("--num", count, "layers of each type")->capture_default_str()->check(cli::positive());
  program
      .add_option("--shapes", shapes, "uniform, log (uniform in the logarithm), or zoo: layers of the zoo's networks")
      ->capture_default_str();
  program.add_option("--range", sampler.ranges, "range of a size, as linear.seq_len=1:512; may be repeated");
  program.add_option("--network", sampler.networks, "shapes zoo: only of these networks, joined by commas")
      ->delimiter(',');
  program.add_option("--leave-out", sampler.left_out, "no layer with a shape of these networks, joined by commas")
      ->delimiter(',');
  auto* optimizer_option =
      program
          .add_option(
              "--optimizer", optimizers,
              "none (default), sgd, nesterov, adam, adamw, adagrad, adadelta, rmsprop; several: one of them each")
          ->delimiter(',');
  program
      .add_option("--precision", precisions,
                  "fp32 (default), tf32, bf16, fp16, fp64, default; several: one of them each")
      ->delimiter(',');
  program.add_option("--backprop-ratio", sampler.backprop_share, "share of the layers with a backward")
      ->capture_default_str();
  auto* first_layer_option =
      program.add_flag("--first-layer", sampler.first_layer, "no gradient of the input, as in a network's first layer");
  program.add_option("--iter-warmup", timing.warmup, "steps before the first sample")
      ->capture_default_str()
      ->check(cli::not_negative());
  CLI::Option* steps_option =
      program.add_option("--iter-benchmark", steps, "steps of a sampling (default: until the median is known to 1 %)")
          ->check(cli::positive());
  program.add_option("--repetitions", timing.repetitions, "samplings of a layer; the middle one counts")
      ->capture_default_str()
      ->check(cli::positive());
  program.add_option("--device", device, "auto, cpu, cuda, cuda:1")->capture_default_str();
  program.add_option("--seed", sampler.seed, "of the shapes, weights and inputs")->capture_default_str();
  program.add_option("--out", out, "rows are appended here; layers that it holds are not timed again")
      ->capture_default_str();
  program.add_flag("--json", json, "print one JSON document");
  return program.run(argc, argv, [&] {
    if (steps_option->count() != 0) timing.steps = steps;
    timing.seed = sampler.seed;
    sampler.shapes = parse_layer_shapes(shapes);
    if (!sampler.networks.empty() && sampler.shapes != LayerShapes::zoo) {
      throw InputError("--network goes with --shapes zoo");
    }
    if (sampler.backprop_share == 0) cli::refuse({optimizer_option, first_layer_option}, "layers with a backward");
    sampler.optimizers.clear();
    sampler.precisions.clear();
    for (const std::string& name : optimizers) sampler.optimizers.push_back(parse_optimizer(name));
    for (const std::string& name : precisions) sampler.precisions.push_back(parse_precision(name));
    std::vector<LayerCase> layers;
    for (const std::string& name : types) {
      if (std::count(types.begin(), types.end(), name) > 1) throw InputError(fmt::format("--layer has {} twice", name));
      LayerSampler draws(sampler);  // of each type the same, whatever the others
      for (LayerCase& layer : draws.draw(parse_layer_type(name), count)) layers.push_back(std::move(layer));
    }
    for (const std::string& range : sampler.ranges) {
      const std::string type = range.substr(0, range.find('.'));
      if (std::find(types.begin(), types.end(), type) == types.end()) {
        throw InputError(fmt::format("range \"{}\" is of a layer that --layer leaves out", range));
      }
    }
    if (layers.empty()) throw InputError("there is no such layer");
    std::signal(SIGINT, [](int) { interrupted = true; });
    std::signal(SIGTERM, [](int) { interrupted = true; });
    const LayerBenchResult result = bench_layers(layers, device, timing, out, show, [] { return interrupted.load(); });
    fmt::print(stderr, "{} measured ({} of them disturbed), {} there already, {} out of memory, {} failed\n",
               result.done, result.untrusted, result.found, result.oom, result.failed);
    if (json) {
      nlohmann::ordered_json rows = nlohmann::ordered_json::array();
      for (const LayerRow& row : result.rows) rows.push_back(nlohmann::ordered_json::parse(layer_row_json(row)));
      const nlohmann::ordered_json document = {{"done", result.done},
                                               {"skipped", result.found},
                                               {"oom", result.oom},
                                               {"failed", result.failed},
                                               {"rows", rows}};
      fmt::print("{}\n", document.dump(2));
    }
    if (interrupted) throw Error("interrupted");
  });
}
