// SPDX-License-Identifier: Apache-2.0
#include "step/op_rules.h"

#include <algorithm>
#include <vector>

namespace perfpred {
namespace {

/// Outputs that were not requested have no elements.
std::vector<Shape> shapes(const OpGraph& graph, std::span<const TensorId> ids) {
  std::vector<Shape> all;
  for (const TensorId id : ids) all.push_back(id == no_tensor ? Shape({0}) : graph.shape(id));
  return all;
}

}  // namespace

void count_by(const OpRule& rule, const OpGraph& graph, Op& op, bool causal) {
  const std::vector<Shape> in = shapes(graph, graph.inputs(op)), out = shapes(graph, graph.outputs(op));
  const bool has_result = !out.empty() && graph.outputs(op)[0] != no_tensor;
  op.kind = rule.product && !in.empty() && has_result ? OpKind::bmm : OpKind::custom;
  op.flops = rule.flops(in, out) / (causal ? 2 : 1);
  if (rule.bytes) set_bytes(op, rule.bytes(in, out));
}

void set_bytes(Op& op, double bytes) {
  const auto all = static_cast<std::int64_t>(bytes);
  op.bytes_written = std::min(op.bytes_written, all);
  op.bytes_read = all - op.bytes_written;
}

}  // namespace perfpred
