// SPDX-License-Identifier: Apache-2.0
#include "torch/step/loss.h"

#include <ATen/core/Reduction.h>
#include <ATen/ops/binary_cross_entropy_with_logits.h>
#include <ATen/ops/cross_entropy_loss.h>
#include <ATen/ops/full_like.h>
#include <ATen/ops/mse_loss.h>
#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "text/enum_names.h"
#include "text/parse.h"

namespace perfpred {
namespace {

at::Tensor one_hot(const at::Tensor& logits, const at::Tensor& targets, double smoothing) {
  const std::int64_t axis = class_axis(logits);
  const double others = smoothing / static_cast<double>(logits.size(axis));
  const auto type = logits.scalar_type() == at::kDouble ? at::kDouble : at::kFloat;
  return at::full_like(logits, others, type).scatter_(axis, targets.unsqueeze(axis), 1 - smoothing + others);
}

}  // namespace

std::string_view to_string(LossKind kind) { return enumerator_name_of<LossKind::bce_with_logits>(kind); }

LossKind parse_loss_kind(std::string_view text) {
  if (const auto kind = enumerator_named<LossKind::bce_with_logits>(text)) return *kind;
  throw InputError(fmt::format("loss \"{}\" is not one of {}", shown(text),
                               fmt::join(enumerator_names<LossKind::bce_with_logits>, ", ")));
}

at::Tensor loss_of(const Loss& loss, const at::Tensor& logits, const at::Tensor& targets) {
  const auto reduction = loss.sum ? at::Reduction::Sum : at::Reduction::Mean;
  if (loss.kind == LossKind::cross_entropy) {
    const bool words = logits.dim() == 3;
    return at::cross_entropy_loss(words ? logits.flatten(0, 1) : logits, words ? targets.flatten() : targets, {},
                                  reduction, -100, loss.label_smoothing);
  }
  const at::Tensor wanted = targets.is_floating_point() ? targets : one_hot(logits, targets, loss.label_smoothing);
  if (loss.kind == LossKind::mse) return at::mse_loss(logits, wanted, reduction);
  return at::binary_cross_entropy_with_logits(logits, wanted, {}, {}, reduction);
}

}  // namespace perfpred
