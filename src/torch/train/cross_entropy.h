// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Reduction.h>
#include <ATen/core/Tensor.h>
#include <ATen/ops/cross_entropy_loss.h>

namespace perfpred {

/// Mean cross entropy. Classes lie along axis 1, or along the last axis of logits of rank 3 (sample, word, class).
/// @param targets    class numbers (int64), the shape of the logits without the axis of classes
/// @param smoothing  share of a target's probability that all classes get in equal parts
[[nodiscard]] inline at::Tensor cross_entropy(const at::Tensor& logits, const at::Tensor& targets,
                                              double smoothing = 0) {
  const bool words = logits.dim() == 3;
  return at::cross_entropy_loss(words ? logits.flatten(0, 1) : logits, words ? targets.flatten() : targets, {},
                                at::Reduction::Mean, -100, smoothing);
}

}  // namespace perfpred
