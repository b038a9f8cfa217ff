// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace perfpred {

/// Kernels of a training step that share their efficiencies.
enum class StepGroup : std::uint8_t {
  conv_forward,
  conv_input,   ///< gradient of a convolution's input; a transposed convolution computes the same
  conv_weight,  ///< gradient of its weight
  depthwise_forward,
  depthwise_input,
  depthwise_weight,
  product,    ///< matrix products and attention
  recurrent,  ///< a recurrent network's products with its state, one for each position
  batch_norm,
  elementwise,
  rearrangement,
  pooling,
  other,    ///< known operators that do a little of everything: by their bytes
  unknown,  ///< operators whose work is not known: by their bytes, with a wide interval
};
inline constexpr std::size_t step_groups = 14;

[[nodiscard]] constexpr bool is_depthwise(StepGroup group) {
  return group == StepGroup::depthwise_forward || group == StepGroup::depthwise_input ||
         group == StepGroup::depthwise_weight;
}
[[nodiscard]] constexpr bool is_convolution(StepGroup group) {
  return group == StepGroup::conv_forward || group == StepGroup::conv_input || group == StepGroup::conv_weight ||
         is_depthwise(group);
}

/// What kinds of operators have in common, where a rule is for some of them only.
enum class OpFamily : std::uint8_t {
  plain,
  convolution,  // from here to `recurrent`: what multiplies
  matrix_product,
  attention,
  recurrent,
  arithmetic,  ///< one result of the operands' common shape
  update,      ///< of lists of tensors, all written in place
  unnamed,     ///< the kind does not say which operator it is; Op::name does
};

/// The operands of an operator whose counts are wanted.
struct Operands {
  const OpGraph& graph;
  std::span<const TensorId> in, out;
  bool transposed = false;  ///< a transposed convolution
};

/// FLOPs of an operator, and the part of a recurrent network's that is outside matrix products.
struct OpFlops {
  double all = 0, cells = 0;
};

/// How FLOPs and bytes follow from the operands (docs/guides/counting.md).
struct CountRule {
  OpFlops (*flops)(const Operands&);
  std::int64_t (*bytes_read)(const Operands&);
  bool (*fits)(const Operands&);  ///< whether these are operands that the two others can take
};

/// What is known of a kind of operator.
struct OpTraits {
  OpKind kind;
  OpFamily family;
  StepGroup group;  ///< of its kernels; `other` for convolutions, whose directions differ
  const CountRule& rule;
  std::string_view names = {};  ///< LibTorch's, a space between two, where they differ from the kind's
};

[[nodiscard]] const OpTraits& traits_of(OpKind kind);

/// The kind of an operator of LibTorch. @param name  without namespace, overload and the underscore of in-place forms
[[nodiscard]] OpKind kind_of_name(std::string_view name);

/// Whether an operator of LibTorch neither computes nor moves anything. @param name  as in kind_of_name()
[[nodiscard]] bool computes_nothing(std::string_view name);

}  // namespace perfpred
