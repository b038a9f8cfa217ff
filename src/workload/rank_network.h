// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/parallel_layout.h>
#include <perfpred/workload.h>

#include <optional>

#include "network/zoo/pretrained.h"

namespace perfpred {

/// Whether a rank has less than the whole network, or of whole samples.
[[nodiscard]] inline bool splits_network(const ParallelLayout& layout) {
  return layout.tp > 1 || layout.pp > 1 || layout.cp > 1 || layout.ep > 1 || layout.etp > 1;
}

/// The network of a job, if it is a transformer whose samples are sequences of words; nothing for others.
[[nodiscard]] std::optional<TransformerDescription> transformer_of_words(const Workload& workload);

/// The transformer of words that a layout splits.
/// @throws InputError for a job of another network, or of a captured step, and for adapters
[[nodiscard]] TransformerDescription split_transformer(const Workload& workload);

/// Whether check_splits() has nothing to refuse.
[[nodiscard]] bool can_split(const TransformerDescription& network, const ParallelLayout& layout);

/// @throws InputError for a layout that does not divide the network, with the divisors next to it; for ep and etp of a
/// network without experts
void check_splits(const TransformerDescription& network, const ParallelLayout& layout);

/// What a rank has of a transformer, as Megatron-LM lays it out: a transformer of fewer heads, units and words (tp),
/// layers (pp) and experts (ep, etp). It has the embedding and the head, as the
/// first and the last stage do; a rank's experts get the words of all the ranks that share them, which are as many as
/// if it had all experts: each of its own words top_k times, also of fewer experts. @throws InputError as
/// check_splits()
[[nodiscard]] TransformerDescription rank_network(TransformerDescription network, const ParallelLayout& layout);

}  // namespace perfpred
