// SPDX-License-Identifier: Apache-2.0
#include "tools/kept_cpu.h"

#include <perfpred/error.h>

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <unistd.h>

#include <cstdlib>
#include <ctime>
#include <filesystem>
#include <utility>
#include <vector>

#include "catalogue/device_table.h"
#include "catalogue/own_devices.h"
#include "text/csv.h"
#include "text/files.h"
#include "text/nearest_name.h"

namespace perfpred {
namespace {

/// @throws InputError if no variable of the environment says where it is
std::string cache_folder() {
  const auto value_of = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (std::string folder = value_of("PERFPRED_CACHE_DIR"); !folder.empty()) return folder;
  if (const std::string folder = value_of("XDG_CACHE_HOME"); !folder.empty()) return folder + "/perfpred";
  if (const std::string home = value_of("HOME"); !home.empty()) return home + "/.cache/perfpred";
  throw InputError("PERFPRED_CACHE_DIR, XDG_CACHE_HOME and HOME are not set");
}

/// A home may be shared by machines, a machine by containers of fewer cores.
std::string file_of(const Device& cpu) {
  return fmt::format("{}/cpu-{}-{}.csv", cache_folder(), bare(cpu.name), *cpu.sms);
}

/// This CPU with the rates of a file; nothing if there is no such file.
/// @throws InputError for a file that does not hold them, or rates that no catalogue may have
std::optional<Device> read_rates(const std::string& path, Device cpu) {
  if (!std::filesystem::exists(path)) return std::nullopt;
  const std::vector<Device> rows = read_own_devices(path);
  if (rows.size() != 1 || bare(rows.front().name) != bare(cpu.name)) {
    throw InputError(fmt::format("{}: has no row of \"{}\"", path, cpu.name));
  }
  for (const auto& [name, rate] : {std::pair("fp32_tflops", &Device::fp32_tflops),
                                   {"fp64_tflops", &Device::fp64_tflops},
                                   {"fp32_vector_tflops", &Device::fp32_vector_tflops},
                                   {"fp64_vector_tflops", &Device::fp64_vector_tflops},
                                   {"mem_bw_gbs", &Device::mem_bw_gbs}}) {
    cpu.*rate = rows.front().*rate;
    if (!(cpu.*rate)) throw InputError(fmt::format("{}: {} is missing", path, name));
  }
  cpu.source = rows.front().source;
  return cpu;
}

/// Held until it goes, by one program at a time; by none where the folder refuses, whose write then says so.
class FolderLock {
 public:
  explicit FolderLock(const std::string& path) : fd_(::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600)) {
    if (fd_ >= 0) ::flock(fd_, LOCK_EX);
  }
  FolderLock(const FolderLock&) = delete;
  FolderLock& operator=(const FolderLock&) = delete;
  ~FolderLock() {
    if (fd_ >= 0) ::close(fd_);
  }

 private:
  int fd_;
};

Device measure() {
  Device cpu = Device::measured_cpu();
  cpu.source = fmt::format("measured {:%Y-%m-%d}: small matrix product, copy", fmt::gmtime(std::time(nullptr)));
  return cpu;
}

}  // namespace

std::optional<Device> kept_cpu() {
  const Device cpu = Device::this_cpu();
  try {
    return read_rates(file_of(cpu), cpu);
  } catch (const InputError&) {
    return std::nullopt;  // rated_cpu() says why, where the rates are needed
  }
}

RatedCpu rated_cpu(bool anew) {
  const Device cpu = Device::this_cpu();
  const std::string what = fmt::format("measured this machine's CPU, \"{}\", {} cores", cpu.name, *cpu.sms);
  std::string path, before;
  try {
    path = file_of(cpu);
    make_folder(cache_folder());
  } catch (const InputError& error) {
    if (auto kept = anew ? std::nullopt : kept_cpu()) return {std::move(*kept), {}};
    return {measure(), fmt::format("{}; the rates are not kept: {}", what, error.what())};
  }
  const FolderLock lock(path + ".lock");
  if (!anew) {
    try {
      if (auto kept = read_rates(path, cpu)) return {std::move(*kept), {}};
    } catch (const InputError& error) {
      before = fmt::format("{}; ", error.what());
    }
  }
  RatedCpu measured{measure(), {}};
  try {
    write_file(path, csv_line(names_of(device_table())) + csv_line(fields_of(device_table(), measured.device)));
    measured.note = fmt::format("{}{}; the rates are kept in {}", before, what, path);
  } catch (const Error& error) {
    measured.note = fmt::format("{}{}; the rates are not kept: {}", before, what, error.what());
  }
  return measured;
}

std::string rate_cpu_for(DeviceCatalogue& devices, const std::string& device) {
  if (!devices.resolve(device).lacks_rates()) return {};
  RatedCpu cpu = rated_cpu();
  devices.set_cpu(std::move(cpu.device));
  return std::move(cpu.note);
}

}  // namespace perfpred
