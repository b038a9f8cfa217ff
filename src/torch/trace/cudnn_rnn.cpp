// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/cudnn_rnn.h"

#include <ATen/core/Tensor.h>
#include <ATen/ops/_cudnn_rnn.h>

#include <algorithm>
#include <array>
#include <optional>
#include <utility>
#include <vector>

namespace perfpred {
namespace {

// In the order of cudnnRNNMode_t.
constexpr std::array<std::string_view, 4> recurrent_names = {"aten::rnn_relu", "aten::rnn_tanh", "aten::lstm",
                                                             "aten::gru"};
constexpr std::int64_t lstm_mode = 2;

}  // namespace

bool is_recurrent_network(std::string_view name) {
  return std::find(recurrent_names.begin(), recurrent_names.end(), name) != recurrent_names.end();
}

bool call_cudnn_rnn(std::string_view name, torch::jit::Stack& stack, std::size_t begin) {
  const std::int64_t mode = std::find(recurrent_names.begin(), recurrent_names.end(), name) - recurrent_names.begin();
  const at::Tensor input = stack[begin].toTensor();
  if (!input.is_floating_point()) return false;
  std::size_t next = begin + 1;
  const bool packed = stack[mode == lstm_mode ? next : next + 1].isTensor();
  if (packed) ++next;  // how many samples have each position: of no effect on shapes
  at::Tensor state, cell;
  if (mode == lstm_mode) {
    const auto states = stack[next++].toTensorVector();
    state = states.at(0);
    cell = states.at(1);
  } else {
    state = stack[next++].toTensor();
  }
  const std::vector<at::Tensor> weights = stack[next].toTensorVector();
  const bool biases = stack[next + 1].toBool();
  const std::int64_t layers = stack[next + 2].toInt();
  const double dropout = stack[next + 3].toDouble();
  const bool train = stack[next + 4].toBool(), bidirectional = stack[next + 5].toBool();
  const bool batch_first = !packed && stack[next + 6].toBool();
  const std::int64_t hidden = cell.defined() ? cell.size(2) : state.size(2);
  const std::int64_t projected = state.size(2) != hidden ? state.size(2) : 0;
  const std::int64_t of_layer = (biases ? 4 : 2) + (projected > 0 ? 1 : 0);
  auto [outputs, last_state, last_cell, kept, buffer] =
      at::_cudnn_rnn(input, weights, of_layer, {}, state, cell.defined() ? std::optional(cell) : std::nullopt, mode,
                     hidden, projected, layers, batch_first, dropout, train, bidirectional, at::IntArrayRef{}, {});
  stack.resize(begin);
  stack.emplace_back(std::move(outputs));
  stack.emplace_back(std::move(last_state));
  if (mode == lstm_mode) stack.emplace_back(std::move(last_cell));
  return true;
}

}  // namespace perfpred
