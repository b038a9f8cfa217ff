// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/torch/system_info.h>

#include <fmt/format.h>
#include <malloc.h>
#include <sys/utsname.h>
#include <torch/version.h>
#include <climits>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "catalogue/device_table.h"
#include "catalogue/nvml.h"
#include "statistics/parallel.h"
#include "text/files.h"
#include "text/json.h"
#include "torch/device/cuda_device.h"
#include "torch/device/torch_errors.h"
#include "torch/monitor/proc.h"

namespace perfpred {
namespace {

using nlohmann::ordered_json;

std::optional<std::int64_t> cache_bytes(int level) {
  for (int index = 0;; ++index) {
    const auto folder = fmt::format("/sys/devices/system/cpu/cpu0/cache/index{}/", index);
    if (!std::filesystem::exists(folder)) return std::nullopt;
    const auto type = first_line(folder + "type");
    if (leading_number(first_line(folder + "level")) != level || type == "Instruction") continue;
    const auto kib = leading_number(first_line(folder + "size"));
    return kib ? std::optional(static_cast<std::int64_t>(*kib) * 1024) : std::nullopt;
  }
}

std::optional<int> physical_cores() {
  std::set<std::pair<std::string, std::string>> cores;
  for (int cpu = 0;; ++cpu) {
    const auto folder = fmt::format("/sys/devices/system/cpu/cpu{}/topology/", cpu);
    const auto core = first_line(folder + "core_id");
    const auto package = first_line(folder + "physical_package_id");
    if (!core || !package) break;
    cores.emplace(*package, *core);
  }
  return cores.empty() ? std::nullopt : std::optional(static_cast<int>(cores.size()));
}

std::string distribution() {
  std::ifstream file("/etc/os-release");
  std::string line;
  constexpr std::string_view key = "PRETTY_NAME=";
  while (std::getline(file, line)) {
    if (line.rfind(key, 0) != 0) continue;
    line.erase(0, key.size());
    std::erase(line, '"');
    return line;
  }
  return "unknown";
}

ordered_json document(const SystemInfo& info) {
  ordered_json gpus = ordered_json::array();
  for (const GpuInfo& gpu : info.gpus) {
    gpus.push_back({{"name", gpu.name},
                    {"capability", gpu.capability},
                    {"memory_bytes", gpu.memory_bytes},
                    {"l2_bytes", gpu.l2_bytes},
                    {"sms", gpu.sms},
                    {"sm_clock_mhz", or_null(gpu.sm_clock_mhz)},
                    {"power_limit_w", or_null(gpu.power_limit_w)}});
  }
  return {
      {"host", info.host},
      {"system", info.system},
      {"kernel", info.kernel},
      {"cpu",
       {{"model", info.cpu_model},
        {"threads", info.cpu_threads},
        {"cores", or_null(info.cpu_cores)},
        {"mhz", or_null(info.cpu_mhz)},
        {"l1d_bytes", or_null(info.l1d_bytes)},
        {"l2_bytes", or_null(info.l2_bytes)},
        {"l3_bytes", or_null(info.l3_bytes)}}},
      {"memory", {{"bytes", or_null(info.memory_bytes)}, {"available_bytes", or_null(info.memory_available_bytes)}}},
      {"gpus", gpus},
      {"driver", or_null(info.driver)},
      {"cuda", info.cuda},
      {"cudnn", or_null(info.cudnn)},
      {"libtorch", info.libtorch}};
}

void add_lines(std::string& text, const std::string& prefix, const ordered_json& value) {
  for (const auto& [key, item] : value.items()) {
    const std::string name = prefix.empty() ? key : prefix + "." + key;
    if (item.is_structured()) {
      if (item.empty()) text += name + ": none\n";
      add_lines(text, name, item);
    } else {
      text += fmt::format("{}: {}\n", name,
                          item.is_null()     ? "unknown"
                          : item.is_string() ? item.get<std::string>()
                                             : item.dump());
    }
  }
}

}  // namespace

SystemInfo read_system_info() {
  SystemInfo info;
  utsname names{};
  if (::uname(&names) == 0) {
    info.host = names.nodename;
    info.kernel = fmt::format("{} {}", names.sysname, names.release);
  }
  info.system = distribution();
  info.cpu_model = cpu_model_name();
  info.cpu_threads = usable_cpus();
  info.cpu_cores = physical_cores();
  info.cpu_mhz = cpu_clock_mhz();
  info.l1d_bytes = cache_bytes(1);
  info.l2_bytes = cache_bytes(2);
  info.l3_bytes = cache_bytes(3);
  info.memory_bytes = memory_bytes();
  info.memory_available_bytes = available_memory_bytes();
  guard_torch([&info] {
    for (int i = 0; i < cuda_device_count(); ++i) {
      const CudaDevice device = cuda_device(i);
      void* handle = Nvml::instance().device(device.pci_bus_id);
      info.gpus.push_back({device.name, device.capability, device.memory_bytes, device.l2_bytes, device.sms,
                           Nvml::instance().sm_clock_mhz(handle), Nvml::instance().power_limit_w(handle)});
    }
  });
  info.driver = Nvml::instance().driver_version();
  info.cuda = cuda_version();
  info.cudnn = cudnn_version();
  info.libtorch = TORCH_VERSION;
  return info;
}

std::string system_info_json(const SystemInfo& info) { return document(info).dump(2) + "\n"; }

std::string system_info_text(const SystemInfo& info) {
  std::string text;
  add_lines(text, "", document(info));
  return text;
}

void prepare_process() {
  constexpr int top_pad_bytes = 256 << 20;
  ::mallopt(M_MMAP_MAX, 0);
  ::mallopt(M_TRIM_THRESHOLD, INT_MAX);
  ::mallopt(M_TOP_PAD, top_pad_bytes);
}

void write_system_info(const SystemInfo& info, const std::string& name) {
  write_file(name + ".json", system_info_json(info));
  write_file(name + ".txt", system_info_text(info));
}

}  // namespace perfpred
