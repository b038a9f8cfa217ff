// SPDX-License-Identifier: Apache-2.0
#include "step/step_content.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "step/executed_op.h"
#include "step/op_rules.h"
#include "step/op_traits.h"
#include "text/parse.h"

namespace perfpred {
namespace {

/// Bytes between a tensor's first element and the end of its last.
double extent(const std::vector<std::int64_t>& sizes, const std::vector<std::int64_t>& strides, DataType type) {
  double elements = 1;
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    if (sizes[axis] == 0) return 0;
    elements += static_cast<double>(sizes[axis] - 1) * static_cast<double>(strides[axis]);
  }
  return elements * static_cast<double>(size_of(type));
}

/// One FLOP for each element of the lists that one launch goes through, if the operator computes.
double list_flops(const OpGraph& graph, OpKind kind, std::span<const TensorId> in, std::span<const TensorId> out) {
  if (kind == OpKind::copy || kind == OpKind::fill) return 0;
  double flops = 0;
  for (std::size_t i = 0; i < out.size(); ++i) {
    std::int64_t elements = out[i] != no_tensor ? graph.numel(out[i]) : 0;
    if (i < in.size()) elements = std::max(elements, graph.numel(in[i]));
    flops += static_cast<double>(elements);
  }
  return flops;
}

/// A file's step as a graph, at one batch size: its storages, the tensors that own them, all tensors, the operators.
class GraphBuilder {
 public:
  GraphBuilder(const StepContent& file, std::int64_t batch) : file_(file), batch_(batch) {
    graph_.reserve(file.layers.size(), file.ops.size(), file.tensors.size());
    for (const std::string& layer : file.layers) graph_.add_layer(layer);
    for (const StepTensor& tensor : file.tensors) {
      sizes_.push_back(tensor.sizes.after(batch - file.batch_size));
      strides_.push_back(tensor.strides.after(batch - file.batch_size));
    }
    add_tensors(storage_bytes());
    for (std::size_t i = 0; i < file.ops.size(); ++i) {
      if (!file.ops[i].free) add_op(i);
      free_after(file.ops[i]);
    }
    graph_.set_layout(file.layout);
    graph_.set_repeats(file.accumulate);
  }

  [[nodiscard]] OpGraph take() { return std::move(graph_); }
  [[nodiscard]] std::vector<TensorId> take_ids() { return std::move(ids_); }

 private:
  [[noreturn]] void refuse(const char* what) const { throw InputError(fmt::format("{}: {}", file_.path, what)); }

  [[nodiscard]] double at_batch(const StepCount& count) const {
    const double value = count.value + count.growth * static_cast<double>(batch_ - file_.batch_size);
    if (value < 0) throw InputError("the batch is too small for the captured step");
    return value;
  }

  [[nodiscard]] Strided strided(std::uint32_t i) const {
    return i == no_tensor ? Strided() : Strided{sizes_[i], strides_[i]};
  }
  [[nodiscard]] std::vector<Strided> strided(const std::vector<std::uint32_t>& numbers) const {
    std::vector<Strided> all;
    for (const std::uint32_t tensor : numbers) all.push_back(strided(tensor));
    return all;
  }
  [[nodiscard]] std::vector<TensorId> ids(const std::vector<std::uint32_t>& numbers) const {
    std::vector<TensorId> all;
    for (const std::uint32_t tensor : numbers) all.push_back(tensor == no_tensor ? no_tensor : ids_[tensor]);
    return all;
  }

  /// Bytes at this batch size: a storage grows as much as what its tensors reach.
  [[nodiscard]] std::vector<double> storage_bytes() const {
    std::vector<double> bytes(file_.storages.begin(), file_.storages.end());
    std::vector<double> now(bytes.size()), then(bytes.size());
    for (std::size_t i = 0; i < file_.tensors.size(); ++i) {
      const StepTensor& tensor = file_.tensors[i];
      const std::size_t s = tensor.storage;
      now[s] = std::max(now[s], extent(sizes_[i], strides_[i], tensor.type));
      then[s] = std::max(then[s], extent_of(tensor));
    }
    double sum = 0;
    for (std::size_t s = 0; s < bytes.size(); ++s) {
      if (then[s] > 0) bytes[s] *= now[s] / then[s];
      sum += bytes[s];
    }
    if (sum > max_step_bytes) refuse("is together too large for any device");
    return bytes;
  }

  /// Of each storage the first tensor that fills it, which owns it; no_tensor where none does.
  [[nodiscard]] std::vector<std::uint32_t> filling_tensors(const std::vector<double>& bytes) const {
    std::vector<std::uint32_t> filling(bytes.size(), no_tensor);
    for (std::uint32_t i = 0; i < file_.tensors.size(); ++i) {
      const StepTensor& tensor = file_.tensors[i];
      const std::int64_t numel = strided(i).numel();
      const double own = static_cast<double>(numel) * static_cast<double>(size_of(tensor.type));
      const bool fills = std::abs(own - bytes[tensor.storage]) < 0.5 && strided(i).stored().numel() == numel;
      if (fills && filling[tensor.storage] == no_tensor) filling[tensor.storage] = i;
    }
    return filling;
  }

  /// Adds owners, each before the first tensor of its storage, and views of them. Where no tensor fills a storage, one
  /// that no operator names owns it.
  void add_tensors(const std::vector<double>& bytes) {
    const std::vector<std::uint32_t> filling = filling_tensors(bytes);
    owners_.assign(bytes.size(), no_tensor);
    ids_.assign(file_.tensors.size(), no_tensor);
    for (std::uint32_t i = 0; i < file_.tensors.size(); ++i) {
      const StepTensor& tensor = file_.tensors[i];
      TensorId& owner = owners_[tensor.storage];
      const std::uint32_t whole = filling[tensor.storage];
      if (owner == no_tensor && whole != no_tensor) {
        owner = ids_[whole] = graph_.add_tensor(strided(whole).stored(), file_.tensors[whole].type, tensor.role);
      } else if (owner == no_tensor) {
        const double elements = bytes[tensor.storage] / static_cast<double>(size_of(tensor.type));
        owner = graph_.add_tensor(Shape({static_cast<std::int64_t>(elements)}), tensor.type, tensor.role);
      }
      if (ids_[i] == no_tensor) ids_[i] = graph_.add_view(owner, strided(i).stored(), tensor.type);
    }
  }

  /// Refuses an operator after which the step moves more than can be counted, or that lacks its kind's operands.
  void check(std::size_t index, const std::vector<TensorId>& in, const std::vector<TensorId>& out) {
    const StepOp& op = file_.ops[index];
    const double times = op.phase == Phase::optimizer ? 1 : static_cast<double>(file_.accumulate);
    for (const auto* operands : {&in, &out}) {
      for (const TensorId id : *operands) moved_ += id == no_tensor ? 0 : times * static_cast<double>(graph_.bytes(id));
    }
    if (moved_ > max_step_bytes) refuse("moves more bytes than can be counted");
    if (!traits_of(op.kind).rule.fits({graph_, in, out})) {
      throw InputError(fmt::format("{}: ops[{}]: has not the operands of {}", file_.path, index, shown(op.name)));
    }
  }

  void add_op(std::size_t index) {
    const StepOp& op = file_.ops[index];
    const std::vector<TensorId> in = ids(op.inputs), out = ids(op.outputs);
    check(index, in, out);
    Op& added = graph_.add_op(op.kind, op.phase, op.layer, in, out, op.transposed, op.causal);
    if (op.lists) {
      added.flops = list_flops(graph_, op.kind, in, out);
    } else if (is_conv_or_matmul(op.kind)) {
      added.flops *= repetitions(op.kind, strided(op.inputs), strided(op.outputs), op.transposed);
    }
    if (op.kind == OpKind::unknown || op.kind == OpKind::custom) {
      if (const auto rule = registered_rule(op.full_name)) count_by(*rule, graph_, added, op.causal);
    }
    if (op.flops) added.flops = at_batch(*op.flops);
    if (op.bytes) set_bytes(added, at_batch(*op.bytes));
    const bool is_other_random = op.kind == OpKind::bernoulli && op.name != to_string(op.kind);  // as randn
    if (op.lists || is_other_random || traits_of(op.kind).family == OpFamily::unnamed) name(added, op.name);
  }

  void name(Op& op, const std::string& name) {
    const auto [known, is_new] = names_.try_emplace(name, static_cast<std::int32_t>(names_.size()));
    op.name = known->second;
    if (is_new) graph_.add_op_name(name);
  }

  /// Frees what the file says after the last operator that was added.
  void free_after(const StepOp& op) {
    const std::size_t after = graph_.ops().empty() ? 0 : graph_.ops().size() - 1;
    for (const std::uint32_t storage : op.frees) {
      if (owners_[storage] != no_tensor) graph_.set_freed_after(owners_[storage], after);
    }
  }

  const StepContent& file_;
  std::int64_t batch_;
  OpGraph graph_;
  std::vector<std::vector<std::int64_t>> sizes_, strides_;  // by index of tensor
  std::vector<TensorId> owners_, ids_;                      // by index of storage, of tensor
  std::unordered_map<std::string_view, std::int32_t> names_;
  double moved_ = 0;  // bytes, those of repeated batches included
};

}  // namespace

double extent_of(const StepTensor& tensor) { return extent(tensor.sizes.values, tensor.strides.values, tensor.type); }

OpGraph StepContent::graph(std::int64_t batch) const {
  std::vector<TensorId> ids;
  return graph(batch, ids);
}

OpGraph StepContent::graph(std::int64_t batch, std::vector<TensorId>& ids) const {
  if (batch < 1) throw InputError(fmt::format("batch size {} is not positive", batch));
  if (batch != batch_size && !other_batch_size) {
    throw InputError(
        fmt::format("{}: was captured at batch size {}, not {}; perfpred.combine() joins captures of two sizes, "
                    "which answer for all",
                    path, batch_size, batch));
  }
  GraphBuilder builder(*this, batch);
  ids = builder.take_ids();
  return builder.take();
}

Layout StepContent::layout_of_images() const {
  double channels_last = 0;  // bytes, less those of other images
  for (const StepOp& op : ops) {
    if (op.free || op.kind != OpKind::convolution || tensors[op.inputs[1]].sizes.values[1] == 1) continue;
    const StepTensor& image = tensors[op.inputs[0]];
    const std::vector<std::int64_t>& sizes = image.sizes.values;
    if (sizes.size() != 4 || sizes[1] == 1 || (sizes[2] == 1 && sizes[3] == 1)) continue;
    const Strided elements{sizes, image.strides.values};
    const double bytes = static_cast<double>(elements.numel()) * static_cast<double>(size_of(image.type));
    channels_last += image.strides.values[1] == 1 ? bytes : -bytes;
  }
  return channels_last > 0 ? Layout::nhwc : Layout::nchw;
}

}  // namespace perfpred
