// SPDX-License-Identifier: Apache-2.0
#include "step/layer_rules.h"

#include <perfpred/error.h>

#include <array>

namespace perfpred {

const LayerRule& rule_of(LayerKind kind) {
  static const auto rules = [] {
    std::array<const LayerRule*, layer_kinds> all{};
    for (const auto& of_file : {input_rules(), image_rules(), matrix_rules(), sequence_rules(), window_rules(),
                                elementwise_rules(), rearrangement_rules(), pretrained_rules()}) {
      for (const LayerRule& rule : of_file) all[static_cast<std::size_t>(rule.kind)] = &rule;
    }
    return all;
  }();
  const LayerRule* rule = rules.at(static_cast<std::size_t>(kind));
  if (rule == nullptr) throw Error("a kind of layer has no rule");
  return *rule;
}

}  // namespace perfpred
