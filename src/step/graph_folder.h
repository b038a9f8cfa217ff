// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <optional>
#include <string>

namespace perfpred {

/// The step file of a network in the folders of add_graphs(), read at the first call; nothing if none has it.
/// @param variant  how it is trained: `<digits>_<variant>.json` is taken before `<digits>.json`
/// @throws InputError as StepFile does
[[nodiscard]] std::optional<StepFile> find_graph(const std::string& network, const std::string& variant = {});

}  // namespace perfpred
