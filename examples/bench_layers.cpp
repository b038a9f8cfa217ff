// SPDX-License-Identifier: Apache-2.0
// perfpred-bench-layers: times layers alone, one row of layers.csv for each.
#include <fmt/chrono.h>

#include <ctime>
#include <string>
#include <vector>

#include "cli.h"
#include "measuring.h"
#include "optime/layers/layer_sampler.h"
#include "optime/layers/prenet_table.h"
#include "progress.h"
#include "torch/layers/layer_bench.h"

namespace perfpred::cli {
namespace {

struct BenchRequest {
  std::vector<std::string> types = {"conv2d",    "linear",    "rnn",         "attention",
                                    "embedding", "layernorm", "rmsnorm",     "positional_encoding",
                                    "batchnorm", "pooling",   "elementwise", "softmax"};
  std::vector<std::string> optimizers = {"none"}, precisions = {"fp32"};
  std::string shapes = "uniform", device = "auto", out = "layers.csv";
  std::size_t count = 1000;
  SamplerOptions sampler;
  LayerTiming timing;
  std::string prenet_dir;
  bool json = false;
  CLI::Option *optimizer_option = nullptr, *first_layer_option = nullptr;

  void add_to(Program& program) {
    program.add_option("--layer", types, "types, joined by commas (default: all)")->delimiter(',');
    program.add_option("--num", count, "layers of each type")->capture_default_str()->check(positive());
    program
        .add_option("--shapes", shapes, "uniform, log (uniform in the logarithm), or zoo: layers of the zoo's networks")
        ->capture_default_str();
    program.add_option("--range", sampler.ranges, "range of a size, as linear.seq_len=1:512; may be repeated");
    program.add_option("--network", sampler.networks, "shapes zoo: only of these networks, joined by commas")
        ->delimiter(',');
    program.add_option("--leave-out", sampler.left_out, "no layer with a shape of these networks, joined by commas")
        ->delimiter(',');
    optimizer_option = program.add_option(
        "--optimizer", optimizers,
        "none (default), sgd, nesterov, adam, adamw, adagrad, adadelta, rmsprop; several: one of them each");
    optimizer_option->delimiter(',');
    program
        .add_option("--precision", precisions,
                    "fp32 (default), tf32, bf16, fp16, fp64, default; several: one of them each")
        ->delimiter(',');
    program.add_option("--backprop-ratio", sampler.backprop_share, "share of the layers with a backward")
        ->capture_default_str();
    first_layer_option = program.add_flag("--first-layer", sampler.first_layer,
                                          "no gradient of the input, as in a network's first layer");
    program.add_option("--iter-warmup", timing.warmup, "steps before the first sample")
        ->capture_default_str()
        ->check(not_negative());
    program
        .add_option("--iter-benchmark", timing.steps, "steps of a sampling (default: until the median is known to 1 %)")
        ->check(positive());
    program.add_option("--repetitions", timing.repetitions, "samplings of a layer; the middle one counts")
        ->capture_default_str()
        ->check(positive());
    program.add_option("--device", device, "auto, cpu, cuda, cuda:1")->capture_default_str();
    program.add_option("--seed", sampler.seed, "of the shapes, weights and inputs")->capture_default_str();
    program.add_option("--out", out, "rows are appended here; layers that it holds are not timed again")
        ->capture_default_str();
    program.add_option("--prenet-dir", prenet_dir,
                       "write the layers of --out as PreNeT's tables, too: benchmark_<layer>_<device>_<date>.csv");
    program.add_flag("--json", json, "print one JSON document");
  }

  /// The layers that the options ask for. @throws InputError
  [[nodiscard]] std::vector<LayerCase> layers() {
    sampler.shapes = parse_layer_shapes(shapes);
    if (!sampler.networks.empty() && sampler.shapes != LayerShapes::zoo) {
      throw InputError("--network goes with --shapes zoo");
    }
    if (sampler.backprop_share == 0) refuse({optimizer_option, first_layer_option}, "layers with a backward");
    sampler.optimizers.clear();
    sampler.precisions.clear();
    for (const std::string& name : optimizers) sampler.optimizers.push_back(parse_optimizer(name));
    for (const std::string& name : precisions) sampler.precisions.push_back(parse_precision(name));
    return draw_layers(types, count, sampler);
  }
};

void print_json(const LayerBenchResult& result) {
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  for (const LayerRow& row : result.rows) rows.push_back(parse_json<nlohmann::ordered_json>(layer_row_json(row)));
  const nlohmann::ordered_json document = {
      {"done", result.done}, {"skipped", result.found}, {"oom", result.oom}, {"failed", result.failed}, {"rows", rows}};
  fmt::print("{}\n", dumped(document, 2));
}

void write_prenet(const std::string& table, const std::string& folder) {
  make_folder(folder);
  const std::string date = fmt::format("{:%Y%m%d}", fmt::gmtime(std::time(nullptr)));
  const PrenetTables written = write_prenet_tables(read_layer_rows(table), folder, date);
  for (const std::string& path : written.files) fmt::print(stderr, "{} is written\n", path);
  if (written.left_out > 0) {
    fmt::print(stderr, "{}{} layers of {} are in no table of PreNeT: their outcome is not ok\n",
               written.files.empty() ? "nothing is written: " : "", written.left_out, table);
  }
}

}  // namespace

int bench_layers_command(int argc, char** argv) {
  Program program("bench-layers",
                  "perfpred-bench-layers --layer conv2d,linear --num 100 --shapes log --out layers.csv");
  BenchRequest request;
  request.add_to(program);
  return program.run(argc, argv, [&] {
    begin_measuring(argv);
    request.timing.seed = request.sampler.seed;
    const std::vector<LayerCase> layers = request.layers();
    stop_on_signals();
    const auto show = counted_progress_on_terminal("layers");
    const LayerBenchResult result = bench_layers(
        layers, request.device, request.timing, request.out,
        [&](std::size_t finished, std::size_t total, const LayerRow&) {
          if (show) show(finished, total);
        },
        interrupted);
    fmt::print(stderr, "{} measured ({} of them disturbed), {} there already, {} out of memory, {} failed\n",
               result.done, result.untrusted, result.found, result.oom, result.failed);
    if (!request.prenet_dir.empty()) write_prenet(request.out, request.prenet_dir);
    if (request.json) print_json(result);
    if (interrupted()) throw Error("interrupted");
  });
}

}  // namespace perfpred::cli
