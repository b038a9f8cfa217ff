// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <vector>

#include "step/lowering.h"

namespace perfpred {

/// Sizes of a recurrent network with biases and without projections, all layers in one operator.
struct RnnSizes {
  std::int64_t gates = 0, layers = 0, directions = 0, samples = 0, positions = 0, hidden = 0;
  bool drops = false;          ///< between layers
  bool samples_first = false;  ///< in x and its memory
  std::size_t weights = 0;     ///< tensors of them, which follow x

  /// @param reserve  what the forward operator keeps
  /// @param outputs  of all positions
  /// @return false for other operands, and for more positions than can be written out
  [[nodiscard]] bool read(const OpGraph& step, const Op& op, TensorId reserve, TensorId outputs);

  /// Reads the sizes of a backward operator whose forward operator a rule rewrote. @returns what that rule kept, or
  /// null
  [[nodiscard]] const std::vector<TensorId>* kept(const Lowering& lowering, const Op& op);

  /// Tensors that a rule keeps, if it keeps so many for each layer and direction, and masks between layers.
  [[nodiscard]] std::size_t count_kept(std::size_t of_direction) const {
    const auto ways = static_cast<std::size_t>(layers * directions);
    return ways * of_direction + (drops ? static_cast<std::size_t>(layers) - 1 : 0);
  }

  [[nodiscard]] Shape result_of(std::int64_t ways) const { return {positions, samples, ways * hidden}; }
};

/// x in memory with the positions in front, which CPUs read: a copy where the samples are.
[[nodiscard]] TensorId with_positions_first(Lowering& lowering, const Op& op, const RnnSizes& sizes, TensorId x,
                                            std::int64_t width);

/// Dropout between layers, out of place. @returns the result, and the mask in `kept`
[[nodiscard]] TensorId drop_between_layers(Lowering& lowering, const Op& op, const RnnSizes& sizes, TensorId x,
                                           std::vector<TensorId>& kept);

}  // namespace perfpred
