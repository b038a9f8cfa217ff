// SPDX-License-Identifier: Apache-2.0
#pragma once
// The option --device-file, where a device is named.
#include <perfpred/device.h>

#include <string>

#include "cli.h"

namespace perfpred::cli {

struct DeviceFile {
  std::string path;

  CLI::Option* add_to(Program& program) {
    return program.add_option("--device-file", path, "your own devices.csv: its rows are added to the known devices");
  }

  /// The known devices with those of the file. @throws InputError for a file that is not a table of devices
  [[nodiscard]] DeviceCatalogue catalogue() const {
    DeviceCatalogue devices;
    if (!path.empty()) devices.add(path);
    return devices;
  }
};

}  // namespace perfpred::cli
