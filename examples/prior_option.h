// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options --prior and --device-file, where a regressor is fitted.
#include <perfpred/op_time_model.h>
#include <perfpred/time_regressor.h>

#include <memory>
#include <string>

#include "cli.h"
#include "device_file.h"

namespace perfpred::cli {

struct PriorOption {
  std::string path;
  DeviceFile device_file;

  /// @return the options
  std::vector<CLI::Option*> add_to(Program& program) {
    return {program.add_option("--prior", path,
                               "op model that answers where no run does (--kind ops); default: the standard model"),
            device_file.add_to(program)};
  }

  void set(FitOptions& fit) const {
    fit.devices = device_file.catalogue();
    if (!path.empty()) fit.prior = std::make_shared<const OpTimeModel>(OpTimeModel::load(path));
  }
};

}  // namespace perfpred::cli
