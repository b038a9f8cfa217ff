// SPDX-License-Identifier: Apache-2.0
#pragma once
// What perfpred-inspect prints of the ranks of a training over several devices.

#include <fmt/format.h>

#include <cstdint>
#include <string>

#include "tools/rank_report.h"
#include "tools/terminal_text.h"

namespace perfpred::cli {

inline void print_text(const RankReport& report) {
  fmt::print("{}, {} on {} devices ({}), micro-batches of {}, {} an update\n\n", report.network, report.layout.text(),
             report.placement.devices(), report.placement.text(), report.micro_batch, report.micro_batches);
  std::string head = fmt::format("  {:<6}", "stage");
  for (const auto& [name, kind] : part_kinds) head += fmt::format(" {:>12}", name);
  fmt::print("{}\n", in_bold(fmt::format("{} {:>12} {:>12}", head, "MB", "upper MB")));
  const auto megabytes = [](std::int64_t bytes) { return static_cast<double>(bytes) / 1e6; };
  for (const RankMemory& rank : report.ranks) {
    fmt::print("  {:<6}", rank.stage);
    for (const auto& [name, kind] : part_kinds) fmt::print(" {:>12.1f}", megabytes(bytes_of(rank, kind)));
    fmt::print(" {:>12.1f} {:>12.1f}\n", megabytes(rank.tensors.p50), megabytes(rank.tensors.upper));
  }
  const RankMemory& most = fullest(report.ranks);
  fmt::print("\nmemory {:.1f} MB of tensors at the peak of the fullest rank, of stage {}; at most {:.1f} MB\n",
             megabytes(most.tensors.p50), most.stage, megabytes(most.tensors.upper));
}

}  // namespace perfpred::cli
