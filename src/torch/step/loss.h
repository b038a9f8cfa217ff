// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <perfpred/torch/loss.h>

#include <cstdint>

namespace perfpred {

/// The axis of classes: the second one, or the last of logits of rank 3 (sample, word, class).
[[nodiscard]] inline std::int64_t class_axis(const at::Tensor& logits) { return logits.dim() == 3 ? 2 : 1; }

/// The loss of a network's outputs.
/// @param targets  class numbers (int64), of the shape of the logits without the axis of classes; for other kinds than
///                 the cross entropy also numbers, of the shape of the logits
[[nodiscard]] at::Tensor loss_of(const Loss& loss, const at::Tensor& logits, const at::Tensor& targets);

}  // namespace perfpred
