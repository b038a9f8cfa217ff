// SPDX-License-Identifier: Apache-2.0
#include "tools/layouts_text.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "tools/terminal_text.h"

namespace perfpred {
namespace {

/// What most of the time above perfect scaling is lost to.
std::string largest_loss(const ScalingLimits& limits) {
  const std::array<std::pair<const char*, double>, 5> parts = {{{"loader", limits.loader},
                                                                {"host", limits.host},
                                                                {"links", limits.links},
                                                                {"batch", limits.batch},
                                                                {"bubble", limits.bubble}}};
  const auto* const most = std::ranges::max_element(parts, {}, [](const auto& part) { return part.second; });
  return most->second > 0 ? fmt::format("{} {:.0f} %", most->first, 100 * most->second) : std::string();
}

}  // namespace

std::string layouts_text(const Layouts& layouts) {
  const bool has_prices = std::ranges::any_of(layouts.layouts, [](const auto& one) { return one.price.has_value(); });
  std::vector<std::vector<std::string>> lines = {{"parallel", "gpus_per_node", "micro-batch", "batches", "checkpoint",
                                                  "step s", "90 % interval", "tokens/s", "memory GB", "verdict"}};
  if (has_prices) lines.front().emplace_back("price of 1000 steps");
  lines.front().emplace_back("lost to");
  for (const RankedLayout& one : layouts.layouts) {
    const Workload& job = one.workload;
    std::vector<std::string>& line = lines.emplace_back(std::vector<std::string>{
        job.parallel.text(), job.gpus_per_node.text(), std::to_string(job.batch_size), std::to_string(job.accumulate),
        field_text(job, "checkpoint"), fmt::format("{:.4g}", one.step_sec.p50),
        fmt::format("{:.4g} .. {:.4g}", one.step_sec.p05, one.step_sec.p95),
        fmt::format("{:.4g}", one.tokens_per_sec.p50),
        fmt::format("{:.1f}", static_cast<double>(one.memory.peak_bytes) / 1e9), std::string(to_string(one.verdict))});
    if (has_prices) line.push_back(one.price ? fmt::format("{:.4g}", 1000 * *one.price) : std::string());
    line.push_back(largest_loss(one.scaling.limits));
  }
  std::vector<std::size_t> widths(lines.front().size());
  for (const auto& line : lines) {
    for (std::size_t i = 0; i < widths.size(); ++i) widths[i] = std::max(widths[i], line[i].size());
  }
  std::string text = fmt::format("{} layouts, {} of them fit\n\n", layouts.space, layouts.fit);
  for (std::size_t row = 0; row < lines.size(); ++row) {
    std::string line;
    for (std::size_t i = 0; i < widths.size(); ++i) line += fmt::format("{:<{}}  ", lines[row][i], widths[i]);
    line.erase(line.find_last_not_of(' ') + 1);
    text += (row == 0 ? in_bold(line) : line) + "\n";
  }
  for (const std::string& what : layouts.left_out) text += fmt::format("\nleft out: {}\n", what);
  return text;
}

}  // namespace perfpred
