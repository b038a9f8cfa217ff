// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

#include <cstdint>
#include <span>

namespace perfpred {

// Rules for operators that were executed and recorded, by a trace or in a step file: their tensors are strided.

/// Sizes of a tensor, and the distance in elements between neighbours on each axis.
struct Strided {
  std::span<const std::int64_t> sizes, strides;  ///< equally many

  /// The shape of the elements that lie in memory: expanded axes (stride 0) have size 1. One axis if there are more
  /// than Shape::max_rank.
  [[nodiscard]] Shape stored() const;

  [[nodiscard]] std::int64_t numel() const;  ///< @throws InputError if no device has room for so many
};

/// How often a convolution or product computes with each element that lies in memory: once but for expanded operands.
/// Operators of other kinds: 1. @param transposed  of a convolution
[[nodiscard]] double repetitions(OpKind kind, std::span<const Strided> inputs, std::span<const Strided> outputs,
                                 bool transposed);

}  // namespace perfpred
