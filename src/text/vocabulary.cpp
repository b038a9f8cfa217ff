// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/vocabulary.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>

#include "text/parse.h"

namespace perfpred {
namespace {

// Each list is in the order of its enum.
constexpr std::array<std::string_view, 7> precisions = {"fp32", "tf32", "bf16", "fp16", "fp64", "unknown", "default"};
constexpr std::array<std::string_view, 8> optimizers = {"none",  "sgd",     "nesterov", "adam",
                                                        "adamw", "adagrad", "adadelta", "rmsprop"};
constexpr std::array<std::string_view, 2> layouts = {"nchw", "nhwc"};
constexpr std::array<std::string_view, 2> attentions = {"sdpa", "eager"};
constexpr std::array<std::string_view, 4> phases = {"forward", "loss", "backward", "optimizer"};
constexpr std::array<std::string_view, 4> bounds = {"compute", "memory", "launch", "data"};

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
std::string_view to_string(Optimizer optimizer) { return optimizers.at(static_cast<std::size_t>(optimizer)); }
std::string_view to_string(Layout layout) { return layouts.at(static_cast<std::size_t>(layout)); }
std::string_view to_string(Attention attention) { return attentions.at(static_cast<std::size_t>(attention)); }
std::string_view to_string(Phase phase) { return phases.at(static_cast<std::size_t>(phase)); }
std::string_view to_string(Bound bound) { return bounds.at(static_cast<std::size_t>(bound)); }

Precision parse_precision(std::string_view text) { return parse<Precision>(precisions, "precision", text); }
Optimizer parse_optimizer(std::string_view text) { return parse<Optimizer>(optimizers, "optimizer", text); }
Layout parse_layout(std::string_view text) { return parse<Layout>(layouts, "layout", text); }
Attention parse_attention(std::string_view text) { return parse<Attention>(attentions, "attention", text); }

}  // namespace perfpred
