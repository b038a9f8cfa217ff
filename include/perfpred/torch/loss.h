// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <string_view>

namespace perfpred {

/// Losses of torch.nn.functional. The last two compare numbers; targets that are class numbers become one-hot vectors.
enum class LossKind : std::uint8_t { cross_entropy, mse, bce_with_logits };

/// The loss that a training minimises, unless the network returns its loss itself.
struct Loss {
  LossKind kind = LossKind::cross_entropy;
  bool sum = false;            ///< over all elements, not their mean
  double label_smoothing = 0;  ///< 0..1: share of a class's probability that all classes get in equal parts

  friend bool operator==(const Loss&, const Loss&) = default;
};

[[nodiscard]] PERFPRED_API std::string_view to_string(LossKind kind);
/// @throws InputError for another text, with the choices
[[nodiscard]] PERFPRED_API LossKind parse_loss_kind(std::string_view text);

}  // namespace perfpred
