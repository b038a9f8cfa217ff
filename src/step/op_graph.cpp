// SPDX-License-Identifier: Apache-2.0
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "step/graph_folder.h"
#include "step/step_builder.h"
#include "text/enum_names.h"
#include "text/parse.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

/// Elements of the first input or the first output, whichever has more: one FLOP each.
double element_flops(const OpGraph& graph, std::span<const TensorId> inputs, std::span<const TensorId> outputs) {
  std::int64_t elements = 0;
  if (!inputs.empty()) elements = graph.numel(inputs[0]);
  if (!outputs.empty() && outputs[0] != no_tensor) elements = std::max(elements, graph.numel(outputs[0]));
  return static_cast<double>(elements);
}

/// FLOPs of an optimizer that writes so many `copies` for each parameter: the parameter itself and its state.
double update_flops(const OpGraph& graph, std::span<const TensorId> outputs, int per_parameter, int copies) {
  std::int64_t elements = 0;
  for (const TensorId id : outputs) elements += graph.numel(id);
  return static_cast<double>(elements) * per_parameter / copies;
}

/// Multiply-adds for one output element of a convolution: input channels of a group times the kernel's area. For one
/// element of the image if the convolution is transposed.
double taps(const Shape& weight) { return static_cast<double>(weight.numel()) / static_cast<double>(weight[0]); }

/// Of attention from q [.., positions, width] to k and v: products along the width of k and along that of v, so many of
/// each. FlashAttention (Dao et al. 2022), algorithms 1 and 4: forward q k^T and p v; backward computes q k^T anew, and
/// has two products for each of the two others.
double attention_flops(const OpGraph& graph, std::span<const TensorId> qkv, int along_keys, int along_values) {
  const Shape &q = graph.shape(qkv[0]), &k = graph.shape(qkv[1]), &v = graph.shape(qkv[2]);
  const auto pairs = static_cast<double>(q.numel() / q.back()) * static_cast<double>(k[k.rank() - 2]);
  return 2 * pairs * static_cast<double>(along_keys * k.back() + along_values * v.back());
}

/// FLOPs of a recurrent network: of its matrix products, and of its cells.
struct RnnFlops {
  double products = 0, cells = 0;
};

/// Each weight matrix is multiplied once for each position of x [.., width]. The operands after x are weights, up to
/// the first state, which has rank 3; of each layer and direction the recurrent matrix [gates * hidden, hidden] is the
/// second one, and a projection [projected, hidden] may follow. Cells by the equations of torch.nn.LSTM, GRU and RNN,
/// one FLOP for each sum, product and function of an element; backward for each sum and function one, for each product
/// two.
RnnFlops rnn_flops(const OpGraph& graph, std::span<const TensorId> inputs, bool backward) {
  struct Cell {
    double forward, backward;  // FLOPs for each element of the hidden state
  };
  constexpr Cell lstm = {13, 12}, gru = {11, 10}, plain = {2, 1};
  const Shape& x = graph.shape(inputs[0]);
  const double positions = x.back() > 0 ? static_cast<double>(x.numel()) / static_cast<double>(x.back()) : 0;
  RnnFlops flops;
  bool recurrent = false;
  for (std::size_t i = 1; i < inputs.size() && graph.shape(inputs[i]).rank() < 3; ++i) {
    const Shape& weight = graph.shape(inputs[i]);
    if (weight.rank() != 2) {  // a bias
      recurrent = false;
      continue;
    }
    flops.products += 2 * positions * static_cast<double>(weight.numel());
    if (recurrent) {
      const bool is_plain = weight[0] == weight[1], is_gru = weight[0] == 3 * weight[1];
      const Cell cell = is_plain ? plain : is_gru ? gru : lstm;
      const double hidden = static_cast<double>(weight[0]) / (is_plain ? 1 : is_gru ? 3 : 4);
      flops.cells += positions * hidden * (backward ? cell.backward : cell.forward);
    }
    recurrent = !recurrent;
  }
  return flops;
}

double flops_of(const OpGraph& graph, OpKind kind, std::span<const TensorId> inputs, std::span<const TensorId> outputs,
                bool transposed) {
  const auto elements = [&](TensorId id) { return static_cast<double>(graph.numel(id)); };
  switch (kind) {
    case OpKind::convolution:
      return 2 * elements(transposed ? inputs[0] : outputs[0]) * taps(graph.shape(inputs[1]));
    case OpKind::convolution_backward: {
      const int gradients = (outputs[0] != no_tensor ? 1 : 0) + (outputs[1] != no_tensor ? 1 : 0);
      return gradients * 2 * elements(inputs[transposed ? 1 : 0]) * taps(graph.shape(inputs[2]));
    }
    case OpKind::mm:
    case OpKind::bmm:
      return 2 * elements(outputs[0]) * static_cast<double>(graph.shape(inputs[0]).back());
    case OpKind::addmm:
    case OpKind::baddbmm: {
      const Shape& left = graph.shape(inputs[1]);
      const std::int64_t summed = graph.shape(outputs[0]).rank() < left.rank() ? left[0] : 1;  // addbmm
      return 2 * elements(outputs[0]) * static_cast<double>(summed * left.back());
    }
    case OpKind::attention:
      return attention_flops(graph, inputs, 1, 1);
    case OpKind::attention_backward:
      return attention_flops(graph, inputs.subspan(1), 3, 2);
    case OpKind::nll_loss:
      return elements(inputs[1]);
    case OpKind::nll_loss_backward:
      return elements(inputs[2]);
    case OpKind::embedding_backward:
      return elements(inputs[0]);
    case OpKind::embedding:
    case OpKind::cat:
    case OpKind::copy:
    case OpKind::fill:
    case OpKind::select_backward:
    case OpKind::slice_backward:
      return 0;
    case OpKind::fused_sgd:
      return update_flops(graph, outputs, 1, 1);
    case OpKind::fused_momentum:
      return update_flops(graph, outputs, 4, 2);
    case OpKind::fused_adam:
      return update_flops(graph, outputs, 8, 3);
    case OpKind::fused_adamw:
      return update_flops(graph, outputs, 9, 3);
    case OpKind::fused_adagrad:
      return update_flops(graph, outputs, 4, 2);
    case OpKind::unscale_gradients:
      return update_flops(graph, outputs, 1, 1);
    default:
      return element_flops(graph, inputs, outputs);
  }
}

std::int64_t bytes_read_by(const OpGraph& graph, OpKind kind, std::span<const TensorId> inputs,
                           std::span<const TensorId> outputs) {
  switch (kind) {
    case OpKind::fill:
    case OpKind::bernoulli:
      return 0;
    case OpKind::embedding: {  // the chosen rows, which a bag sums up, and which
      const std::int64_t row_bytes = graph.bytes(inputs[0]) / std::max<std::int64_t>(graph.shape(inputs[0])[0], 1);
      const std::int64_t rows_bytes = Shape({graph.numel(inputs[1]), row_bytes}).numel();
      return std::max(rows_bytes, graph.bytes(outputs[0])) + graph.bytes(inputs[1]);
    }
    case OpKind::nll_loss:  // one element for each label
      return graph.numel(inputs[1]) * size_of(graph.tensors()[inputs[0]].type) + graph.bytes(inputs[1]);
    case OpKind::nll_loss_backward:  // not the probabilities
      return graph.bytes(inputs[0]) + graph.bytes(inputs[2]) + graph.bytes(inputs[3]);
    default: {
      std::int64_t bytes = 0;
      for (std::size_t i = 0; i < inputs.size(); ++i) {
        bool again = false;  // an operand that is given twice is read once
        for (std::size_t j = 0; j < i && i < 4; ++j) again = again || inputs[j] == inputs[i];
        if (!again) bytes += graph.bytes(inputs[i]);
      }
      return bytes;
    }
  }
}

template <class Predicate>
OpTotals totals_if(std::span<const Op> ops, const Predicate& counts) {
  OpTotals totals;
  for (const Op& op : ops) {
    if (counts(op)) totals += op;
  }
  return totals;
}

}  // namespace

std::string_view to_string(DataType type) { return enumerator_name_of<DataType::u8>(type); }
std::string_view to_string(OpKind kind) { return enumerator_name_of<OpKind::custom>(kind); }

bool is_convolution(OpKind kind) { return kind == OpKind::convolution || kind == OpKind::convolution_backward; }

bool is_conv_or_matmul(OpKind kind) { return kind >= OpKind::convolution && kind <= OpKind::rnn_backward; }

double OpTotals::intensity() const { return bytes() > 0 ? flops / static_cast<double>(bytes()) : 0; }

OpTotals& OpTotals::operator+=(const Op& op) {
  ++ops;
  flops += op.flops;
  if (is_conv_or_matmul(op.kind)) conv_matmul_flops += op.flops - op.cell_flops;
  bytes_read += op.bytes_read;
  bytes_written += op.bytes_written;
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
  if (kind == OpKind::rnn || kind == OpKind::rnn_backward) {
    const RnnFlops flops = rnn_flops(*this, inputs, kind == OpKind::rnn_backward);
    op.cell_flops = flops.cells;
    op.flops = flops.cells + (kind == OpKind::rnn ? 1 : 2) * flops.products;
  } else {
    op.flops = flops_of(*this, kind, inputs, outputs, transposed) / (causal ? 2 : 1);
  }
  op.bytes_read = bytes_read_by(*this, kind, inputs, outputs);
  for (const TensorId id : outputs) op.bytes_written += id == no_tensor ? 0 : bytes(id);
  for (const TensorId id : inputs) operands_.push_back(id);
  for (const TensorId id : outputs) operands_.push_back(id);
  return op;
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
  return totals_if(ops_, [](const Op&) { return true; });
}

OpTotals OpGraph::totals(Phase phase) const {
  return totals_if(ops_, [phase](const Op& op) { return op.phase == phase; });
}

OpTotals OpGraph::totals(OpKind kind) const {
  return totals_if(ops_, [kind](const Op& op) { return op.kind == kind; });
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

std::int64_t Workload::params() const {
  validate();
  if (depth()) return cifar_cnn_params(*this);
  return is_file_network(network) ? graph().params() : build_network(*this).params();
}

std::int64_t Workload::steps_per_epoch() const {
  if (batch_size < 1) throw InputError(fmt::format("batch_size {} is not positive", batch_size));
  const auto parts = [](std::int64_t all, std::int64_t part) { return all / part + (all % part != 0 ? 1 : 0); };
  return parts(parts(train_images, batch_size), batches_per_step(network));
}

OpGraph Workload::graph() const {
  if (!is_file_network(network)) {
    return training_step(build_network(*this), optimizer, precision, optimizer_impl, layout);
  }
  const std::string variant = fmt::format("{}_{}", to_string(optimizer), to_string(precision));
  if (const auto file = find_graph(network, variant)) {
    const auto refuse = [this](const std::string& why) {
      throw InputError(fmt::format("network {} {}", shown(network), why));
    };
    const bool captured = is_captured_step(network);
    const Precision known = file->precision();
    if (captured && known != precision && known != Precision::unknown && precision != Precision::unknown) {
      refuse(fmt::format("was captured in {}, not in {}", to_string(known), to_string(precision)));
    }
    if (captured && file->layout() != layout) {
      refuse(fmt::format("was captured in {}, not in {}", to_string(file->layout()), to_string(layout)));
    }
    if (attention == Attention::eager) refuse("is a file's: attention eager has no effect on it");
    if (optimizer_impl == OptimizerImpl::foreach) refuse("is a file's: optimizer_impl foreach has no effect on it");
    if (const auto sample = file->sample(); !captured && !sample.empty() && sample != input) {
      refuse(fmt::format("takes input {}, not {}", shape_text(sample), shape_text(input)));
    }
    OpGraph step = file->graph(batch_size);
    step.set_layout(layout);
    return step;
  }
  throw InputError("network " + shown(network) + " is a file's: its graph is not in a folder that was named");
}

}  // namespace perfpred
