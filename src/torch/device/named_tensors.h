// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace perfpred {

using NamedTensors = std::vector<std::pair<std::string, at::Tensor>>;

}  // namespace perfpred
