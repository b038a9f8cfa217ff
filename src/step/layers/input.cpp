// SPDX-License-Identifier: Apache-2.0
#include <array>

#include "step/layer_rules.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

void no_backward(StepBuilder&, const Layer&) {}

void input_forward(StepBuilder& step, const Layer& layer) {
  const bool tokens = step.network().tokens;
  step.state().output =
      step.new_tensor(layer.output, tokens ? DataType::i64 : step.parameter_type(), TensorRole::input);
  const std::int64_t labels = Shape::product(std::array{layer.output[0], step.network().labels()});
  step.set_labels(step.new_tensor({labels}, DataType::i64, TensorRole::input));
}

void index_buffer_forward(StepBuilder& step, const Layer& layer) {
  step.state().output = step.new_tensor(layer.output, DataType::i64, TensorRole::buffer);
}

}  // namespace

std::span<const LayerRule> input_rules() {
  static constexpr auto rules = std::to_array<LayerRule>({
      {LayerKind::input, input_forward, no_backward},
      {LayerKind::position_ids, index_buffer_forward, no_backward},
      {LayerKind::type_ids, index_buffer_forward, no_backward},
  });
  return rules;
}

}  // namespace perfpred
