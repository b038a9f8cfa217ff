// SPDX-License-Identifier: Apache-2.0
#include <perfpred/torch/trace.h>

#include "text/file_hash.h"

namespace perfpred {

std::string torchscript_name(const std::string& path) { return "torchscript:" + file_hash(path); }

}  // namespace perfpred
