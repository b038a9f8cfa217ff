// SPDX-License-Identifier: Apache-2.0
#pragma once
// The options of a loss, for the programs that train or trace.
#include <perfpred/torch/loss.h>

#include <string>

#include "cli.h"

namespace perfpred::cli {

/// --loss and --loss-sum. @param kind  gets the name of the kind, to be parsed
inline void add_loss_options(Program& program, std::string& kind, Loss& loss) {
  program.add_option("--loss", kind, "cross_entropy, mse or bce_with_logits")->capture_default_str();
  program.add_flag("--loss-sum", loss.sum, "sum the loss over its elements instead of taking their mean");
}

}  // namespace perfpred::cli
