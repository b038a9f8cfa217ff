// SPDX-License-Identifier: Apache-2.0
// Operators on lists of tensors, as aten/src/ATen/native/cuda/MultiTensorApply.cuh launches them: a kernel works on at
// most 320 blocks of 65,536 elements, of at most so many tensors as its arguments have room for.
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "step/lowering/lowering.h"

namespace perfpred {
namespace {

constexpr std::int64_t elements_of_block = 65'536;
constexpr std::int64_t max_blocks = 320;
constexpr std::int64_t max_elements = std::int64_t{1} << 40;  // 4 TB in single precision, and 50,000 kernels
constexpr std::array<std::size_t, 5> max_tensors = {110, 64, 48, 36, 30};  // by number of lists

/// One kernel: the tensors from first to last, all or a part of their elements.
struct Launch {
  std::size_t first = 0, last = 0;
  std::int64_t elements = 0;
};

std::vector<Launch> launches_of(std::span<const std::int64_t> sizes, std::size_t lists) {
  const std::size_t room = max_tensors[std::min(lists, max_tensors.size()) - 1];
  std::vector<Launch> launches;
  Launch now;
  std::int64_t blocks = 0;
  for (std::size_t tensor = 0; tensor < sizes.size(); ++tensor) {
    for (std::int64_t left = sizes[tensor]; left > 0;) {
      now.last = tensor;
      const std::int64_t taken = std::min((max_blocks - blocks) * elements_of_block, left);
      now.elements += taken;
      left -= taken;
      blocks += (taken + elements_of_block - 1) / elements_of_block;
      const bool ends = left == 0;
      if (blocks < max_blocks && !(ends && tensor - now.first + 1 == room)) continue;
      launches.push_back(now);
      now = {tensor + (ends ? 1 : 0), tensor, 0};
      blocks = 0;
    }
  }
  if (blocks > 0) launches.push_back(now);
  return launches;
}

/// Lists of as many tensors each, one after the other, and what follows them.
struct ListOperands {
  std::vector<TensorId> ids;
  std::size_t lists = 0;

  [[nodiscard]] std::vector<TensorId> of(const Launch& launch, std::size_t tensors) const {
    std::vector<TensorId> own;
    for (std::size_t list = 0; list < lists; ++list) {
      const auto begin = ids.begin() + static_cast<std::ptrdiff_t>(list * tensors);
      own.insert(own.end(), begin + static_cast<std::ptrdiff_t>(launch.first),
                 begin + static_cast<std::ptrdiff_t>(launch.last) + 1);
    }
    own.insert(own.end(), ids.begin() + static_cast<std::ptrdiff_t>(lists * tensors), ids.end());
    return own;
  }
};

/// FLOPs and bytes are shared by elements; their sums are those of `whole`.
void launch(Lowering& lowering, const Op& whole, const ListOperands& inputs, const ListOperands& outputs,
            std::size_t tensors, std::size_t lists) {
  std::vector<std::int64_t> sizes;
  for (std::size_t i = 0; i < tensors; ++i) sizes.push_back(lowering.from().numel(outputs.ids[i]));
  std::int64_t all = 0;
  for (const std::int64_t size : sizes) {
    if (size > max_elements - all) {
      throw InputError(
          fmt::format("the optimizer updates more than {} elements at once: too large for any device", max_elements));
    }
    all += size;
  }
  std::int64_t done = 0, read = 0, written = 0;
  double flops = 0;
  for (const Launch& part : launches_of(sizes, lists)) {
    done += part.elements;
    const double share = static_cast<double>(done) / static_cast<double>(all);  // 1 for the last one
    const auto read_so_far = static_cast<std::int64_t>(static_cast<double>(whole.bytes_read) * share);
    const auto written_so_far = static_cast<std::int64_t>(static_cast<double>(whole.bytes_written) * share);
    Op& op = lowering.add(whole, whole.kind, inputs.of(part, tensors), outputs.of(part, tensors));
    op.name = whole.name;
    op.dispatched = done == part.elements;
    op.flops = whole.flops * share - flops;
    op.bytes_read = read_so_far - read;
    op.bytes_written = written_so_far - written;
    flops = whole.flops * share;
    read = read_so_far;
    written = written_so_far;
  }
}

/// Of one operator that has all lists: tensors that it writes for each parameter, and lists that its kernel works on.
struct ListKind {
  OpKind kind;
  std::size_t written, lists;
};

constexpr std::array<ListKind, 5> fused_kinds = {{{OpKind::fused_sgd, 1, 2},
                                                  {OpKind::fused_momentum, 2, 3},
                                                  {OpKind::fused_adam, 3, 4},
                                                  {OpKind::fused_adamw, 3, 4},
                                                  {OpKind::fused_adagrad, 2, 3}}};

std::size_t launch_whole(Lowering& lowering, const Op& op) {
  const auto in = lowering.from().inputs(op), out = lowering.from().outputs(op);
  std::size_t tensors = 0, lists = 0, written = 0;
  if (op.kind == OpKind::unscale_gradients && out.size() > 1) {
    tensors = out.size() - 1;  // and the flag
    lists = written = 1;
  } else {
    const auto* found =
        std::find_if(fused_kinds.begin(), fused_kinds.end(), [&](const ListKind& k) { return k.kind == op.kind; });
    if (found == fused_kinds.end()) return 0;
    written = found->written;
    lists = found->lists;
    tensors = out.size() / written;
  }
  if (tensors == 0 || in.size() < lists * tensors) return 0;
  launch(lowering, op, {{in.begin(), in.end()}, lists}, {{out.begin(), out.end()}, written}, tensors, lists);
  return 1;
}

/// Grouped operators (_foreach_*) of an optimizer, which the neutral step has one for each tensor.
std::size_t launch_grouped(Lowering& lowering, std::size_t i) {
  const OpGraph& step = lowering.from();
  const auto ops = lowering.ops();
  const Op& first = ops[i];
  const auto out = step.outputs(first);
  if (first.phase != Phase::optimizer || out.size() != 1 || out[0] == no_tensor || step.inputs(first).empty()) return 0;
  const std::size_t operands = step.inputs(first).size();
  std::vector<TensorId> written;
  std::size_t end = i;
  Op whole = first;
  whole.flops = 0;
  whole.bytes_read = whole.bytes_written = 0;
  for (; end < ops.size(); ++end) {
    const Op& op = ops[end];
    const bool alike = op.kind == first.kind && op.name == first.name && op.phase == first.phase &&
                       step.inputs(op).size() == operands && step.outputs(op).size() == 1 &&
                       step.outputs(op)[0] != no_tensor;
    if (!alike || (end > i && step.outputs(op)[0] == out[0])) break;
    written.push_back(step.outputs(op)[0]);
    whole.flops += op.flops;
    whole.bytes_read += op.bytes_read;
    whole.bytes_written += op.bytes_written;
  }
  const std::size_t tensors = written.size();
  if (tensors < 2) return 0;
  ListOperands inputs{{}, operands};
  for (std::size_t list = 0; list < operands; ++list) {
    for (std::size_t k = i; k < end; ++k) inputs.ids.push_back(step.inputs(ops[k])[list]);
  }
  const auto in = step.inputs(first);
  const bool in_place = std::find(in.begin(), in.end(), written[0]) != in.end();
  launch(lowering, whole, inputs, {written, 1}, tensors, operands + (in_place ? 0 : 1));
  return tensors;
}

}  // namespace

std::size_t launch_lists(Lowering& lowering, std::size_t i) {
  const std::size_t done = launch_whole(lowering, lowering.ops()[i]);
  return done > 0 ? done : launch_grouped(lowering, i);
}

}  // namespace perfpred
