// SPDX-License-Identifier: Apache-2.0
#pragma once
// Where a regressor is fitted: the options --prior and --device-file, and the kinds that other components fit.
#include <perfpred/op_time_model.h>
#include <perfpred/time_regressor.h>
#ifdef PERFPRED_WITH_XGBOOST
#include <perfpred/xgboost/trees.h>
#endif

#include <memory>
#include <string>

#include "cli.h"
#include "device_file.h"
#include "tools/run_command.h"

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

/// For the kind `ann` the program starts again with LibTorch, which takes a second to load.
inline void enable_kinds(const std::string& kind, char** argv) {
#ifdef PERFPRED_WITH_XGBOOST
  enable_xgboost();
#endif
  if (kind == "ann") become("perfpred-torch", argv);
}

}  // namespace perfpred::cli
