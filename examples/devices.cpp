// SPDX-License-Identifier: Apache-2.0
// perfpred-devices: the device catalogue.
#include <perfpred/device.h>

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli.h"

namespace {

nlohmann::ordered_json to_json(const perfpred::Device& device) {
  nlohmann::ordered_json row;
  const auto number = [&row](const char* key, const std::optional<double>& value) {
    row[key] = value ? nlohmann::ordered_json(*value) : nlohmann::ordered_json(nullptr);
  };
  row["name"] = device.name;
  row["aliases"] = device.aliases;
  row["kind"] = to_string(device.kind);
  row["vendor"] = device.vendor;
  row["arch"] = device.arch;
  row["year"] = device.year ? nlohmann::ordered_json(static_cast<int>(*device.year)) : nlohmann::ordered_json(nullptr);
  number("fp64_tflops", device.fp64_tflops);
  number("fp32_tflops", device.fp32_tflops);
  number("tf32_tflops", device.tf32_tflops);
  number("bf16_tflops", device.bf16_tflops);
  number("fp16_tflops", device.fp16_tflops);
  number("fp64_vector_tflops", device.fp64_vector_tflops);
  number("fp32_vector_tflops", device.fp32_vector_tflops);
  number("fp16_vector_tflops", device.fp16_vector_tflops);
  number("mem_gb", device.mem_gb);
  number("mem_bw_gbs", device.mem_bw_gbs);
  number("l2_mb", device.l2_mb);
  number("sms", device.sms);
  number("boost_mhz", device.boost_mhz);
  number("tdp_w", device.tdp_w);
  number("launch_us", device.launch_us);
  row["source"] = device.source;
  return row;
}

void print(const perfpred::Device& device) {
  const auto fields = perfpred::device_fields(device);
  for (std::size_t i = 0; i < fields.size(); ++i) {
    fmt::print("{:<20}{}\n", perfpred::device_columns()[i], fields[i].empty() ? "unknown" : fields[i]);
  }
}

void print(std::span<const perfpred::Device> devices) {
  const auto text = [](const std::optional<double>& value) { return value ? fmt::format("{}", *value) : "-"; };
  constexpr auto row = "{:<17}{:>5}{:>8}{:>8}{:>8}{:>8}{:>9}{:>8}{:>9}{:>6}\n";
  fmt::print(row, "name", "year", "fp64", "fp32", "tf32", "bf16", "fp16", "GB", "GB/s", "W");
  for (const perfpred::Device& d : devices) {
    fmt::print(row, d.name, text(d.year), text(d.fp64_tflops), text(d.fp32_tflops), text(d.tf32_tflops),
               text(d.bf16_tflops), text(d.fp16_tflops), text(d.mem_gb), text(d.mem_bw_gbs), text(d.tdp_w));
  }
  fmt::print("Peaks in TFLOP/s, dense, of the matrix units where there are some. `perfpred-devices NAME` says more.\n");
}

}  // namespace

int main(int argc, char** argv) {
  perfpred::cli::Program program("devices", "Shows the device catalogue, or one device of it.",
                                 "perfpred-devices \"RTX 3090\" --json");
  std::string name, own;
  bool json = false;
  program.add_option("NAME", name, "Name or alias; `cpu` measures this machine's");
  program.add_option("--devices", own, "Your own devices.csv: its rows are added");
  program.add_flag("--json", json, "Print one JSON document");
  return program.run(argc, argv, [&] {
    perfpred::DeviceCatalogue catalogue;
    if (!own.empty()) catalogue.add(own);
    std::vector<perfpred::Device> devices(catalogue.devices().begin(), catalogue.devices().end());
    if (!name.empty()) devices = {catalogue.find_measured(name)};
    if (json) {
      nlohmann::ordered_json document = {{"devices", nlohmann::ordered_json::array()}};
      for (const auto& device : devices) document["devices"].push_back(to_json(device));
      fmt::print("{}\n", document.dump());
    } else if (name.empty()) {
      print(devices);
    } else {
      print(devices.front());
    }
  });
}
