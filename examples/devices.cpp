// SPDX-License-Identifier: Apache-2.0
// perfpred-devices: the device catalogue.
#include <perfpred/device.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "catalogue/device_table.h"
#include "cli.h"
#include "device_file.h"
#include "text/json.h"
#include "text/parse.h"
#include "tools/device_json.h"
#include "tools/terminal_text.h"

namespace {

void print(const perfpred::Device& device) {
  for (const auto& column : perfpred::device_table()) {
    const std::string field = column.get(device);
    fmt::print("{:<20}{}\n", column.name, field.empty() ? "unknown" : perfpred::printable(field));
  }
}

void print(std::span<const perfpred::Device> devices) {
  const auto text = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "-"; };
  constexpr auto row = "{:<29}{:>5}{:>8}{:>8}{:>8}{:>8}{:>9}{:>8}{:>9}{:>6}";
  fmt::print("{}\n", perfpred::in_bold(
                         fmt::format(row, "name", "year", "fp64", "fp32", "tf32", "bf16", "fp16", "GB", "GB/s", "W")));
  for (const perfpred::Device& d : devices) {
    fmt::print(row, d.name, text(d.year), text(d.fp64_tflops), text(d.fp32_tflops), text(d.tf32_tflops),
               text(d.bf16_tflops), text(d.fp16_tflops), text(d.mem_gb), text(d.mem_bw_gbs), text(d.tdp_w));
    fmt::print("\n");
  }
  fmt::print("Peaks in TFLOP/s, dense, of the matrix units where there are some. `perfpred-devices NAME` says more.\n");
}

}  // namespace

int main(int argc, char** argv) {
  perfpred::cli::Program program("devices", "Shows the device catalogue, or one device of it.",
                                 "perfpred-devices \"RTX 3090\" --json");
  std::string name, own;
  bool json = false, measure = false;
  program.add_option("NAME", name, "Name or alias; `cpu` is this machine's, measured once");
  program.add_flag("--measure", measure, "Measure this machine's CPU now and keep its rates for predictions");
  program.add_option("--device-file,--devices", own, "Your own devices.csv: its rows are added");
  program.add_flag("--json", json, "Print one JSON document");
  return program.run(argc, argv, [&] {
    const perfpred::cli::DeviceFile file{own};
    perfpred::DeviceCatalogue catalogue = file.catalogue_for(measure ? "" : name);
    if (measure) {
      if (name.empty()) name = "cpu";
      if (catalogue.resolve(name).origin != perfpred::DeviceOrigin::this_cpu) {
        throw perfpred::InputError("--measure is for this machine's CPU where --device-file has no row of it");
      }
      catalogue.set_cpu(perfpred::cli::rated_cpu_said(true));
    }
    std::vector<perfpred::Device> devices(catalogue.devices().begin(), catalogue.devices().end());
    if (!name.empty()) devices = {catalogue.find(name)};
    if (json) {
      fmt::print("{}\n", perfpred::dumped(perfpred::to_json(std::span<const perfpred::Device>(devices))));
    } else if (name.empty()) {
      print(devices);
    } else {
      print(devices.front());
    }
  });
}
