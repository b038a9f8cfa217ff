// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <span>

#include "network/layers.h"

namespace perfpred {

class StepBuilder;

/// The operators of one kind of layer.
struct LayerRule {
  LayerKind kind;
  void (*forward)(StepBuilder& step, const Layer& layer);
  void (*backward)(StepBuilder& step, const Layer& layer);  ///< called where the output has a gradient
};

/// The rule of every kind of layer.
[[nodiscard]] const LayerRule& rule_of(LayerKind kind);

// The rules of layers/: a row for each kind of layer.
[[nodiscard]] std::span<const LayerRule> input_rules();
[[nodiscard]] std::span<const LayerRule> image_rules();
[[nodiscard]] std::span<const LayerRule> matrix_rules();    // products and what transformers have around them
[[nodiscard]] std::span<const LayerRule> sequence_rules();  // what knows the order of positions
[[nodiscard]] std::span<const LayerRule> window_rules();    // attention inside windows of an image
[[nodiscard]] std::span<const LayerRule> elementwise_rules();
[[nodiscard]] std::span<const LayerRule> pretrained_rules();     // what transformers writes out
[[nodiscard]] std::span<const LayerRule> rearrangement_rules();  // views, copies and joins

// layers/rearrangement.cpp
void view_forward(StepBuilder& step, const Layer& layer);
void view_backward(StepBuilder& step, const Layer& layer);
void copy_forward(StepBuilder& step, const Layer& layer);
void copy_backward(StepBuilder& step, const Layer& layer);

}  // namespace perfpred
