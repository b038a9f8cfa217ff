// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/op_table.h"

#include <algorithm>
#include <array>
#include <string_view>
#include <unordered_map>

#include "step/executed_op.h"

namespace perfpred {
namespace {

OpInfo find_out(const c10::OperatorHandle& op) {
  const c10::FunctionSchema& schema = op.schema();
  OpInfo info;
  std::string_view name = schema.name();
  constexpr std::string_view aten = "aten::";
  const bool ours = name.starts_with(aten);
  if (ours) name.remove_prefix(aten.size());
  const auto& returns = schema.returns();
  const auto& arguments = schema.arguments();
  info.in_place = returns.size() == 1 && returns[0].alias_info() != nullptr && returns[0].alias_info()->isWrite() &&
                  !arguments.empty() && arguments[0].alias_info() != nullptr && arguments[0].alias_info()->isWrite();
  if (name.size() > 1 && name.back() == '_') name.remove_suffix(1);
  info.name = name;
  info.pointwise = op.hasTag(at::Tag::pointwise);
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    if (arguments[i].name() == "device") info.devices.push_back(i);
    if (arguments[i].name() == "transposed") info.transposed = i;
    if (arguments[i].name() == "is_causal") info.causal = i;
  }
  if (op.hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd) &&
      !op.hasKernelForDispatchKey(c10::DispatchKey::CPU) && name != "_fused_rms_norm") {  // which CUDA has
    info.role = OpRole::composite;
    return info;
  }
  const bool lists = name.starts_with("_foreach_");                     // one operator for each tensor of the lists
  if (ours && (lists || name == "binary_cross_entropy_with_logits")) {  // which has no kernel of its own
    info.role = OpRole::composite;
    return info;
  }
  const bool view =
      !info.in_place && !returns.empty() && returns[0].alias_info() != nullptr && !returns[0].alias_info()->isWrite();
  if (view || (ours && computes_nothing(name))) {
    info.role = OpRole::view;
  } else if (ours && name == "_local_scalar_dense") {
    info.role = OpRole::reads_value;
  } else if (ours && name == "equal") {
    info.role = OpRole::compares;
  }
  if (!ours) return info;
  info.kind = kind_of_name(name);
  if (info.kind == OpKind::unknown && info.pointwise) info.kind = OpKind::other;
  info.shapes = shape_rule(name);
  info.to_copy = name == "_to_copy";
  info.copy_into = name == "copy";
  info.updates = info.kind >= OpKind::fused_sgd && info.kind <= OpKind::unscale_gradients;
  if (info.updates) {
    constexpr std::array<std::string_view, 6> written = {
        "self", "exp_avgs", "exp_avg_sqs", "momentum_buffer_list", "state_sums", "found_inf"};
    for (std::size_t i = 0; i < arguments.size(); ++i) {
      const bool is_flag = arguments[i].name() == "found_inf" && info.kind != OpKind::unscale_gradients;
      if (!is_flag && std::find(written.begin(), written.end(), arguments[i].name()) != written.end()) {
        info.written.push_back(i);
      }
    }
  }
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
