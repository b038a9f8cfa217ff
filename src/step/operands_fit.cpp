// SPDX-License-Identifier: Apache-2.0
#include "step/operands_fit.h"

#include <algorithm>

namespace perfpred {

bool operands_fit(OpKind kind, const OpGraph& graph, std::span<const TensorId> in, std::span<const TensorId> out) {
  const auto rank = [&](std::size_t i) { return graph.shape(in[i]).rank(); };
  const bool result = !out.empty() && out[0] != no_tensor;
  const auto is_attention = [&](std::size_t q) {
    return in.size() >= q + 3 && rank(q) >= 1 && graph.shape(in[q]).back() > 0 && rank(q + 1) >= 2 && rank(q + 2) >= 1;
  };
  const auto is_filter = [&](std::size_t i) { return in.size() > i && rank(i) >= 2 && graph.shape(in[i])[0] > 0; };
  switch (kind) {
    case OpKind::convolution:
      return is_filter(1) && rank(0) >= 2 && result && graph.shape(out[0]).rank() >= 2;
    case OpKind::convolution_backward:
      return is_filter(2) && rank(0) >= 2 && rank(1) >= 2 && out.size() >= 2;
    case OpKind::mm:
    case OpKind::bmm:
      return in.size() >= 2 && rank(0) >= 1 && result;
    case OpKind::addmm:
    case OpKind::baddbmm:
      return in.size() >= 2 && rank(1) >= 1 && result;
    case OpKind::attention:
      return is_attention(0);
    case OpKind::attention_backward:
      return is_attention(1);
    case OpKind::softmax:
    case OpKind::layer_norm:
      return result;
    case OpKind::rnn:
    case OpKind::rnn_backward:
      return !in.empty() && rank(0) >= 1;
    case OpKind::nll_loss:
      return in.size() >= 2;
    case OpKind::nll_loss_backward:
      return in.size() >= 4;
    case OpKind::embedding:
      return in.size() >= 2 && rank(0) >= 1 && result;
    case OpKind::embedding_backward:
      return !in.empty();
    case OpKind::fused_sgd:
    case OpKind::fused_momentum:
    case OpKind::fused_adam:
    case OpKind::fused_adamw:
    case OpKind::fused_adagrad:
    case OpKind::unscale_gradients:
      return std::find(out.begin(), out.end(), no_tensor) == out.end();
    default:
      return true;
  }
}

}  // namespace perfpred
