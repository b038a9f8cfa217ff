// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <fmt/format.h>

#include <bit>

#include "step/parts_needed.h"
#include "step/step_builder.h"

namespace perfpred {
namespace {

/// Of some operators each. A network has at most as many as it has words for each unit: Llama 3 has 32.
constexpr std::int64_t max_chunks = 10'000;

/// Rows of a chunk, as Liger's ops/fused_linear_cross_entropy.py chooses them: their logits take about as much memory
/// as the operands of all rows. @throws InputError for too many chunks
std::int64_t chunk_rows(std::int64_t rows, std::int64_t words, std::int64_t width) {
  const auto chunk = static_cast<std::int64_t>(
      std::bit_ceil(static_cast<std::uint64_t>(parts_needed(rows, parts_needed(words, width)))));
  if (const std::int64_t chunks = parts_needed(rows, chunk); chunks > max_chunks) {
    throw InputError(fmt::format("loss chunked takes {} chunks of {} positions, with {} words to {} units: at most {}",
                                 chunks, chunk, words, width, max_chunks));
  }
  return chunk;
}

}  // namespace

/// The head and its loss for some rows at a time (Hsu et al. 2024): logits become their own gradient in place, from
/// which those of the operands follow at once.
void StepBuilder::chunked_loss() {
  phase_ = Phase::loss;
  layer_ = network_.head;
  read_weights(product_type());
  const TensorId x = read_input(0, product_type());
  const Shape given = shape(x);
  const std::int64_t width = given.back(), rows = given.numel() / width, words = layer().out_channels;
  const TensorId weight = state().weights[0];
  const TensorId of_input = input_needs_gradient(0) ? new_like(x) : no_tensor;
  const TensorId of_weight = is_trained(0) ? new_like(weight) : no_tensor;
  const TensorId of_bias = is_trained(1) ? new_like(state().weights[1]) : no_tensor;
  for (const TensorId sum : {of_weight, of_bias}) {
    if (sum != no_tensor) add_op(OpKind::fill, {}, {sum});
  }
  const std::int64_t chunk = chunk_rows(rows, words, width);
  for (std::int64_t first = 0; first < rows; first += chunk) {
    const std::int64_t count = std::min(chunk, rows - first);
    const TensorId part = view(x, {count, width});
    TensorId logits = new_tensor({count, words}, type(x));
    add_op(OpKind::mm, {part, transposed(weight)}, {logits});
    if (layer().bias) logits = apply(OpKind::add, {logits, state().weights[1]});
    add_other("cross_entropy", {logits, labels_}, logits);
    if (of_input != no_tensor) add_op(OpKind::mm, {logits, weight}, {view(of_input, {count, width})});
    if (of_weight != no_tensor) {
      const TensorId added = new_like(weight);
      add_op(OpKind::mm, {transposed(logits), part}, {added});
      add_op(OpKind::add, {of_weight, added}, {of_weight});
    }
    if (of_bias != no_tensor) {
      const TensorId added = new_like(of_bias);
      add_op(OpKind::sum, {logits}, {added});
      add_op(OpKind::add, {of_bias, added}, {of_bias});
    }
  }
  phase_ = Phase::backward;
  if (of_input != no_tensor) accumulate_grad(0, of_input);
  // A view, which a second gradient is not added to in place.
  if (of_weight != no_tensor)
    accumulate_parameter_grad(0, layer().tied_to >= 0 ? view(of_weight, shape(weight)) : of_weight);
  if (of_bias != no_tensor) accumulate_parameter_grad(1, of_bias);
}

}  // namespace perfpred
