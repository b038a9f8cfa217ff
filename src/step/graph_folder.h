// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/step_file.h>

#include <optional>
#include <string>

namespace perfpred {

/// The step file of a network in the folders of add_graphs(), read at the first call; nothing if none has it.
/// @throws InputError as StepFile does
[[nodiscard]] PERFPRED_API std::optional<StepFile> find_graph(const std::string& network);

}  // namespace perfpred
