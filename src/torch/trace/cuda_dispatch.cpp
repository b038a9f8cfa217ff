// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/cuda_dispatch.h"

#include <ATen/autocast_mode.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "torch/trace/cudnn_rnn.h"
#include "torch/trace/fused_attention.h"
#include "torch/trace/meta_call.h"

namespace perfpred {
namespace {

enum class Policy : std::uint8_t { none, half, single, single_result, widest };

thread_local std::optional<at::ScalarType> autocast_type;                          // empty: no mixed precision
thread_local std::unordered_map<const c10::TensorImpl*, at::Tensor> cast_weights;  // each once, as LibTorch does

#define PERFPRED_NAME(name, ...) "aten::" #name,
const std::unordered_map<std::string, Policy>& policies() {
  static const std::unordered_map<std::string, Policy> policies = [] {
    std::unordered_map<std::string, Policy> made;
    for (const char* name : {AT_FORALL_LOWER_PRECISION_FP(PERFPRED_NAME)}) made[name] = Policy::half;
    for (const char* name : {AT_FORALL_FP32(PERFPRED_NAME)}) made[name] = Policy::single;
    for (const char* name : {AT_FORALL_FP32_SET_OPT_DTYPE(PERFPRED_NAME)}) made[name] = Policy::single_result;
    for (const char* name : {AT_FORALL_PROMOTE(PERFPRED_NAME)}) made[name] = Policy::widest;
    return made;
  }();
  return policies;
}
#undef PERFPRED_NAME

struct Treatment {
  Policy policy = Policy::none;
  bool attention = false;
  bool recurrent = false;
};

Treatment treatment_of(const c10::OperatorHandle& op) {
  thread_local std::unordered_map<const c10::FunctionSchema*, Treatment> known;
  const auto [found, is_new] = known.try_emplace(&op.schema());
  if (is_new) {
    const auto listed = policies().find(op.schema().name());
    if (listed != policies().end()) found->second.policy = listed->second;
    found->second.attention = op.schema().name() == "aten::scaled_dot_product_attention";
    found->second.recurrent = is_recurrent_network(op.schema().name());
    if (found->second.recurrent) found->second.policy = Policy::half;  // ATen/native/cudnn: autocast's _cudnn_rnn
  }
  Treatment treatment = found->second;
  if (!autocast_type) treatment.policy = Policy::none;
  return treatment;
}

/// Single or half precision; double is left alone.
bool is_eligible(const at::Tensor& tensor) {
  return tensor.defined() && tensor.is_floating_point() && tensor.scalar_type() != at::kDouble;
}

at::Tensor cast(const at::Tensor& tensor, at::ScalarType type) {
  if (!is_eligible(tensor) || tensor.scalar_type() == type) return tensor;
  if (type == at::kFloat || !tensor.is_leaf() || !tensor.requires_grad()) return tensor.to(type);
  const auto [found, is_new] = cast_weights.try_emplace(tensor.unsafeGetTensorImpl());
  if (is_new || found->second.scalar_type() != type) found->second = tensor.to(type);
  return found->second;
}

void cast(c10::IValue& value, at::ScalarType type) {
  if (value.isTensor()) {
    value = cast(value.toTensor(), type);
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) list.push_back(cast(tensor, type));
    value = std::move(list);
  }
}

/// Casts the arguments from `begin` on.
void cast_arguments(const c10::OperatorHandle& op, Policy policy, torch::jit::Stack& stack, std::size_t begin) {
  at::ScalarType type = policy == Policy::half ? *autocast_type : at::kFloat;
  if (policy == Policy::widest) {
    bool any_single = false;
    for (std::size_t i = begin; i < stack.size(); ++i) {
      for_each_tensor(stack[i], [&](const at::Tensor& tensor) {
        any_single = any_single || (is_eligible(tensor) && tensor.scalar_type() == at::kFloat);
      });
    }
    type = any_single ? at::kFloat : *autocast_type;
  }
  if (policy == Policy::single_result) {
    const auto& arguments = op.schema().arguments();
    const bool eligible = stack[begin].isTensor() && is_eligible(stack[begin].toTensor());
    for (std::size_t i = 0; i < arguments.size() && eligible; ++i) {
      if (arguments[i].name() == "dtype" && stack[begin + i].isNone()) stack[begin + i] = at::kFloat;
    }
  } else {
    for (std::size_t i = begin; i < stack.size(); ++i) cast(stack[i], type);
  }
}

void dispatch(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  const auto [policy, attention, recurrent] = treatment_of(op);
  if (policy == Policy::none && !attention && !recurrent) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::DeferredInit),
                       stack);
    return;
  }
  const c10::impl::ExcludeDispatchKeyGuard off(c10::DispatchKeySet(c10::DispatchKey::DeferredInit));
  const std::size_t begin = stack->size() - op.schema().arguments().size();
  if (policy != Policy::none) cast_arguments(op, policy, *stack, begin);
  const bool called = attention   ? call_fused_attention(*stack, begin)
                      : recurrent ? call_cudnn_rnn(op.schema().name(), *stack, begin)
                                  : false;
  if (!called) op.callBoxed(stack);
}

}  // namespace

CudaDispatch::CudaDispatch(std::optional<at::ScalarType> half) {
  autocast_type = half;
  static const torch::Library library = [] {
    torch::Library made(torch::Library::IMPL, "_", c10::DispatchKey::DeferredInit, __FILE__, __LINE__);
    made.fallback(torch::CppFunction::makeFromBoxedFunction<&dispatch>());
    return made;
  }();
}

CudaDispatch::~CudaDispatch() { cast_weights.clear(); }

}  // namespace perfpred
