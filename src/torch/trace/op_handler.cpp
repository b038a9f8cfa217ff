// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/op_handler.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <perfpred/error.h>
#include <torch/library.h>

#include <fmt/format.h>

#include <algorithm>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

#include "step/op_rules.h"
#include "torch/device/torch_errors.h"
#include "torch/trace/meta_call.h"
#include "torch/trace/op_recorder.h"
#include "torch/trace/op_table.h"

namespace perfpred {
namespace {

using c10::IValue;

thread_local std::string failure;

std::string described(const c10::OperatorHandle& op, std::span<const at::Tensor> inputs, const std::string& what) {
  std::string shapes;
  for (const at::Tensor& tensor : inputs) {
    if (!shapes.empty()) shapes += ", ";
    shapes += Shape(std::span(tensor.sizes().data(), tensor.sizes().size())).text();
  }
  return fmt::format("{}({}): {}", op.schema().name(), shapes, first_line_of(what));
}

bool is_number(const at::Tensor& tensor) { return tensor.unsafeGetTensorImpl()->is_wrapped_number(); }

/// A call of an operator that is not made of others.
class DispatchedCall {
 public:
  DispatchedCall(const c10::OperatorHandle& op, OpInfo& info, torch::jit::Stack& stack)
      : op_(op), info_(info), stack_(stack), begin_(stack.size() - op.schema().arguments().size()) {
    inputs_ = std::move(scratch);
    inputs_.clear();
    for (std::size_t i = begin_; i < stack_.size(); ++i) {
      for_each_tensor(stack_[i], [&](const at::Tensor& tensor) {
        any_ = true;
        has_memory_ = has_memory_ || (!tensor.is_meta() && tensor.dim() > 0);
        only_host_numbers_ = only_host_numbers_ && !tensor.is_meta() && tensor.numel() <= 1;
        if (!is_number(tensor)) inputs_.push_back(tensor);
      });
    }
  }
  DispatchedCall(const DispatchedCall&) = delete;
  DispatchedCall& operator=(const DispatchedCall&) = delete;
  ~DispatchedCall() { scratch = std::move(inputs_); }

  void run() {
    if (answered_on_host()) return;
    move_to_meta();
    if (copies_to_another_device_only()) {
      stack_.resize(begin_ + 1);
      return;
    }
    if (info_.updates) {
      record_update();
      stack_.resize(begin_);
      return;
    }
    const bool transposed = info_.transposed && argument(*info_.transposed).toBool();
    const bool causal = info_.causal && argument(*info_.causal).toBool();
    try {
      call_on_meta(op_, info_, stack_, begin_, inputs_);
    } catch (const c10::Error& error) {
      if (failure.empty()) failure = described(op_, inputs_, error.what_without_backtrace());
      throw;
    }
    if (info_.role == OpRole::computes) record(transposed, causal);
  }

 private:
  IValue& argument(std::size_t index) { return stack_[begin_ + index]; }

  void answer(IValue value) {
    stack_.resize(begin_);
    stack_.push_back(std::move(value));
  }

  /// Numbers of the host stay there; values that the network asks for are ones and equal.
  bool answered_on_host() {
    if (any_ && only_host_numbers_) {
      op_.callBoxed(stack_);
      return true;
    }
    if (info_.role == OpRole::reads_value || info_.role == OpRole::compares) {
      answer(info_.role == OpRole::compares ? IValue(true) : IValue(1));
      return true;
    }
    if (any_ || info_.devices.empty()) return false;
    // A number made of shapes, say, stays one.
    const IValue& size = argument(0);
    if (info_.name != "scalar_tensor" && !(size.isIntList() && size.toIntVector().empty())) return false;
    op_.callBoxed(stack_);
    return true;
  }

  void move_to_meta() {
    for (const std::size_t device : info_.devices) {
      IValue& value = argument(device);
      if (value.isDevice() || !any_) value = c10::Device(at::kMeta);
    }
    if (!has_memory_) return;
    inputs_.clear();
    for (std::size_t i = begin_; i < stack_.size(); ++i) {
      remove_memory(stack_[i], Scalars::keep);
      for_each_tensor(stack_[i], [&](const at::Tensor& tensor) {
        if (!is_number(tensor)) inputs_.push_back(tensor);
      });
    }
  }

  bool copies_to_another_device_only() {
    if (!info_.to_copy || !argument(0).toTensor().is_meta()) return false;
    const IValue& type = argument(1);
    return type.isNone() || type.toScalarType() == argument(0).toTensor().scalar_type();
  }

  /// An operator that writes its arguments and returns nothing, as the fused optimizers do. All parameters share one
  /// count of steps, which the arguments list once for each.
  void record_update() {
    OpRecorder* recorder = OpRecorder::current();
    if (recorder == nullptr) return;
    std::vector<at::Tensor> written;
    for (const std::size_t i : info_.written) {
      for_each_tensor(argument(i), [&](const at::Tensor& tensor) { written.push_back(tensor); });
    }
    const auto same = [](const at::Tensor& a, const at::Tensor& b) { return a.is_same(b); };
    inputs_.erase(std::unique(inputs_.begin(), inputs_.end(), same), inputs_.end());
    const bool momentum = info_.kind == OpKind::fused_sgd && argument(2).toListRef().size() > 0;
    recorder->record(momentum ? OpKind::fused_momentum : info_.kind, {}, nullptr, inputs_, written);
  }

  void record(bool transposed, bool causal) {
    OpRecorder* recorder = OpRecorder::current();
    if (recorder == nullptr) return;
    std::vector<at::Tensor> outputs;
    for (std::size_t i = begin_; i < stack_.size(); ++i) {
      if (stack_[i].isTensor()) {
        outputs.push_back(stack_[i].toTensor());
      } else {
        for_each_tensor(stack_[i], [&](const at::Tensor& tensor) { outputs.push_back(tensor); });
      }
    }
    if (info_.causal) {  // what no gradient was asked of, and dropout that is not there
      while (!outputs.back().defined()) outputs.pop_back();
    }
    // Stands for cuDNN's copy of the weights: see the shape rule.
    if (info_.kind == OpKind::rnn) outputs.pop_back();
    if (info_.kind == OpKind::rnn_backward) {
      inputs_.erase(std::find_if(inputs_.begin(), inputs_.end(), [](const at::Tensor& t) { return t.numel() == 0; }));
    }
    if (info_.copy_into && inputs_.size() == 2) inputs_.erase(inputs_.begin());
    const bool named = info_.kind == OpKind::unknown || info_.kind == OpKind::other;
    const std::shared_ptr<const OpRule> rule =
        info_.kind == OpKind::unknown ? registered_rule(op_.schema().name()) : nullptr;
    recorder->record(info_.kind, named ? std::string_view(info_.name) : std::string_view(), rule.get(), inputs_,
                     outputs, transposed, causal);
  }

  static thread_local std::vector<at::Tensor> scratch;  // keeps its capacity from call to call

  const c10::OperatorHandle& op_;
  OpInfo& info_;
  torch::jit::Stack& stack_;
  std::size_t begin_;
  std::vector<at::Tensor> inputs_;  // without numbers of the program
  bool any_ = false;                // is there a tensor?
  bool has_memory_ = false;         // one of rank 1 or more that is not on the meta device
  bool only_host_numbers_ = true;   // all have one element and are not on the meta device
};

thread_local std::vector<at::Tensor> DispatchedCall::scratch;

/// Called for each operator below autograd. An operator that is made of others is dispatched further, so that this is
/// called for those; the rest is executed without memory and recorded.
void handle(const c10::OperatorHandle& op, c10::DispatchKeySet keys, torch::jit::Stack* stack) {
  OpInfo& info = info_of(op);
  if (info.role == OpRole::composite) {
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, c10::DispatchKey::Fake), stack);
    return;
  }
  if (OpRecorder* recorder = OpRecorder::current(); recorder != nullptr && !recorder->admits_call()) {
    failure = fmt::format("the forward pass executes more than {} operators: does a loop of it wait for a value?",
                          OpRecorder::max_calls);
    throw InputError(failure);
  }
  DispatchedCall call(op, info, *stack);
  const c10::impl::ExcludeDispatchKeyGuard below(
      c10::autograd_dispatch_keyset_with_ADInplaceOrView |
      c10::DispatchKeySet({c10::DispatchKey::Fake, c10::DispatchKey::DeferredInit}));
  call.run();
}

/// With a kernel for the meta device, LibTorch differentiates an operator on it as on CUDA, and not what a CPU makes
/// of it.
void call_by_rule(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
  call_on_meta(op, info_of(op), *stack, stack->size() - op.schema().arguments().size(), {});
}

}  // namespace

WithoutMemory::WithoutMemory() {
  static const torch::Library cuda_only = [] {
    torch::Library made(torch::Library::IMPL, "aten", c10::DispatchKey::Meta, __FILE__, __LINE__);
    made.impl("_fused_rms_norm", torch::CppFunction::makeFromBoxedFunction<&call_by_rule>());
    return made;
  }();
  // Not when the library is loaded: a second library with a handler on this key would end the process.
  static const torch::Library library = [] {
    torch::Library made(torch::Library::IMPL, "_", c10::DispatchKey::Fake, __FILE__, __LINE__);
    made.fallback(torch::CppFunction::makeFromBoxedFunction<&handle>());
    return made;
  }();
}

std::string take_op_failure() { return std::exchange(failure, {}); }

}  // namespace perfpred
