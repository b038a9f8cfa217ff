// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/op_table.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "step/op_traits.h"

namespace perfpred {
namespace {

bool is_written(const c10::Argument& argument) {
  return argument.alias_info() != nullptr && argument.alias_info()->isWrite();
}

/// Of a schema that gives a part of its input.
bool gives_view(const c10::FunctionSchema& schema) {
  const auto& returns = schema.returns();
  return !returns.empty() && returns[0].alias_info() != nullptr && !returns[0].alias_info()->isWrite();
}

bool is_composite(const c10::OperatorHandle& op, std::string_view name, bool ours) {
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && name != "_fused_rms_norm") {  // which CUDA has
    return true;
  }
  const bool lists = name.starts_with("_foreach_");                      // one operator for each tensor of the lists
  return ours && (lists || name == "binary_cross_entropy_with_logits");  // which has no kernel of its own
}

/// The arguments that a fused update of parameters writes.
std::vector<std::size_t> written_by_update(const c10::FunctionSchema& schema, OpKind kind) {
  constexpr std::array<std::string_view, 6> names = {"self",       "exp_avgs", "exp_avg_sqs", "momentum_buffer_list",
                                                     "state_sums", "found_inf"};
  std::vector<std::size_t> written;
  for (std::size_t i = 0; i < schema.arguments().size(); ++i) {
    const std::string& name = schema.arguments()[i].name();
    const bool is_flag = name == "found_inf" && kind != OpKind::unscale_gradients;
    if (!is_flag && std::find(names.begin(), names.end(), name) != names.end()) written.push_back(i);
  }
  return written;
}

/// What is known of an operator of LibTorch's own, beyond what its schema says.
void know_own(OpInfo& info, const c10::FunctionSchema& schema, std::string_view name) {
  if (info.role == OpRole::view || computes_nothing(name)) {
    info.role = OpRole::view;
  } else if (name == "_local_scalar_dense") {
    info.role = OpRole::reads_value;
  } else if (name == "equal") {
    info.role = OpRole::compares;
  }
  info.kind = kind_of_name(name);
  if (info.kind == OpKind::unknown && info.pointwise) info.kind = OpKind::other;
  info.shapes = shape_rule(name);
  info.to_copy = name == "_to_copy";
  info.copy_into = name == "copy";
  info.updates = traits_of(info.kind).family == OpFamily::update;
  if (info.updates) info.written = written_by_update(schema, info.kind);
}

OpInfo find_out(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  const auto& arguments = schema.arguments();
  OpInfo info;
  std::string_view name = schema.name();
  constexpr std::string_view aten = "aten::";
  const bool ours = name.starts_with(aten);
  if (ours) name.remove_prefix(aten.size());
  info.in_place =
      schema.returns().size() == 1 && is_written(schema.returns()[0]) && !arguments.empty() && is_written(arguments[0]);
  if (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
  info.name = name;
  info.pointwise = op.hasTag(at::Tag::pointwise);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "device") info.devices.push_back(i);
    if (arguments[i].name() == "transposed") info.transposed = i;
    if (arguments[i].name() == "is_causal") info.causal = i;
  }
  if (is_composite(op, name, ours)) {
    info.role = OpRole::composite;
    return info;
  }
  if (!info.in_place && gives_view(schema)) info.role = OpRole::view;
  if (ours) know_own(info, schema, name);
  return info;
}

}  // namespace

OpInfo& info_of(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const c10::FunctionSchema*, OpInfo> known;
  const c10::FunctionSchema* key = &op.schema();
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, find_out(op)).first->second;
}

}  // namespace perfpred
