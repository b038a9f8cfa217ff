// SPDX-License-Identifier: Apache-2.0
#pragma once
// How programs write to people: heads in bold and verdicts in colour where standard output is a terminal. Where a
// program or a file reads, texts stay as they are.
#include <perfpred/memory_estimate.h>

#include <string>
#include <string_view>

namespace perfpred {

/// Whether to colour: on a terminal that can, unless the user sets NO_COLOR (https://no-color.org) to anything.
/// @param terminal        whether somebody looks at standard output
/// @param no_color, term  of the environment; null: not set
[[nodiscard]] bool wants_colour(bool terminal, const char* no_color, const char* term);

/// The head of a table or of an answer.
[[nodiscard]] std::string in_bold(std::string_view text);

/// What is said of a job's memory: red where it does not fit, yellow where it may not.
[[nodiscard]] std::string coloured(MemoryVerdict verdict, std::string_view text);

}  // namespace perfpred
