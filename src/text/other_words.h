// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/vocabulary.h>

#include <span>
#include <string_view>
#include <utility>

namespace perfpred {

/// What PyTorch, its trainers and NumPy call a word of a vocabulary; letters and digits count alone.
template <class Word>
using OtherWords = std::span<const std::pair<std::string_view, Word>>;

[[nodiscard]] OtherWords<Precision> other_precisions();
[[nodiscard]] OtherWords<Optimizer> other_optimizers();

}  // namespace perfpred
