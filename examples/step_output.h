// SPDX-License-Identifier: Apache-2.0
#pragma once
// What perfpred-inspect and perfpred-trace print of one training step.

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <string_view>
#include <vector>

#include "tools/answer_text.h"
#include "tools/step_report.h"
#include "tools/terminal_text.h"

namespace perfpred::cli {

inline void print_layers(const std::vector<LayerSummary>& layers) {
  std::size_t width = 5;
  for (const LayerSummary& layer : layers) width = std::max(width, layer.name.size());
  fmt::print("\n  {:<{}} {:>20} {:>12} {:>15} {:>12} {:>10}\n", "layer", width, "output", "parameters", "forward GFLOP",
             "all GFLOP", "all MB");
  for (const LayerSummary& layer : layers) {
    fmt::print("  {:<{}} {:>20} {:>12} {:>15.4f} {:>12.4f} {:>10.2f}\n", layer.name.empty() ? "-" : layer.name, width,
               layer.output, layer.params, layer.forward.flops / 1e9, layer.all.flops / 1e9,
               static_cast<double>(layer.all.bytes()) / 1e6);
  }
}

inline void print_totals_header() {
  fmt::print("{}\n", in_bold(fmt::format("  {:<28} {:>7} {:>12} {:>12} {:>12} {:>9}", "", "ops", "GFLOP", "read MB",
                                         "written MB", "FLOP/byte")));
}

inline void print_totals(std::string_view name, const OpTotals& totals) {
  fmt::print("  {:<28} {:>7} {:>12.4f} {:>12.2f} {:>12.2f} {:>9.2f}\n", name, totals.ops, totals.flops / 1e9,
             static_cast<double>(totals.bytes_read) / 1e6, static_cast<double>(totals.bytes_written) / 1e6,
             totals.intensity());
}

inline void print_text(const StepReport& report) {
  fmt::print("{}, batch size {}, {} parameters\n\n", report.network, report.batch_size, report.step.graph().params());
  print_totals_header();
  for (const Phase phase : report_phases) print_totals(to_string(phase), report.step.graph().totals(phase));
  print_totals("total", report.step.graph().totals());
  fmt::print("\n");
  for (const auto& [name, totals] : report.kinds()) print_totals(name, totals);
  const auto megabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  if (const auto& memory = report.memory) {
    fmt::print(
        "\nmemory {:.1f} MB at the peak: parameters {:.1f}, gradients {:.1f}, optimizer {:.1f}, activations {:.1f}, "
        "loader {:.1f}, workspace {:.1f}, context {:.1f}\n",
        megabytes(memory->peak_bytes), megabytes(memory->parameters), megabytes(memory->gradients),
        megabytes(memory->optimizer), megabytes(memory->activations), megabytes(memory->loader),
        megabytes(memory->workspace), megabytes(memory->context));
  } else {
    fmt::print("\nmemory unknown: how the device allocates it is unknown\n");
  }
  if (report.device) {
    const DeviceAnswer& device = *report.device;
    fmt::print("{}: {}", device.name, device.verdict ? in_words(*device.verdict) : "fits unknown");
    if (device.largest_batch) fmt::print(", largest batch {}", *device.largest_batch);
    if (device.bound) fmt::print(", bound by {}", to_string(*device.bound));
    if (device.time_at_peak_sec) fmt::print(", {:.3f} ms at its peak rates", 1e3 * *device.time_at_peak_sec);
    fmt::print("\n");
  }
  for (const auto& [name, count] : report.unknown_ops()) {
    fmt::print("unknown operator {} ({} times): counted as one FLOP per element and the bytes of its operands\n", name,
               count);
  }
}

}  // namespace perfpred::cli
