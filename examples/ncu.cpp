// SPDX-License-Identifier: Apache-2.0
// perfpred-ncu: sums up a CSV export of Nsight Compute.

#include "cli.h"
#include "tools/roofline/ncu_report.h"

namespace perfpred::cli {
namespace {

using nlohmann::ordered_json;

ordered_json brief(const NcuTotals& totals) {
  return {{"kernels", totals.kernels}, {"flops", totals.flops}, {"bytes", totals.bytes}, {"time_sec", totals.time_sec}};
}

ordered_json to_json(const NcuReport& report, const std::string& label) {
  const NcuTotals& total = report.total;
  ordered_json document = {{"label", label},
                           {"kernels", total.kernels},
                           {"flops", total.flops},
                           {"tensor_flops", total.tensor_flops},
                           {"bytes_read", or_null(total.bytes_read)},
                           {"bytes_written", or_null(total.bytes_written)},
                           {"bytes", total.bytes},
                           {"time_sec", total.time_sec},
                           {"gflops", total.flops_per_sec() / 1e9},
                           {"gbps", total.bytes_per_sec() / 1e9},
                           {"ai", or_null(total.arithmetic_intensity())},
                           {"sm_pct", or_null(total.sm_pct)},
                           {"dram_pct", or_null(total.dram_pct)},
                           {"ranges", ordered_json::object()},
                           {"by_kernel", ordered_json::array()},
                           {"warnings", report.warnings}};
  for (const auto& range : report.ranges) document["ranges"][range.name] = brief(range);
  for (const auto& kernel : report.by_kernel) {
    ordered_json row = {{"name", kernel.name}};
    row.update(brief(kernel));
    document["by_kernel"].push_back(std::move(row));
  }
  return document;
}

}  // namespace

int ncu_command(int argc, char** argv) {
  Program program("ncu", "perfpred-ncu report.csv --label resnet18 --out summary.txt");
  std::string path, label, out;
  bool as_json = false, decimal_comma = false;
  program.add_option("report", path, "CSV of `ncu --csv`, long or wide (--page raw)")->required();
  program.add_option("--label", label, "Heading of the summary (default: the file's name)");
  program.add_option("--out", out, "Write the summary here too");
  program.add_flag("--decimal-comma", decimal_comma, "The file has decimal commas");
  program.add_flag("--json", as_json, "Print one JSON document");
  return program.run(argc, argv, [&] {
    const NcuReport report = NcuReport::read(path, decimal_comma ? ',' : '.');
    if (label.empty()) label = path.substr(path.find_last_of('/') + 1);
    if (!out.empty()) write_file(out, report.text(label));
    if (as_json) {
      for (const std::string& warning : report.warnings) fmt::print(stderr, "perfpred-ncu: warning: {}\n", warning);
      fmt::print("{}\n", dumped(to_json(report, label)));
    } else {
      fmt::print("{}", report.text(label));
    }
  });
}

}  // namespace perfpred::cli
