// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/layouts.h>

#include <string>

namespace perfpred {

/// Ranked layouts as people read them: a line for each.
[[nodiscard]] std::string layouts_text(const Layouts& layouts);

}  // namespace perfpred
