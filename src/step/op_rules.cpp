// SPDX-License-Identifier: Apache-2.0
#include "step/op_rules.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <utility>
#include <vector>

namespace perfpred {
namespace {

std::shared_mutex rules_mutex;
std::map<std::string, std::shared_ptr<const OpRule>, std::less<>>& rules() {
  static std::map<std::string, std::shared_ptr<const OpRule>, std::less<>> all;
  return all;
}

/// Outputs that were not requested have no elements.
std::vector<Shape> shapes(const OpGraph& graph, std::span<const TensorId> ids) {
  std::vector<Shape> all;
  for (const TensorId id : ids) all.push_back(id == no_tensor ? Shape({0}) : graph.shape(id));
  return all;
}

}  // namespace

void register_op(const std::string& name, OpCount flops, OpCount bytes) {
  if (name.find("::") == std::string::npos) {
    throw InputError(fmt::format("operator \"{}\" has no namespace: mylib::{}", name, name));
  }
  auto rule = std::make_shared<const OpRule>(OpRule{std::move(flops), std::move(bytes)});
  const std::unique_lock lock(rules_mutex);
  rules().insert_or_assign(name, std::move(rule));
}

std::shared_ptr<const OpRule> registered_rule(const std::string& name) {
  const std::shared_lock lock(rules_mutex);
  const auto found = rules().find(name);
  return found != rules().end() ? found->second : nullptr;
}

void count_by(const OpRule& rule, const OpGraph& graph, Op& op) {
  const std::vector<Shape> in = shapes(graph, graph.inputs(op)), out = shapes(graph, graph.outputs(op));
  op.kind = OpKind::custom;
  op.flops = rule.flops(in, out);
  if (rule.bytes) set_bytes(op, rule.bytes(in, out));
}

void set_bytes(Op& op, double bytes) {
  const auto all = static_cast<std::int64_t>(bytes);
  op.bytes_written = std::min(op.bytes_written, all);
  op.bytes_read = all - op.bytes_written;
}

}  // namespace perfpred
