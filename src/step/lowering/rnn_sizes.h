// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "step/lowering/lowering.h"

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

  /// Index of the first of a direction's four weights.
  [[nodiscard]] std::size_t first_weight(std::int64_t layer, std::int64_t way) const {
    return static_cast<std::size_t>(4 * (layer * directions + way));
  }

  [[nodiscard]] Shape result_of(std::int64_t ways) const { return {positions, samples, ways * hidden}; }
};

/// x in memory with the positions in front, which CPUs read: a copy where the samples are.
[[nodiscard]] TensorId with_positions_first(Lowering& lowering, const Op& op, const RnnSizes& sizes, TensorId x,
                                            std::int64_t width);

/// Rewrites a forward operator layer by layer: each direction, the results of two side by side, dropout between layers.
/// @param x          input of the first layer
/// @param result     of the last layer
/// @param kept       gets the masks of the dropout
/// @param direction  rewrites one direction of a layer, from the layer's input to the direction's result
void walk_layers(Lowering& lowering, const Op& op, const RnnSizes& sizes, TensorId x, TensorId result,
                 std::vector<TensorId>& kept,
                 const std::function<void(std::int64_t layer, std::int64_t way, TensorId x, TensorId y)>& direction);

/// Rewrites a backward operator in the opposite order.
/// @param g          gradient of the last layer's result
/// @param kept       what the forward rule kept, taken from the end
/// @param direction  rewrites one direction of a layer, from the gradient of the layer's result to that of its input
/// @param sum        adds the gradients of a layer's input by two directions, the later direction first
void walk_layers_back(Lowering& lowering, const Op& op, const RnnSizes& sizes, TensorId g, std::vector<TensorId>& kept,
                      const std::function<TensorId(std::int64_t layer, std::int64_t way, TensorId g)>& direction,
                      const std::function<TensorId(std::int64_t layer, TensorId first, TensorId second)>& sum);

/// Removes the last tensor and returns it.
[[nodiscard]] TensorId take_last(std::vector<TensorId>& tensors);

}  // namespace perfpred
