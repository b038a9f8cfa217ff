// SPDX-License-Identifier: Apache-2.0
// Reading Nsight Compute exports: bytes a second, and the memory it takes, by size of the file.

#include <benchmark/benchmark.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "tools/roofline/ncu_report.h"

namespace {

/// A long-format report of about `megabytes`: 8 metrics a kernel, names of 400 characters as templates have them.
std::filesystem::path make_report(std::int64_t megabytes) {
  auto path = std::filesystem::temp_directory_path() / ("perfpred-bench-" + std::to_string(::getpid()) + ".csv");
  std::ofstream out(path, std::ios::binary);
  out << R"("ID","Process ID","Kernel Name","thread Domain:Push/Pop_Range:PL_Type:PL_Value:CLR_Type:Color:Msg_Type:Msg","CC",)"
      << R"("Metric Name","Metric Unit","Metric Value")" << '\n';
  const std::string op = "smsp__sass_thread_inst_executed_op_";
  const std::pair<std::string, std::string> metrics[] = {
      {"dram__bytes_read.sum\",\"Kbyte", "1,234.50"},
      {"dram__bytes_write.sum\",\"byte", "640"},
      {"dram__throughput.avg.pct_of_peak_sustained_elapsed\",\"%", "12.34"},
      {"gpu__time_duration.sum\",\"usecond", "56.78"},
      {"sm__throughput.avg.pct_of_peak_sustained_elapsed\",\"%", "45.60"},
      {op + "fadd_pred_on.sum\",\"inst", "1,000"},
      {op + "fmul_pred_on.sum\",\"inst", "2,000"},
      {op + "ffma_pred_on.sum\",\"inst", "3,000,000"}};
  const std::string range = R"(77  ""<default domain>:forward:none:none:none:none:none:none"" )";
  for (std::int64_t id = 0, bytes = 0; bytes < megabytes * 1'000'000; ++id) {
    const std::string name = "void kernel_" + std::to_string(id % 50) + "<" + std::string(400, 'T') + ">(int, float)";
    std::string rows;
    for (const auto& [metric, value] : metrics) {
      rows += "\"" + std::to_string(id) + "\",\"77\",\"" + name + "\",\"" + range + "\",\"8.9\",\"" + metric + "\",\"" +
              value + "\"\n";
    }
    out << rows;
    bytes += static_cast<std::int64_t>(rows.size());
  }
  return path;
}

void read_report(benchmark::State& state) {
  const auto path = make_report(state.range(0));
  for (auto _ : state) benchmark::DoNotOptimize(perfpred::NcuReport::read(path.string()).total.flops);
  state.SetBytesProcessed(state.iterations() * static_cast<std::int64_t>(std::filesystem::file_size(path)));
  std::filesystem::remove(path);
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  state.counters["peak_rss_mb"] = static_cast<double>(usage.ru_maxrss) / 1000;
}
BENCHMARK(read_report)->Arg(16)->Arg(256)->Arg(1024)->Unit(benchmark::kMillisecond);

}  // namespace
