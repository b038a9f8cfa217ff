// SPDX-License-Identifier: Apache-2.0
// What LibTorch 2.11 executes on a device in place of an operator of the neutral step. Named after each rule: the
// function of aten/src/ATen/native that decides.
#include <perfpred/executed_step.h>
#include <perfpred/workload.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <utility>

#include "step/lowering/lowering.h"
#include "step/permuted_image.h"

namespace perfpred {
namespace {

/// Convolution.cpp, use_cudnn_depthwise: depthwise convolutions have a kernel of their own, which adds the bias itself,
/// but for images in channels-last memory. ConvUtils.h, cudnn_conv_suggest_memory_format: those are not of doubles.
bool has_depthwise_kernel(const Lowering& lowering, const Op& op) {
  const OpGraph& step = lowering.from();
  const TensorId image = step.inputs(op)[0], weight = step.inputs(op)[1];
  if (op.transposed || step.shape(weight)[1] != 1 || step.shape(image)[1] == 1) return false;
  return step.tensors()[image].type == DataType::f64 || !lowering.is_channels_last(image);
}

/// Convolution.cpp, _convolution: cuDNN's has no bias; it is added in place afterwards. convolution_backward: the
/// bias's gradient is a sum over the output's gradient.
std::size_t convolution_bias(Lowering& lowering, std::size_t i) {
  const Op& op = lowering.ops()[i];
  const auto in = lowering.from().inputs(op), out = lowering.from().outputs(op);
  if (out.empty()) return 0;
  if (op.kind == OpKind::convolution && in.size() == 3 && !has_depthwise_kernel(lowering, op)) {
    lowering.add(op, OpKind::convolution, in.first(2), out).flops = op.flops;
    lowering.add(op, OpKind::add, {out[0], in[2]}, {out[0]}).dispatched = false;
    return 1;
  }
  if (op.kind == OpKind::convolution_backward && out.size() == 3 && out[2] != no_tensor) {
    lowering.add(op, OpKind::convolution_backward, in, std::array{out[0], out[1], no_tensor}).flops = op.flops;
    lowering.add(op, OpKind::sum, {in[0]}, {out[2]}).dispatched = false;
    return 1;
  }
  return 0;
}

/// Dropout.cpp, is_fused_kernel_acceptable: one kernel gives the result and a mask of a byte an element, another one
/// its gradient. The neutral step has bernoulli, div, mul and, for the gradient, mul with the same numbers. Stochastic
/// depth, with a number a sample, and dropout in place have no such kernel.
std::size_t dropout(Lowering& lowering, std::size_t i) {
  const OpGraph& step = lowering.from();
  const auto ops = lowering.ops();
  const Op& op = ops[i];
  if (op.kind == OpKind::mul && op.phase == Phase::backward && step.inputs(op).size() == 2) {
    const auto in = step.inputs(op);
    for (const std::size_t mask : {0U, 1U}) {
      const auto found = lowering.kept.find(lowering.storage(in[mask]));
      if (found == lowering.kept.end()) continue;
      lowering.add(op, OpKind::native_dropout_backward, {in[1 - mask], found->second[0]}, {step.outputs(op)[0]});
      return 1;
    }
    return 0;
  }
  const auto gives_one = [&](const Op& made) {
    return step.outputs(made).size() == 1 && step.outputs(made)[0] != no_tensor;
  };
  if (op.kind != OpKind::bernoulli || i + 2 >= ops.size()) return 0;
  const Op &scaled = ops[i + 1], &applied = ops[i + 2];
  if (scaled.kind != OpKind::div || applied.kind != OpKind::mul || step.inputs(applied).size() != 2) return 0;
  if (!gives_one(op) || !gives_one(scaled) || !gives_one(applied)) return 0;
  const TensorId mask = lowering.storage(step.outputs(op)[0]);
  const TensorId x = step.inputs(applied)[0], y = step.outputs(applied)[0];
  const bool is_it = lowering.storage(step.outputs(scaled)[0]) == mask &&
                     lowering.storage(step.inputs(applied)[1]) == mask && step.numel(mask) == step.numel(x) &&
                     lowering.storage(x) != lowering.storage(y) && lowering.is_dropout_mask(mask);
  if (!is_it) return 0;
  const TensorId kept = lowering.new_tensor(step.shape(mask), DataType::u8, op.phase);
  lowering.kept[mask] = {kept};
  lowering.add(applied, OpKind::native_dropout, {x}, {y, kept});
  return 3;
}

constexpr std::array<LoweringRule, 5> gpu_rules = {convolution_bias, dropout, write_out_attention_of_doubles,
                                                   launch_lists, write_out_attention_of_shared_keys};
/// Transformers repeats the keys where a step is compiled, so that there is a kernel: all rules but the last one.
constexpr std::span<const LoweringRule> compiled_gpu_rules = std::span(gpu_rules).first<4>();
constexpr std::array<LoweringRule, 4> cpu_rules = {write_out_attention_with_dropout, write_out_rms_norm, split_lstm,
                                                   write_out_rnn};

}  // namespace

Lowering::Lowering(const OpGraph& step)
    : from_(step), to_(step.without_ops()), multiplied_(step.tensors().size()), channels_last_(step.tensors().size()) {
  to_.reserve(step.layer_names().size(), step.ops().size() + step.ops().size() / 4, step.tensors().size());
  find_channels_last();
  count_products();
}

void Lowering::find_channels_last() {
  const auto is_image = [&](TensorId id) { return id != no_tensor && from_.shape(id).rank() == 4; };
  for (const Op& op : from_.ops()) {
    const auto in = from_.inputs(op);
    const auto image = std::find_if(in.begin(), in.end(), is_image);
    if (image == in.end() || !is_channels_last(*image)) continue;
    for (const TensorId id : from_.outputs(op)) {
      if (is_image(id)) channels_last_[storage(id)] = true;
    }
  }
}

void Lowering::count_products() {
  for (const Op& op : from_.ops()) {
    if (op.kind == OpKind::bernoulli || op.kind == OpKind::div) continue;
    const bool multiplies = op.kind == OpKind::mul;
    if (multiplies && op.phase == Phase::backward) continue;
    const auto note = [&](TensorId id) {
      if (id == no_tensor) return;
      std::uint8_t& times = multiplied_[storage(id)];
      times = multiplies && times == 0 ? 1 : 2;
    };
    for (const TensorId id : from_.inputs(op)) note(id);
    for (const TensorId id : from_.outputs(op)) note(id);
  }
}

bool Lowering::is_channels_last(TensorId image) const {
  return from_.shape(image).rank() == 4 &&
         (from_.layout() == Layout::nhwc || channels_last_[storage(image)] || is_permuted_image(from_, image));
}

TensorId Lowering::new_tensor(const Shape& shape, DataType type, Phase made_in) {
  return to_.add_tensor(shape, type, made_in <= Phase::loss ? TensorRole::activation : TensorRole::temporary);
}

std::int32_t Lowering::op_name(const char* name) {
  const auto [found, is_new] = names_.try_emplace(name, 0);
  if (is_new) found->second = to_.add_op_name(name);
  return found->second;
}

/// Memory is given back where the step as written does it: after the last operator that executes the one it names. What
/// a rule made is given back after the last operator that uses it.
OpGraph Lowering::take() {
  if (from_.frees().empty()) return std::move(to_);
  const auto made = static_cast<TensorId>(from_.tensors().size());
  std::vector<std::pair<std::size_t, TensorId>> frees;
  for (const auto& [op, storage] : from_.frees()) {
    frees.emplace_back(op < executed_by_.size() ? executed_by_[op] : 0, storage);
  }
  std::map<TensorId, std::size_t> last_use;
  for (std::size_t i = 0; i < to_.ops().size(); ++i) {
    const auto use = [&](TensorId id) {
      if (id == no_tensor) return;
      if (const TensorId storage = to_.tensors()[id].storage; storage >= made) last_use[storage] = i;
    };
    for (const TensorId id : to_.inputs(to_.ops()[i])) use(id);
    for (const TensorId id : to_.outputs(to_.ops()[i])) use(id);
  }
  for (const auto& [storage, op] : last_use) frees.emplace_back(op, storage);
  std::sort(frees.begin(), frees.end());
  for (const auto& [op, storage] : frees) to_.set_freed_after(storage, op);
  return std::move(to_);
}

Precision product_precision(DataType type, Precision asked) {
  switch (type) {
    case DataType::f16:
      return Precision::fp16;
    case DataType::bf16:
      return Precision::bf16;
    case DataType::f64:
      return Precision::fp64;
    case DataType::f32: {
      const bool single = asked == Precision::fp32 || asked == Precision::tf32 || asked == Precision::unknown;
      return single ? asked : Precision::default_;
    }
    default:
      return asked;
  }
}

namespace {

std::span<const LoweringRule> rules_of(DeviceKind device, Compiler compiler) {
  if (device == DeviceKind::cpu) return cpu_rules;
  return compiler == Compiler::inductor ? compiled_gpu_rules : std::span<const LoweringRule>(gpu_rules);
}

OpGraph lowered(OpGraph step, DeviceKind device, Compiler compiler) {
  if (device == DeviceKind::other) return step;
  const std::span<const LoweringRule> rules = rules_of(device, compiler);
  Lowering lowering(step);
  for (std::size_t i = 0; i < step.ops().size();) {
    std::size_t done = 0;
    for (const LoweringRule rule : rules) {
      done = rule(lowering, i);
      if (done > 0) break;
    }
    if (done == 0) lowering.keep(step.ops()[i]);
    lowering.finish(done = std::max<std::size_t>(done, 1));
    i += done;
  }
  return lowering.take();
}

/// A convolution's weight: channels out, and in of a group.
struct ConvolutionSizes {
  std::int64_t out, in, taps;
  bool grouped;  ///< but not depthwise
};

std::optional<ConvolutionSizes> sizes_of_convolution(const OpGraph& step, const Op& op) {
  const auto in = step.inputs(op);
  if (op.kind != OpKind::convolution || in.size() < 2 || step.shape(in[0]).rank() < 3) return std::nullopt;
  const Shape& weight = step.shape(in[1]);
  const bool grouped = !op.transposed && weight[1] > 1 && weight[1] < step.shape(in[0])[1];
  return ConvolutionSizes{weight[0], weight[1], weight[2], grouped};
}

/// TorchInductor's decide_layout_opt (torch/_inductor/graph.py): whether a compiled step keeps its images in
/// channels-last memory. XLA's layout assignment does on matrix units.
bool prefers_channels_last(const OpGraph& step) {
  constexpr std::int64_t small_channels = 64;
  // How many times as long convolutions take there as otherwise, as they were measured by Inductor's authors.
  constexpr double of_grouped = 1.358, of_small = 0.783, of_narrowing = 0.725, of_others = 0.823;
  const bool trains =
      std::any_of(step.ops().begin(), step.ops().end(), [](const Op& op) { return op.phase >= Phase::backward; });
  bool any = false, all_small = true, any_grouped = false, any_narrowing = false;
  double flops = 0, weighted = 0;
  for (const Op& op : step.ops()) {
    const auto sizes = sizes_of_convolution(step, op);
    if (!sizes) continue;
    const bool small = sizes->out <= small_channels && sizes->in <= small_channels;
    const bool narrowing = sizes->out * 2 <= sizes->in && sizes->taps > 1;
    any = true;
    all_small = all_small && small;
    any_grouped = any_grouped || sizes->grouped;
    any_narrowing = any_narrowing || narrowing;
    flops += op.flops;
    weighted += op.flops * (sizes->grouped ? of_grouped : small ? of_small : narrowing ? of_narrowing : of_others);
  }
  if (!any) return false;
  return trains ? !any_grouped && !any_narrowing && !all_small : weighted <= flops;
}

}  // namespace

ExecutedStep execute(OpGraph step, DeviceKind device, Compiler compiler) {
  OpGraph executed = lowered(std::move(step), device, compiler);
  if (compiler == Compiler::none) return {std::move(executed), device};
  if (compiler == Compiler::inductor) executed = recompute_in_backward(executed);
  OpGraph fused = fuse_pointwise(executed);
  if (device == DeviceKind::gpu && prefers_channels_last(fused)) fused.set_layout(Layout::nhwc);
  return {std::move(fused), device};
}

Compiler compiler_of(bool compiled, Software software) {
  if (compiled) return Compiler::inductor;
  return software == Software::xla || software == Software::jax ? Compiler::xla : Compiler::none;
}

Compiler compiler_of(const Workload& workload) { return compiler_of(workload.compiled, workload.software); }

}  // namespace perfpred
