// SPDX-License-Identifier: Apache-2.0
#pragma once
// The option --device-file, where a device is named, and the rates of this machine's CPU, where it is.
#include <perfpred/device.h>
#include <perfpred/time_regressor.h>

#include <cerrno>
#include <span>
#include <string>
#include <utility>

#include "cli.h"
#include "tools/kept_cpu.h"

namespace perfpred::cli {

struct DeviceFile {
  std::string path, links = {};

  CLI::Option* add_to(Program& program) {
    return program.add_option("--device-file", path, "your own devices.csv: its rows are added to the known devices");
  }

  /// Also the option --links.
  CLI::Option* add_links_to(Program& program) {
    return program.add_option("--links", links, "links.csv: what links within and between nodes of clusters reach");
  }

  /// The known devices with those of the file, and with this machine's CPU if it has been measured.
  /// @throws InputError for a file that is not a table of devices
  [[nodiscard]] DeviceCatalogue catalogue() const {
    DeviceCatalogue devices;
    if (!path.empty()) {
      for (const std::string& line : devices.add(path))
        fmt::print(stderr, "{}: {}\n", program_invocation_short_name, line);
    }
    if (!links.empty()) devices.add_links(links);
    if (auto cpu = kept_cpu()) devices.set_cpu(std::move(*cpu));
    return devices;
  }

  /// The same, and if `device` is this machine's CPU, it has been measured.
  [[nodiscard]] DeviceCatalogue catalogue_for(const std::string& device) const;
};

inline void say(const std::string& note) {
  if (!note.empty()) fmt::print(stderr, "{}: {}\n", program_invocation_short_name, note);
}

/// rated_cpu(), whose note goes to standard error.
inline Device rated_cpu_said(bool anew = false) {
  RatedCpu cpu = rated_cpu(anew);
  say(cpu.note);
  return std::move(cpu.device);
}

inline DeviceCatalogue DeviceFile::catalogue_for(const std::string& device) const {
  DeviceCatalogue devices = catalogue();
  say(rate_cpu_for(devices, device));
  return devices;
}

/// Gives the model the rates of this machine's CPU if its answer for the workload needs them.
inline void give_rates(TimeRegressor& model, const Workload& workload) {
  if (model.lacks_rates(workload)) model.set_cpu(rated_cpu_said());
}

}  // namespace perfpred::cli
