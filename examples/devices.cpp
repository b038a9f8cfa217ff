// SPDX-License-Identifier: Apache-2.0
// perfpred-devices: the device catalogue.
#include <perfpred/device.h>

#include "catalogue/device_table.h"
#include "cli.h"
#include "device_file.h"
#include "tools/device_json.h"
#include "tools/terminal_text.h"

namespace perfpred::cli {
namespace {

void print(const Device& device) {
  for (const auto& column : device_table()) {
    const std::string field = column.get(device);
    fmt::print("{:<20}{}\n", column.name, field.empty() ? "unknown" : printable(field));
  }
}

void print(std::span<const Device> devices) {
  const auto text = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "-"; };
  constexpr auto row = "{:<29}{:>5}{:>8}{:>8}{:>8}{:>8}{:>9}{:>8}{:>9}{:>6}";
  fmt::print("{}\n",
             in_bold(fmt::format(row, "name", "year", "fp64", "fp32", "tf32", "bf16", "fp16", "GB", "GB/s", "W")));
  for (const Device& d : devices) {
    fmt::print(row, d.name, text(d.year), text(d.fp64_tflops), text(d.fp32_tflops), text(d.tf32_tflops),
               text(d.bf16_tflops), text(d.fp16_tflops), text(d.mem_gb), text(d.mem_bw_gbs), text(d.tdp_w));
    fmt::print("\n");
  }
  fmt::print("Peaks in TFLOP/s, dense, of the matrix units where there are some. `perfpred-devices NAME` says more.\n");
}

}  // namespace

int devices_command(int argc, char** argv) {
  Program program("devices", "perfpred-devices \"RTX 3090\" --json");
  std::string name, own;
  bool json = false, measure = false;
  program.add_option("NAME", name, "Name or alias; `cpu` is this machine's, measured once");
  program.add_flag("--measure", measure, "Measure this machine's CPU now and keep its rates for predictions");
  program.add_option("--device-file,--devices", own, "Your own devices.csv: its rows are added");
  program.add_flag("--json", json, "Print one JSON document");
  return program.run(argc, argv, [&] {
    const DeviceFile file{own};
    DeviceCatalogue catalogue = file.catalogue_for(measure ? "" : name);
    if (measure) {
      if (name.empty()) name = "cpu";
      if (catalogue.resolve(name).origin != DeviceOrigin::this_cpu) {
        throw InputError("--measure is for this machine's CPU where --device-file has no row of it");
      }
      catalogue.set_cpu(rated_cpu_said(true));
    }
    std::vector<Device> devices(catalogue.devices().begin(), catalogue.devices().end());
    if (!name.empty()) devices = {catalogue.find(name)};
    if (json) {
      fmt::print("{}\n", dumped(to_json(std::span<const Device>(devices))));
    } else if (name.empty()) {
      print(devices);
    } else {
      print(devices.front());
    }
  });
}

}  // namespace perfpred::cli
