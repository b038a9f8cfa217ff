// SPDX-License-Identifier: Apache-2.0
// perfpred-roofline: measured steps under the roofs of their devices.

#include <fmt/format.h>

#include "cli.h"
#include "device_file.h"
#include "graphs_option.h"
#include "text/json.h"
#include "tools/roofline/roofline_report.h"

namespace {

using nlohmann::ordered_json;
using perfpred::or_null;

ordered_json to_json(const perfpred::RooflineStudy& study, const std::vector<std::string>& files) {
  ordered_json devices = ordered_json::array(), points = ordered_json::array();
  for (const perfpred::Roofline* roof : perfpred::roofs_of(study.points())) {
    ordered_json ceilings = ordered_json::array();
    for (const auto& [name, rate] : roof->ceilings()) ceilings.push_back({{"name", name}, {"flops_per_sec", rate}});
    const ordered_json memory = {{"name", "memory"}, {"bytes_per_sec", roof->bandwidth()}};
    devices.push_back({{"name", roof->device().name},
                       {"ceilings", std::move(ceilings)},
                       {"bandwidths", ordered_json::array({memory})}});
  }
  for (const perfpred::StudyPoint& p : study.points()) {
    points.push_back({{"environment", p.steps ? ordered_json(p.environment) : ordered_json()},
                      {"device", p.device},
                      {"label", p.label},
                      {"precision", to_string(p.precision)},
                      {"ai", p.ai},
                      {"flops_per_sec", p.flops_per_sec},
                      {"bound", p.bound ? ordered_json(to_string(*p.bound)) : ordered_json()},
                      {"margin", or_null(p.margin)},
                      {"efficiency", or_null(p.efficiency)}});
  }
  return {{"devices", devices}, {"points", points}, {"warnings", study.warnings()}, {"files", files}};
}

/// `NAME` for every measurement, or `ENVIRONMENT=NAME` for those of one environment.
std::map<std::string, std::string> device_map(const std::vector<std::string>& options) {
  std::map<std::string, std::string> devices;
  for (const std::string& option : options) {
    const std::size_t equals = option.find('=');
    const std::string environment = equals == std::string::npos ? "" : option.substr(0, equals);
    if (!devices.emplace(environment, equals == std::string::npos ? option : option.substr(equals + 1)).second) {
      throw perfpred::InputError("--device \"" + option + "\": this environment has a device already");
    }
  }
  return devices;
}

}  // namespace

int main(int argc, char** argv) {
  perfpred::cli::Program program(
      "roofline", "Places measured training steps under the rooflines of their devices.",
      "perfpred-roofline --iterations log.csv --device \"RTX 4080=RTX 4080 Laptop\" --out-dir report");
  std::vector<std::string> iterations, devices;
  std::string runs_agg, ncu, label, own, out_dir, precision = "fp32";
  std::optional<double> ai, gflops, peak_flops, peak_bw;
  int warmup = 5;
  bool as_json = false, decimal_comma = false;
  auto* logs = program.add_option("--iterations", iterations, "Iteration log (may be repeated)");
  program.add_option("--runs-agg", runs_agg, "Measured rows: a runs_agg.csv");
  auto* report = program.add_option("--ncu", ncu, "CSV export of Nsight Compute");
  program.add_flag("--decimal-comma", decimal_comma, "The export has decimal commas")->needs(report);
  auto* intensity = program.add_option("--ai", ai, "A point by hand: its FLOPs per byte");
  auto* rate = program.add_option("--gflops", gflops, "... and its GFLOP/s")->needs(intensity);
  intensity->needs(rate);
  auto* device =
      program.add_option("--device", devices, "Device; or of one environment or device: NAME=DEVICE (may be repeated)");
  auto* file = program.add_option("--device-file,--devices", own, "Your own devices.csv: its rows are added");
  auto* flops = program.add_option("--peak-flops", peak_flops, "Peak by hand, FLOP/s")->excludes(device, file);
  auto* bandwidth = program.add_option("--peak-bw", peak_bw, "Bandwidth by hand, bytes/s")->needs(flops);
  flops->needs(bandwidth);
  auto* stated =
      program.add_option("--precision", precision, "Of measurements that do not state theirs")->capture_default_str();
  program.add_option("--warmup", warmup, "Iterations dropped at the start of a log")
      ->capture_default_str()
      ->needs(logs);
  auto* name = program.add_option("--label", label, "Name of the point by hand, the report or the device by hand");
  program.add_option("--out-dir", out_dir, "Write tables, plots and report.md here");
  program.add_flag("--json", as_json, "Print one JSON document");
  const std::vector<CLI::Option*> graphs_options = perfpred::cli::add_graphs_options(program);
  return program.run(argc, argv, [&] {
    using namespace perfpred;
    if (iterations.empty() && runs_agg.empty() && ncu.empty() && !ai) {
      throw InputError("nothing to place: give --iterations, --runs-agg, --ncu, or --ai and --gflops");
    }
    if (iterations.empty() && runs_agg.empty()) cli::refuse(graphs_options, "--iterations and --runs-agg");
    if (name->count() > 0 && ncu.empty() && !ai && !peak_flops) {
      throw InputError("--label names a report, a point by hand or a device by hand; there is none");
    }
    if ((!ncu.empty() || ai) && !peak_flops && !device_map(devices).contains("")) {
      throw InputError("--device is missing (or --peak-flops and --peak-bw): --ncu and --ai do not state theirs");
    }
    StudyDevices known = {cli::DeviceFile{own}.catalogue(), device_map(devices), std::nullopt,
                          [] { return cli::rated_cpu_said(); }};
    if (peak_flops) known.by_hand.emplace(label.empty() ? "device" : label, *peak_flops, *peak_bw);
    RooflineStudy study(std::move(known), parse_precision(precision));
    if (!iterations.empty()) study.add(summarise_iterations(iterations, warmup));
    if (!runs_agg.empty()) study.add(read_aggregate(runs_agg));
    if (!ncu.empty()) {
      study.add(NcuReport::read(ncu, decimal_comma ? ',' : '.'), label.empty() ? "all kernels" : label);
    }
    if (ai) study.add(label.empty() ? "point" : label, *ai, *gflops * 1e9);
    study.check_all_used(stated->count() > 0);
    for (const std::string& warning : study.warnings()) fmt::print(stderr, "perfpred-roofline: warning: {}\n", warning);
    std::vector<std::string> files;
    if (!out_dir.empty()) files = write_roofline_report(study, out_dir);
    if (as_json) {
      fmt::print("{}\n", to_json(study, files).dump());
    } else {
      fmt::print("{}", roofline_text(study.points()));
      for (const std::string& path : files) fmt::print("{}\n", path);
    }
  });
}
