// SPDX-License-Identifier: Apache-2.0
// perfpred-roofline: measured steps under the roofs of their devices.

#include <fmt/format.h>
#include <nlohmann/json.hpp>

#include "cli.h"
#include "tools/roofline_study.h"

namespace {

using json = nlohmann::ordered_json;

json to_json(const perfpred::RooflineStudy& study) {
  json document = {{"devices", json::array()}, {"points", json::array()}, {"warnings", study.warnings()}};
  for (const perfpred::Roofline* roof : study.roofs()) {
    json device = {{"name", roof->device().name}, {"ceilings", json::array()}};
    for (const auto& [name, rate] : roof->ceilings())
      device["ceilings"].push_back({{"name", name}, {"flops_per_sec", rate}});
    device["bandwidths"] = json::array({{{"name", "memory"}, {"bytes_per_sec", roof->bandwidth()}}});
    document["devices"].push_back(std::move(device));
  }
  const auto number = [](const std::optional<double>& value) { return value ? json(*value) : json(nullptr); };
  for (const perfpred::RooflinePoint& p : study.points()) {
    document["points"].push_back({{"device", p.device},
                                  {"label", p.label},
                                  {"ai", p.ai},
                                  {"flops_per_sec", p.flops_per_sec},
                                  {"bound", p.bound ? json(to_string(*p.bound)) : json(nullptr)},
                                  {"margin", number(p.margin)},
                                  {"efficiency", number(p.efficiency)}});
  }
  return document;
}

/// `NAME` for every environment, or `ENVIRONMENT=NAME` for one.
std::map<std::string, std::string> device_map(const std::vector<std::string>& options) {
  std::map<std::string, std::string> devices;
  for (const std::string& option : options) {
    const std::size_t equals = option.find('=');
    const std::string environment = equals == std::string::npos ? "" : option.substr(0, equals);
    if (!devices.emplace(environment, equals == std::string::npos ? option : option.substr(equals + 1)).second) {
      throw perfpred::InputError("--device: \"" + option + "\" names an environment a second time");
    }
  }
  return devices;
}

}  // namespace

int main(int argc, char** argv) {
  perfpred::cli::Program program(
      "roofline", "Places measured steps under the rooflines of their devices.",
      "perfpred-roofline --iterations log.csv --device \"RTX 4080=RTX 4080 Laptop\" --out-dir report");
  std::vector<std::string> iterations, devices;
  std::string runs_agg, ncu, label, own, out_dir, precision = "fp32";
  std::optional<double> ai, gflops, peak_flops, peak_bw;
  int warmup = 5;
  bool as_json = false;
  program.add_option("--iterations", iterations, "Iteration log (may be repeated)");
  program.add_option("--runs-agg", runs_agg, "Measured rows: a runs_agg.csv");
  program.add_option("--ncu", ncu, "CSV export of Nsight Compute");
  program.add_option("--ai", ai, "FLOPs a byte of one point");
  program.add_option("--gflops", gflops, "GFLOP/s of that point");
  auto* device = program.add_option("--device", devices, "Device, or ENVIRONMENT=DEVICE (may be repeated)");
  program.add_option("--devices", own, "Your own devices.csv: its rows are added");
  program.add_option("--peak-flops", peak_flops, "Peak by hand, FLOP/s")->excludes(device);
  program.add_option("--peak-bw", peak_bw, "Bandwidth by hand, bytes/s")->excludes(device);
  program.add_option("--precision", precision, "Of measurements that do not say theirs")->capture_default_str();
  program.add_option("--warmup", warmup, "Iterations dropped at the start of a log")->capture_default_str();
  program.add_option("--label", label, "Name of the point, or of the report");
  program.add_option("--out-dir", out_dir, "Write tables, plots and report.md here");
  program.add_flag("--json", as_json, "Print one JSON document");
  return program.run(argc, argv, [&] {
    if (ai.has_value() != gflops.has_value()) throw perfpred::InputError("--ai and --gflops go together");
    if (peak_flops.has_value() != peak_bw.has_value())
      throw perfpred::InputError("--peak-flops and --peak-bw go together");
    if (iterations.empty() && runs_agg.empty() && ncu.empty() && !ai) {
      throw perfpred::InputError("nothing to place: give --iterations, --runs-agg, --ncu, or --ai and --gflops");
    }
    perfpred::DeviceCatalogue catalogue;
    if (!own.empty()) catalogue.add(own);
    perfpred::RooflineStudy study(std::move(catalogue), device_map(devices), perfpred::parse_precision(precision));
    if (peak_flops) study.set_roof(perfpred::Roofline(label.empty() ? "device" : label, *peak_flops, *peak_bw));
    if (!iterations.empty()) study.add(perfpred::summarise_iterations(iterations, warmup));
    if (!runs_agg.empty()) study.add(perfpred::read_aggregate(runs_agg));
    if (!ncu.empty()) study.add(perfpred::NcuReport::read(ncu), label.empty() ? "all kernels" : label);
    if (ai) study.add(label.empty() ? "point" : label, *ai, *gflops * 1e9);
    study.check_devices();
    for (const std::string& warning : study.warnings()) fmt::print(stderr, "perfpred-roofline: warning: {}\n", warning);
    std::vector<std::string> files;
    if (!out_dir.empty()) files = study.write(out_dir);
    if (as_json) {
      json document = to_json(study);
      document["files"] = files;
      fmt::print("{}\n", document.dump());
    } else {
      fmt::print("{}", study.text());
      for (const std::string& file : files) fmt::print("{}\n", file);
    }
  });
}
