// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "parallel/rank_memory.h"

namespace perfpred {

[[nodiscard]] inline double number(std::int64_t value) { return static_cast<double>(value); }

/// The sizes that one rank sees, of numbers a tensor or bytes, as doubles: they are multiplied.
struct RankSizes {
  explicit RankSizes(const RankRequest& request);

  double element;          ///< bytes of a number of an activation
  double narrow;           ///< the same where Transformer Engine keeps 8 bits
  double words;            ///< of a micro-batch on this rank: cp shares them
  double stream;           ///< bytes of what goes from layer to layer, whole
  double shared;           ///< the same as a rank keeps it: tp shares it if sp
  double heads, kv_heads;  ///< heads of this rank
  double head_dim;         ///< of a query and a key
  double value_dim;        ///< of a value
  double context;          ///< bytes of the attention's result
  double scores;           ///< pairs of positions, of all heads of this rank: rows of this rank's words meet all keys
  double inner;            ///< width of the MLP on this rank
  double gates;            ///< projections into the MLP: 2 with a gate
  double chosen;           ///< words with repetitions that this rank's experts get, if all get as many
  double expert_inner;     ///< of one expert on this rank
  double shared_inner;     ///< of the MLP beside the experts
  double vocabulary;       ///< words of the head on this rank, padded
};

/// Parameters of one layer on a rank: those that tp shares, and those of its experts.
struct LayerShard {
  double dense = 0;
  double experts = 0;
};
[[nodiscard]] LayerShard layer_parameters(const RankRequest& request);

/// Bytes of one layer's training on one micro-batch.
struct LayerBytes {
  std::vector<RankPart> saved;  ///< for the backward pass
  double work = 0;              ///< most that its backward pass holds beside
};
[[nodiscard]] LayerBytes layer_bytes(const RankRequest& request, AttentionKernel attention);

}  // namespace perfpred
