// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/vocabulary.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "text/enum_names.h"
#include "text/parse.h"

namespace perfpred {
namespace {

// In the order of the enum, whose last name is a word of the language.
constexpr std::array<std::string_view, 7> precisions = {"fp32", "tf32", "bf16", "fp16", "fp64", "unknown", "default"};

template <class Enum, std::size_t n>
Enum parse(const std::array<std::string_view, n>& names, std::string_view what, std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    throw InputError(fmt::format("{} \"{}\" is not one of {}", what, shown(text), fmt::join(names, ", ")));
  }
  return static_cast<Enum>(found - names.begin());
}

}  // namespace

std::string_view to_string(Precision precision) { return precisions.at(static_cast<std::size_t>(precision)); }
std::string_view to_string(Optimizer optimizer) { return enumerator_name_of<Optimizer::rmsprop>(optimizer); }
std::string_view to_string(Layout layout) { return enumerator_name_of<Layout::nhwc>(layout); }
std::string_view to_string(OptimizerImpl impl) { return enumerator_name_of<OptimizerImpl::foreach>(impl); }
std::string_view to_string(Attention attention) { return enumerator_name_of<Attention::eager>(attention); }
std::string_view to_string(Software software) { return enumerator_name_of<Software::jax>(software); }
std::string_view to_string(Loader loader) { return enumerator_name_of<Loader::included>(loader); }
std::string_view to_string(Phases phases) { return enumerator_name_of<Phases::forward>(phases); }
std::string_view to_string(Phase phase) { return enumerator_name_of<Phase::optimizer>(phase); }
std::string_view to_string(Bound bound) { return enumerator_name_of<Bound::data>(bound); }

Precision parse_precision(std::string_view text) { return parse<Precision>(precisions, "precision", text); }
Optimizer parse_optimizer(std::string_view text) {
  return parse<Optimizer>(enumerator_names<Optimizer::rmsprop>, "optimizer", text);
}
OptimizerImpl parse_optimizer_impl(std::string_view text) {
  return parse<OptimizerImpl>(enumerator_names<OptimizerImpl::foreach>, "optimizer_impl", text);
}
Layout parse_layout(std::string_view text) { return parse<Layout>(enumerator_names<Layout::nhwc>, "layout", text); }
Attention parse_attention(std::string_view text) {
  return parse<Attention>(enumerator_names<Attention::eager>, "attention", text);
}
Software parse_software(std::string_view text) {
  return parse<Software>(enumerator_names<Software::jax>, "software", text);
}
Loader parse_loader(std::string_view text) { return parse<Loader>(enumerator_names<Loader::included>, "loader", text); }
Phases parse_phases(std::string_view text) { return parse<Phases>(enumerator_names<Phases::forward>, "phases", text); }

}  // namespace perfpred
