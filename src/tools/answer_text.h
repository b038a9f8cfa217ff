// SPDX-License-Identifier: Apache-2.0
#pragma once
// Answers as people read them.
#include <perfpred/answer.h>

#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// Who reads a text. `terminal`: a user of the programs, to whom fields are options (`--batch-size 8`), with heads in
/// bold and verdicts in colour (terminal_text.h). `caller`: whoever calls the library, to whom they are names of a
/// request (`batch_size=8`).
enum class Reader { terminal, caller };

/// The option of the programs for a field: `--batch-size` for batch_size.
[[nodiscard]] std::string option_of(std::string_view field);

/// "fits", "may or may not fit" or "does not fit".
[[nodiscard]] const char* in_words(MemoryVerdict verdict);

/// The workload's key, and a line for each figure.
[[nodiscard]] std::string answer_text(const Answer& answer, Reader reader);

/// A line of a table: what was asked for, and the answer or why there is none.
struct AnswerLine {
  std::vector<std::string> values;  ///< one for each field of the table
  std::optional<Answer> answer;
  std::string error;
};

/// One line for each answer: time, throughput, memory and price; a column without a text is left out.
/// @param fields  that differ between the lines
[[nodiscard]] std::string table_text(const std::vector<std::string>& fields, const std::vector<AnswerLine>& lines,
                                     Reader reader);

}  // namespace perfpred
