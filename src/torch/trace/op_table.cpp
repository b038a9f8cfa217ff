// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/op_table.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <mutex>
#include <shared_mutex>
#include <string_view>
#include <unordered_map>
#include <utility>

namespace perfpred {
namespace {

// Operators whose name in LibTorch differs from the name of their kind.
constexpr std::array<std::pair<std::string_view, OpKind>, 55> kinds_by_name = {{
    {"_scaled_dot_product_efficient_attention", OpKind::attention},
    {"_scaled_dot_product_efficient_attention_backward", OpKind::attention_backward},
    {"_convolution", OpKind::convolution},
    {"addbmm", OpKind::baddbmm},
    {"native_batch_norm", OpKind::batch_norm},
    {"_native_batch_norm_legit", OpKind::batch_norm},
    {"native_batch_norm_backward", OpKind::batch_norm_backward},
    {"native_layer_norm", OpKind::layer_norm},
    {"native_layer_norm_backward", OpKind::layer_norm_backward},
    {"native_group_norm", OpKind::group_norm},
    {"native_group_norm_backward", OpKind::group_norm_backward},
    {"_softmax", OpKind::softmax},
    {"_safe_softmax", OpKind::softmax},
    {"_softmax_backward_data", OpKind::softmax_backward},
    {"_log_softmax", OpKind::log_softmax},
    {"_log_softmax_backward_data", OpKind::log_softmax_backward},
    {"nll_loss_forward", OpKind::nll_loss},
    {"nll_loss2d_forward", OpKind::nll_loss},
    {"nll_loss2d_backward", OpKind::nll_loss_backward},
    {"max_pool2d_with_indices", OpKind::max_pool2d},
    {"max_pool2d_with_indices_backward", OpKind::max_pool2d_backward},
    {"_adaptive_avg_pool2d", OpKind::adaptive_avg_pool2d},
    {"_adaptive_avg_pool2d_backward", OpKind::adaptive_avg_pool2d_backward},
    {"embedding_dense_backward", OpKind::embedding_backward},
    {"clone", OpKind::copy},
    {"_to_copy", OpKind::copy},
    {"_reshape_copy", OpKind::copy},
    {"view_copy", OpKind::copy},
    {"zeros", OpKind::fill},
    {"zeros_like", OpKind::fill},
    {"zero", OpKind::fill},
    {"ones", OpKind::fill},
    {"ones_like", OpKind::fill},
    {"full", OpKind::fill},
    {"full_like", OpKind::fill},
    {"new_zeros", OpKind::fill},
    {"new_ones", OpKind::fill},
    {"new_full", OpKind::fill},
    {"scalar_tensor", OpKind::fill},
    {"arange", OpKind::fill},
    {"linspace", OpKind::fill},
    {"eye", OpKind::fill},
    {"normal", OpKind::bernoulli},
    {"uniform", OpKind::bernoulli},
    {"random", OpKind::bernoulli},
    {"rand", OpKind::bernoulli},
    {"randn", OpKind::bernoulli},
    {"rand_like", OpKind::bernoulli},
    {"randn_like", OpKind::bernoulli},
    {"_fused_sgd", OpKind::fused_sgd},
    {"_fused_adam", OpKind::fused_adam},
    {"_fused_adamw", OpKind::fused_adamw},
    {"_fused_adagrad", OpKind::fused_adagrad},
    {"_amp_foreach_non_finite_check_and_unscale", OpKind::unscale_gradients},
    {"_amp_update_scale", OpKind::update_scale},
}};

// Operators of about one FLOP per element that have no kind of their own and that LibTorch does not mark as pointwise.
constexpr std::string_view others =
    " amax amin argmax argmin max min prod var var_mean std std_mean norm linalg_vector_norm logsumexp cumsum "
    "cumprod any all index index_put _index_put_impl index_select index_add index_copy index_fill gather scatter "
    "scatter_add slice_scatter select_scatter sort topk flip roll repeat stack tril triu constant_pad_nd "
    "reflection_pad2d reflection_pad2d_backward replication_pad2d replication_pad2d_backward upsample_nearest2d "
    "upsample_nearest2d_backward upsample_bilinear2d upsample_bilinear2d_backward mse_loss mse_loss_backward "
    "smooth_l1_loss smooth_l1_loss_backward glu glu_backward elu_backward leaky_relu_backward softplus_backward "
    "log_sigmoid_backward nonzero pixel_shuffle channel_shuffle "
    "_prelu_kernel _prelu_kernel_backward _masked_softmax one_hot ";

// Operators that neither compute nor move anything.
constexpr std::string_view free_names =
    " empty empty_like empty_strided new_empty new_empty_strided _unsafe_view _reshape_alias unsafe_split "
    "unsafe_split_with_sizes unsafe_chunk detach lift lift_fresh resize as_strided set squeeze unsqueeze t "
    "transpose ";

/// @param words  with a space before and behind each
bool is_in(std::string_view words, std::string_view name) {
  return words.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

OpKind kind_of_name(std::string_view name) {
  const auto* found =
      std::find_if(kinds_by_name.begin(), kinds_by_name.end(), [&](const auto& entry) { return entry.first == name; });
  if (found != kinds_by_name.end()) return found->second;
  for (auto kind = static_cast<int>(OpKind::unknown) + 1; kind < static_cast<int>(OpKind::other); ++kind) {
    if (to_string(static_cast<OpKind>(kind)) == name) return static_cast<OpKind>(kind);
  }
  return is_in(others, name) ? OpKind::other : OpKind::unknown;
}

std::shared_mutex registered_mutex;
std::map<std::string, std::shared_ptr<const OpRule>, std::less<>>& registered_rules() {
  static std::map<std::string, std::shared_ptr<const OpRule>, std::less<>> rules;
  return rules;
}

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
      !op.hasKernelForDispatchKey(c10::DispatchKey::CPU)) {
    info.role = OpRole::composite;
    return info;
  }
  if (ours && name.starts_with("_foreach_")) {
    info.role = OpRole::composite;  // one operator for each tensor of the lists
    return info;
  }
  const bool view =
      !info.in_place && !returns.empty() && returns[0].alias_info() != nullptr && !returns[0].alias_info()->isWrite();
  if (view || (ours && is_in(free_names, name))) {
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

std::shared_ptr<const OpRule> registered_rule(const std::string& name) {
  const std::shared_lock lock(registered_mutex);
  const auto found = registered_rules().find(name);
  return found != registered_rules().end() ? found->second : nullptr;
}

OpInfo& info_of(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const c10::FunctionSchema*, OpInfo> known;
  const c10::FunctionSchema* key = &op.schema();
  const auto found = known.find(key);
  return found != known.end() ? found->second : known.emplace(key, find_out(op)).first->second;
}

void register_op(const std::string& name, OpRule::Count flops, OpRule::Count bytes) {
  if (name.find("::") == std::string::npos) {
    throw InputError(fmt::format("operator \"{}\" has no namespace: mylib::{}", name, name));
  }
  auto rule = std::make_shared<const OpRule>(OpRule{std::move(flops), std::move(bytes)});
  const std::unique_lock lock(registered_mutex);
  registered_rules().insert_or_assign(name, std::move(rule));
}

}  // namespace perfpred
