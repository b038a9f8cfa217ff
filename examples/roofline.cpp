// SPDX-License-Identifier: Apache-2.0
// perfpred-roofline: measured steps under the roofs of their devices.

#include "aggregate/usable_rows.h"
#include "chart_options.h"
#include "cli.h"
#include "device_file.h"
#include "graphs_option.h"
#include "tools/roofline/roofline_report.h"

namespace perfpred::cli {
namespace {

using nlohmann::ordered_json;

ordered_json to_json(const RooflineStudy& study, const std::vector<std::string>& files) {
  ordered_json devices = ordered_json::array(), points = ordered_json::array();
  for (const Roofline* roof : roofs_of(study.points())) {
    ordered_json ceilings = ordered_json::array();
    for (const auto& [name, rate] : roof->ceilings()) ceilings.push_back({{"name", name}, {"flops_per_sec", rate}});
    const ordered_json memory = {{"name", "memory"}, {"bytes_per_sec", roof->bandwidth()}};
    devices.push_back({{"name", roof->device().name},
                       {"ceilings", std::move(ceilings)},
                       {"bandwidths", ordered_json::array({memory})}});
  }
  for (const StudyPoint& p : study.points()) {
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
      throw InputError("--device \"" + option + "\": this environment has a device already");
    }
  }
  return devices;
}

struct RooflineOptions {
  std::vector<std::string> iterations, devices;
  std::string runs_agg, ncu, label, own, out_dir, precision = "fp32";
  std::optional<double> ai, gflops, peak_flops, peak_bw;
  int warmup = 5;
  bool as_json = false, decimal_comma = false;
  CLI::Option *of_precision, *of_label;
  std::vector<CLI::Option*> of_graphs;

  explicit RooflineOptions(Program& program) {
    auto* logs = program.add_option("--iterations", iterations, "Iteration log (may be repeated)");
    program.add_option("--runs-agg", runs_agg, "Measured rows: a runs_agg.csv");
    auto* report = program.add_option("--ncu", ncu, "CSV export of Nsight Compute");
    program.add_flag("--decimal-comma", decimal_comma, "The export has decimal commas")->needs(report);
    auto* intensity = program.add_option("--ai", ai, "A point by hand: its FLOPs per byte");
    auto* rate = program.add_option("--gflops", gflops, "... and its GFLOP/s")->needs(intensity);
    intensity->needs(rate);
    auto* device = program.add_option("--device", devices,
                                      "Device; or of one environment or device: NAME=DEVICE (may be repeated)");
    auto* file = program.add_option("--device-file,--devices", own, "Your own devices.csv: its rows are added");
    auto* flops = program.add_option("--peak-flops", peak_flops, "Peak by hand, FLOP/s")->excludes(device, file);
    auto* bandwidth = program.add_option("--peak-bw", peak_bw, "Bandwidth by hand, bytes/s")->needs(flops);
    flops->needs(bandwidth);
    of_precision =
        program.add_option("--precision", precision, "Of measurements that do not state theirs")->capture_default_str();
    program.add_option("--warmup", warmup, "Iterations dropped at the start of a log")
        ->capture_default_str()
        ->needs(logs);
    of_label = program.add_option("--label", label, "Name of the point by hand, the report or the device by hand");
    program.add_option("--out-dir", out_dir, "Write tables, plots and report.md here");
    program.add_flag("--json", as_json, "Print one JSON document");
    of_graphs = add_graphs_options(program);
  }

  void check() const {
    const bool has_steps = !iterations.empty() || !runs_agg.empty();
    const bool has_others = !ncu.empty() || ai;
    if (!has_steps && !has_others) {
      throw InputError("nothing to place: give --iterations, --runs-agg, --ncu, or --ai and --gflops");
    }
    if (!has_steps) refuse(of_graphs, "--iterations and --runs-agg");
    if (of_label->count() > 0 && !has_others && !peak_flops) {
      throw InputError("--label names a report, a point by hand or a device by hand; there is none");
    }
    if (has_others && !peak_flops && !device_map(devices).contains("")) {
      throw InputError("--device is missing (or --peak-flops and --peak-bw): --ncu and --ai do not state theirs");
    }
  }

  [[nodiscard]] std::string label_or(const char* text) const { return label.empty() ? text : label; }
};

RooflineStudy study_of(const RooflineOptions& given) {
  StudyDevices known = {DeviceFile{given.own}.catalogue(), device_map(given.devices), std::nullopt,
                        [] { return rated_cpu_said(); }};
  if (given.peak_flops) known.by_hand.emplace(given.label_or("device"), *given.peak_flops, *given.peak_bw);
  RooflineStudy study(std::move(known), parse_precision(given.precision));
  if (!given.iterations.empty()) study.add(summarise_iterations(given.iterations, given.warmup));
  if (!given.runs_agg.empty()) {
    std::vector<RejectedRun> left_out;
    study.add(read_usable_rows(given.runs_agg, left_out));
    for (const RejectedRun& row : left_out) study.warn("a row is left out: " + row.reason);
  }
  if (!given.ncu.empty()) {
    study.add(NcuReport::read(given.ncu, given.decimal_comma ? ',' : '.'), given.label_or("all kernels"));
  }
  if (given.ai) study.add(given.label_or("point"), *given.ai, *given.gflops * 1e9);
  study.check_all_used(given.of_precision->count() > 0);
  return study;
}

}  // namespace

int roofline_command(int argc, char** argv) {
  Program program("roofline",
                  "perfpred-roofline --iterations log.csv --device \"RTX 4080=RTX 4080 Laptop\" --out-dir report");
  RooflineOptions given(program);
  const ChartOptions charts(program);
  return program.run(argc, argv, [&] {
    given.check();
    const RooflineStudy study = study_of(given);
    for (const std::string& warning : study.warnings()) fmt::print(stderr, "perfpred-roofline: warning: {}\n", warning);
    std::vector<std::string> files;
    if (!given.out_dir.empty()) files = write_roofline_report(study, given.out_dir, charts.style());
    if (given.as_json) {
      fmt::print("{}\n", dumped(to_json(study, files)));
    } else {
      fmt::print("{}", roofline_text(study.points()));
      for (const std::string& path : files) fmt::print("{}\n", path);
    }
  });
}

}  // namespace perfpred::cli
