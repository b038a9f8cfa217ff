// SPDX-License-Identifier: Apache-2.0
// perfpred-probe: measures this device for some seconds and writes an op model that knows it, or the links of several.

#include <string>
#include <vector>

#include "cli.h"
#include "device_file.h"
#include "links_probe.h"
#include "measuring.h"
#include "optime/probe.h"
#include "progress.h"
#include "torch/device/runtime_device.h"
#include "torch/layers/probe_measurement.h"

namespace perfpred::cli {
namespace {

void print_json(const ProbeMeasurement& measured, const ProbeOptions& options, const std::string& out) {
  const nlohmann::json document = {{"device", measured.probe.device.name},
                                   {"precision", to_string(options.precision)},
                                   {"budget_sec", options.budget_sec},
                                   {"used_sec", measured.used_sec},
                                   {"host",
                                    {{"op_sec", measured.op_sec},
                                     {"forward_sec", *measured.probe.host_sec},
                                     {"backward_sec", measured.backward_sec}}},
                                   {"floor_sec", measured.floor_sec},
                                   {"bytes_per_sec", measured.bytes_per_sec},
                                   {"layers", measured.probe.layers.size()},
                                   {"disturbed", measured.disturbed},
                                   {"left_out", measured.left_out},
                                   {"out", out}};
  fmt::print("{}\n", dumped(document, 2));
}

void print(const ProbeMeasurement& measured, const ProbeOptions& options, const std::string& out) {
  fmt::print("device        {}\n", measured.probe.device.name);
  fmt::print("used          {:.1f} of {:.1f} s\n", measured.used_sec, options.budget_sec);
  fmt::print("host          {:.2f} us an operator, {:.2f} with autograd, {:.2f} for its gradient\n",
             measured.op_sec * 1e6, *measured.probe.host_sec * 1e6, measured.backward_sec * 1e6);
  fmt::print("floor         {:.2f} us between operators that do nothing\n", measured.floor_sec * 1e6);
  fmt::print("bandwidth     {:.1f} GB/s\n", measured.bytes_per_sec / 1e9);
  fmt::print("layers        {} measured ({} of them disturbed), {} left out\n", measured.probe.layers.size(),
             measured.disturbed, measured.left_out);
  fmt::print("predict with  perfpred-predict --model {} --device \"{}\" ...\n", out, measured.probe.device.name);
}

}  // namespace

int probe_command(int argc, char** argv) {
  Program program("probe", "perfpred-probe --device cuda:0 --budget-sec 20 --out ops_here.json");
  std::string model, out = "ops_here.json", precision = "fp32";
  std::vector<std::string> networks = {"resnet50", "mobilenet_v2", "vgg16", "bert_base"};
  std::int64_t batch_size = 0;
  DeviceFile device_file;
  LinksProbe links;
  ProbeOptions options;
  bool json = false;
  program.add_option("--model", model, "op model that learns the device (default: the standard model)");
  program.add_option("--device", options.device, "auto, cpu, cuda, cuda:1")->capture_default_str();
  takes_seconds(program.add_option("--budget-sec", options.budget_sec, "time that the measurements may take"))
      ->capture_default_str()
      ->check(positive());
  program.add_option("--network", networks, "whose layers are measured, joined by commas")
      ->delimiter(',')
      ->capture_default_str();
  CLI::Option* batch_option =
      program.add_option("--batch-size", batch_size, "of these layers (default: 32, on a CPU 4)")->check(positive());
  program.add_option("--precision", precision, "fp32, tf32, bf16, fp16, fp64, default")->capture_default_str();
  CLI::Option* out_option =
      program.add_option("--out", out, "op model that knows the device; with --links their table, links.csv")
          ->capture_default_str();
  program.add_option("--layers-out", options.table,
                     "append the measured layers to this table of perfpred-bench-layers");
  program.lets_overwrite("--model", "--out");
  links.add_to(program);
  device_file.add_to(program);
  program.add_flag("--json", json, "one JSON document on stdout");
  return program.run(argc, argv, [&] {
    begin_measuring(argv);
    if (links.is_asked()) {
      refuse({program.get_option("--model"), program.get_option("--network"), program.get_option("--layers-out"),
              program.get_option("--budget-sec"), program.get_option("--precision"), batch_option},
             "a probe of a device, not of links");
      return links.run(argv, options.device, out_option->count() > 0 ? out : "links.csv", json);
    }
    options.precision = parse_precision(precision);
    if (batch_option->count() == 0) batch_size = runtime_device(options.device).is_cpu() ? 4 : 32;
    options.layers = probe_layers(networks, batch_size, options.precision);
    options.progress = progress_on_terminal("measuring");
    stop_on_signals();
    const auto probed = probe_device(model, options, device_file.catalogue(), out, interrupted);
    if (!probed) throw Error("interrupted");
    if (json) return print_json(*probed, options, out);
    print(*probed, options, out);
  });
}

}  // namespace perfpred::cli
