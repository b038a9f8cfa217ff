// SPDX-License-Identifier: Apache-2.0
#include "workload/rank_network.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "text/parse.h"
#include "workload/divisors.h"

namespace perfpred {
namespace {

std::int64_t mlp_units(const TransformerDescription& n) { return n.inner > 0 ? n.inner : 4 * n.hidden; }

/// A number of a layout, and what it has to divide.
struct Split {
  std::string_view name;
  std::int64_t number, whole;
  std::string_view of;
};

/// What a network does not have, each number divides.
std::array<Split, 7> splits_of(const TransformerDescription& n, const ParallelLayout& layout) {
  const auto or_any = [](bool has, std::int64_t whole, std::int64_t number) { return has ? whole : number; };
  const bool has_experts = n.experts > 0;
  return {{{"tp", layout.tp, n.heads, "heads"},
           {"tp", layout.tp, or_any(n.kv_heads > 0, n.kv_heads, layout.tp), "heads of keys"},
           {"tp", layout.tp, or_any(!has_experts, mlp_units(n), layout.tp), "units of the MLP"},
           {"tp", layout.tp, or_any(n.shared_inner > 0, n.shared_inner, layout.tp), "units of the shared MLP"},
           {"pp x vp", layout.pp * layout.vp, n.layers, "layers"},
           {"ep", layout.ep, or_any(has_experts, n.experts, layout.ep), "experts"},
           {"etp", layout.etp, or_any(has_experts, n.expert_inner, layout.etp), "units of an expert"}}};
}

}  // namespace

std::optional<TransformerDescription> transformer_of_words(const Workload& workload) {
  std::optional<TransformerDescription> network = find_transformer(workload.network);
  return network && workload.input.size() == 1 ? network : std::nullopt;
}

TransformerDescription split_transformer(const Workload& workload) {
  const std::string layout = workload.parallel.text();
  const std::optional<TransformerDescription> network = transformer_of_words(workload);
  if (!network) {
    throw InputError(fmt::format(
        "parallel {} splits transformers of words; network {} is none (ddp, fsdp and zero1 to zero3 are for any)",
        layout, shown(workload.network)));
  }
  if (!workload.adapter.empty())
    throw InputError(fmt::format("parallel {} splits networks that are trained whole, not adapters", layout));
  return *network;
}

bool can_split(const TransformerDescription& network, const ParallelLayout& layout) {
  if (network.experts == 0 && layout.ep * layout.etp > 1) return false;
  const auto splits = splits_of(network, layout);
  return std::ranges::all_of(splits, [](const Split& split) { return split.whole % split.number == 0; });
}

void check_splits(const TransformerDescription& network, const ParallelLayout& layout) {
  for (const Split& split : splits_of(network, layout))
    check_divides(fmt::format("{} = {} of parallel", split.name, split.number), split.number, split.whole, split.of);
  if (network.experts == 0 && layout.ep * layout.etp > 1)
    throw InputError(fmt::format("ep and etp of parallel are for networks with experts; {} has none", network.name));
}

TransformerDescription rank_network(TransformerDescription n, const ParallelLayout& layout) {
  check_splits(n, layout);
  n.head_dim = n.head_dim > 0 ? n.head_dim : n.hidden / n.heads;
  n.inner = mlp_units(n) / layout.tp;
  n.heads /= layout.tp;
  n.kv_heads /= layout.tp;
  n.shared_inner /= layout.tp;
  n.words = (n.words + layout.tp - 1) / layout.tp;
  n.layers /= layout.pp;
  n.experts /= layout.ep;
  n.expert_inner /= layout.etp;
  return n;
}

}  // namespace perfpred
