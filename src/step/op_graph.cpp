// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

#include "step/op_traits.h"
#include "text/enum_names.h"
#include "text/parse.h"

namespace perfpred {
namespace {

template <class Predicate>
OpTotals totals_if(const OpGraph& graph, const Predicate& counts) {
  OpTotals totals;
  for (const Op& op : graph.ops()) {
    if (counts(op)) totals.add(op, graph.times(op));
  }
  return totals;
}

/// @throws InputError for one operator too many
void check_room(std::size_t ops) {
  if (ops >= OpGraph::max_ops)
    throw InputError(fmt::format("a step of more than {} operators is too large", OpGraph::max_ops));
}

}  // namespace

std::string_view to_string(DataType type) { return enumerator_name_of<DataType::u8>(type); }
std::string_view to_string(OpKind kind) { return enumerator_name_of<OpKind::custom>(kind); }

bool is_convolution(OpKind kind) { return traits_of(kind).family == OpFamily::convolution; }

bool is_conv_or_matmul(OpKind kind) {
  const OpFamily family = traits_of(kind).family;
  return OpFamily::convolution <= family && family <= OpFamily::recurrent;
}

double OpTotals::intensity() const { return bytes() > 0 ? flops / static_cast<double>(bytes()) : 0; }

OpTotals& OpTotals::add(const Op& op, std::int64_t times) {
  const auto factor = static_cast<double>(times);
  ops += times;
  flops += op.flops * factor;
  if (is_conv_or_matmul(op.kind)) conv_matmul_flops += (op.flops - op.cell_flops) * factor;
  bytes_read += op.bytes_read * times;
  bytes_written += op.bytes_written * times;
  return *this;
}

std::uint32_t OpGraph::add_shape(const Shape& shape) {
  shapes_.push_back(shape);
  return static_cast<std::uint32_t>(shapes_.size()) - 1;
}

TensorId OpGraph::add_tensor(const Shape& shape, DataType type, TensorRole role) {
  const auto id = static_cast<TensorId>(tensors_.size());
  tensors_.push_back({shape.numel() * size_of(type), add_shape(shape), type, role, id});
  return id;
}

TensorId OpGraph::add_view(TensorId base, const Shape& shape, std::optional<DataType> type) {
  const auto id = static_cast<TensorId>(tensors_.size());
  const Tensor own = tensors_[base];
  const DataType viewed = type.value_or(own.type);
  tensors_.push_back({shape.numel() * size_of(viewed), add_shape(shape), viewed, own.role, own.storage});
  return id;
}

TensorId OpGraph::add_like(TensorId other, TensorRole role) {
  const auto id = static_cast<TensorId>(tensors_.size());
  const Tensor model = tensors_[other];
  tensors_.push_back({model.bytes, model.shape, model.type, role, id});
  return id;
}

Op& OpGraph::add_op(OpKind kind, Phase phase, std::int32_t layer, std::span<const TensorId> inputs,
                    std::span<const TensorId> outputs, bool transposed, bool causal) {
  check_room(ops_.size());
  Op& op = ops_.emplace_back();
  op.kind = kind;
  op.phase = phase;
  op.layer = layer;
  op.transposed = transposed && is_convolution(kind);
  const bool result = !outputs.empty() && outputs[0] != no_tensor;
  op.type = !inputs.empty() ? tensors_[inputs[0]].type : result ? tensors_[outputs[0]].type : DataType::f32;
  op.first_operand_ = static_cast<std::uint32_t>(operands_.size());
  op.input_count_ = static_cast<std::uint16_t>(inputs.size());
  op.output_count_ = static_cast<std::uint16_t>(outputs.size());
  const CountRule& rule = traits_of(kind).rule;
  const Operands operands{*this, inputs, outputs, transposed};
  const OpFlops flops = rule.flops(operands);
  op.flops = flops.all / (causal ? 2 : 1);
  op.cell_flops = flops.cells;
  op.bytes_read = rule.bytes_read(operands);
  for (const TensorId id : outputs) op.bytes_written += id == no_tensor ? 0 : bytes(id);
  for (const TensorId id : inputs) operands_.push_back(id);
  for (const TensorId id : outputs) operands_.push_back(id);
  return op;
}

Op& OpGraph::add_copy(const OpGraph& from, const Op& op, TensorId offset) {
  check_room(ops_.size());
  Op& made = ops_.emplace_back(op);
  made.first_operand_ = static_cast<std::uint32_t>(operands_.size());
  for (const std::span<const TensorId> operands : {from.inputs(op), from.outputs(op)}) {
    for (const TensorId id : operands) operands_.push_back(id == no_tensor ? id : id + offset);
  }
  return made;
}

OpGraph OpGraph::without_ops() const {
  OpGraph graph;
  graph.tensors_ = tensors_;
  graph.layer_names_ = layer_names_;
  graph.op_names_ = op_names_;
  graph.shapes_ = shapes_;
  graph.layout_ = layout_;
  graph.repeats_ = repeats_;
  return graph;
}

std::int32_t OpGraph::add_layer(std::string name) {
  layer_names_.push_back(std::move(name));
  return static_cast<std::int32_t>(layer_names_.size()) - 1;
}

std::int32_t OpGraph::add_op_name(std::string name) {
  op_names_.push_back(std::move(name));
  return static_cast<std::int32_t>(op_names_.size()) - 1;
}

void OpGraph::set_freed_after(TensorId storage, std::size_t op) {
  const std::pair entry(op, storage);
  frees_.insert(std::upper_bound(frees_.begin(), frees_.end(), entry), entry);
}

void OpGraph::reserve(std::size_t layer_count, std::size_t op_count, std::size_t tensor_count) {
  layer_names_.reserve(layer_count);
  ops_.reserve(op_count);
  tensors_.reserve(tensor_count);
  operands_.reserve(op_count * 3);
  shapes_.reserve(tensor_count / 3);
}

std::span<const TensorId> OpGraph::inputs(const Op& op) const {
  return std::span(operands_).subspan(op.first_operand_, op.input_count_);
}

std::span<const TensorId> OpGraph::outputs(const Op& op) const {
  return std::span(operands_).subspan(op.first_operand_ + op.input_count_, op.output_count_);
}

std::string_view OpGraph::name(const Op& op) const {
  return op.name < 0 ? to_string(op.kind) : op_names_.at(static_cast<std::size_t>(op.name));
}

std::string_view OpGraph::layer_name(const Op& op) const {
  return op.layer < 0 ? std::string_view() : layer_names_.at(static_cast<std::size_t>(op.layer));
}

OpTotals OpGraph::totals() const {
  return totals_if(*this, [](const Op&) { return true; });
}

OpTotals OpGraph::totals(Phase phase) const {
  return totals_if(*this, [phase](const Op& op) { return op.phase == phase; });
}

OpTotals OpGraph::totals(OpKind kind) const {
  return totals_if(*this, [kind](const Op& op) { return op.kind == kind; });
}

std::int64_t OpGraph::params() const {
  std::int64_t params = 0;
  for (TensorId id = 0; id < tensors_.size(); ++id) {
    if (tensors_[id].role == TensorRole::parameter && tensors_[id].storage == id) params += numel(id);
  }
  return params;
}

std::int64_t OpGraph::activation_bytes() const {
  std::vector<bool> kept(tensors_.size());
  std::int64_t kept_bytes = 0;
  for (const Op& op : ops_) {
    if (op.phase != Phase::backward) continue;
    for (const TensorId id : inputs(op)) {
      const TensorId storage = tensors_[id].storage;
      if (tensors_[storage].role != TensorRole::activation || kept[storage]) continue;
      kept[storage] = true;
      kept_bytes += bytes(storage);
    }
  }
  return kept_bytes;
}

}  // namespace perfpred
