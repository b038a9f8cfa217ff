// SPDX-License-Identifier: Apache-2.0
#include <perfpred/network.h>
#include <perfpred/op_graph.h>

#include <array>
#include <initializer_list>
#include <optional>
#include <span>

namespace perfpred {
namespace {

/// What the forward pass of a layer leaves behind.
struct LayerState {
  TensorId output = no_tensor;
  TensorId gradient = no_tensor;  // of the output
  bool needs_gradient = false;
  bool scattered = false;  // the gradient's rows are not contiguous: flattening them for a linear layer copies
  std::array<TensorId, 2> weights = {no_tensor, no_tensor};  // weight, bias: as the operators read them
  std::array<TensorId, 2> inputs = {no_tensor, no_tensor};   // first two: as the operators read them
  std::array<TensorId, 3> saved = {no_tensor, no_tensor, no_tensor};
};

struct LearnedTensor {
  TensorId weight;
  TensorId gradient = no_tensor;
};

class StepBuilder {
 public:
  StepBuilder(const Network& network, Optimizer optimizer, Precision precision)
      : network_(network), states_(network.layers.size()) {
    if (precision == Precision::fp64) master_ = DataType::f64;
    half_ = precision == Precision::fp16 ? DataType::f16 : DataType::bf16;
    mixed_ = precision == Precision::fp16 || precision == Precision::bf16;
    scaled_ = precision == Precision::fp16;
    reserve(optimizer);
    for (const Layer& layer : network.layers) graph_.layer_names.push_back(layer.name);
    declare_tensors();
  }

  OpGraph build(Optimizer optimizer) {
    for (layer_ = 0; layer_ < static_cast<std::int32_t>(states_.size()); ++layer_) forward(layer());
    layer_ = -1;
    loss();
    for (layer_ = static_cast<std::int32_t>(states_.size()) - 1; layer_ >= 0; --layer_) {
      if (state().gradient == no_tensor) continue;
      backward(layer());
      hold(state().gradient, -1);
    }
    layer_ = -1;
    if (scaled_) unscale();
    phase_ = Phase::optimizer;
    update(optimizer);
    if (scaled_) emit(OpKind::update_scale, {scale_, growth_, found_inf_}, {scale_});
    return std::move(graph_);
  }

 private:
  using Ids = std::initializer_list<TensorId>;

  const Layer& layer() const { return network_.layers[static_cast<std::size_t>(layer_)]; }
  LayerState& state() { return states_[static_cast<std::size_t>(layer_)]; }
  LayerState& state_of(std::int32_t index) { return states_[static_cast<std::size_t>(index)]; }
  std::int32_t input_layer(std::size_t i) const { return network_.inputs(layer())[i]; }
  bool input_needs_gradient(std::size_t i) { return state_of(input_layer(i)).needs_gradient; }

  TensorRole role() const { return phase_ <= Phase::loss ? TensorRole::activation : TensorRole::temporary; }
  TensorId made(const Shape& shape, DataType type) { return graph_.add_tensor(shape, type, role()); }
  TensorId made_like(TensorId id) { return graph_.add_like(id, role()); }
  DataType type(TensorId id) const { return graph_.tensors[id].type; }

  void emit(OpKind kind, Ids inputs, Ids outputs) {
    graph_.add_op(kind, phase_, layer_, std::span(inputs.begin(), inputs.size()),
                  std::span(outputs.begin(), outputs.size()));
  }
  /// An operator that gives one new tensor shaped as its first input.
  TensorId map(OpKind kind, Ids inputs) {
    const TensorId out = made_like(*inputs.begin());
    emit(kind, inputs, {out});
    return out;
  }
  TensorId sum_to(TensorId id, const Shape& shape) {
    const TensorId out = made(shape, type(id));
    emit(OpKind::sum, {id}, {out});
    return out;
  }
  TensorId transposed(TensorId id) {
    const Shape shape = graph_.shape(id);
    const std::size_t last = shape.rank() - 1;
    return graph_.add_view(id, shape.with(last - 1, shape[last]).with(last, shape[last - 1]));
  }

  void reserve(Optimizer optimizer);
  void declare_tensors();
  void forward(const Layer& layer);
  void loss();
  void backward(const Layer& layer);
  void unscale();
  void update(Optimizer optimizer);

  TensorId cast(TensorId id, DataType to);
  TensorId input(std::size_t i) { return state_of(input_layer(i)).output; }
  TensorId operand(std::size_t i, DataType compute);
  void read_weights(DataType compute);
  void give(std::size_t i, TensorId gradient, bool scattered = false);
  void give_layer(std::int32_t layer, TensorId gradient, bool scattered = false);
  void hold(TensorId gradient, int layers);
  [[nodiscard]] bool is_free(TensorId gradient) const;
  void learn(std::size_t which, TensorId gradient);
  void forward_linear(const Layer& layer);
  void backward_linear(const Layer& layer);
  void backward_chunk(const Layer& layer);
  void backward_concat(const Layer& layer);

  /// Matrix products and convolutions compute in the half type under mixed precision, sensitive operators in fp32.
  DataType compute_type() const { return mixed_ ? half_ : master_; }

  const Network& network_;
  OpGraph graph_;
  std::vector<LayerState> states_;
  std::vector<LearnedTensor> learned_;
  std::vector<std::array<std::int32_t, 2>> learned_of_layer_;  // indices into learned_
  std::vector<std::array<TensorId, 3>> buffers_;               // running mean, running variance, batches
  std::vector<TensorId> many_;                                 // scratch
  std::vector<int> holders_;                                   // of each storage: layers that wait for it as a gradient
  TensorId labels_ = no_tensor;
  TensorId mask_ = no_tensor;
  TensorId scale_ = no_tensor, growth_ = no_tensor, found_inf_ = no_tensor;  // of the gradient scaler
  std::int32_t layer_ = -1;
  Phase phase_ = Phase::forward;
  DataType master_ = DataType::f32;
  DataType half_ = DataType::f16;
  bool mixed_ = false;
  bool scaled_ = false;
};

/// Room for a typical step, so that nothing is moved while the graph grows.
void StepBuilder::reserve(Optimizer optimizer) {
  std::size_t learned = 0;
  for (const Layer& layer : network_.layers) learned += Network::parameters(layer).count;
  const std::size_t layers = states_.size();
  const std::size_t update_ops = optimizer == Optimizer::adadelta ? 11 : optimizer == Optimizer::rmsprop ? 5 : 0;
  const std::size_t update_tensors = optimizer >= Optimizer::adam ? 2 : 1;
  graph_.reserve(layers * 4 + learned * update_ops, layers * 5 + learned * (2 + update_tensors));
  graph_.layer_names.reserve(layers);
  learned_.reserve(learned);
}

void StepBuilder::declare_tensors() {
  if (scaled_) {
    scale_ = graph_.add_tensor({}, DataType::f32, TensorRole::buffer);
    growth_ = graph_.add_tensor({}, DataType::i32, TensorRole::buffer);
    found_inf_ = graph_.add_tensor({}, DataType::f32, TensorRole::buffer);
  }
  learned_of_layer_.assign(states_.size(), {-1, -1});
  buffers_.assign(states_.size(), {no_tensor, no_tensor, no_tensor});
  for (std::size_t i = 0; i < states_.size(); ++i) {
    const Layer& layer = network_.layers[i];
    const LayerParameters own = Network::parameters(layer);
    const std::size_t skip = layer.tied_to >= 0 ? 1 : 0;
    if (skip == 1) learned_of_layer_[i][0] = learned_of_layer_[static_cast<std::size_t>(layer.tied_to)][0];
    for (std::size_t p = 0; p < own.count; ++p) {
      learned_of_layer_[i][p + skip] = static_cast<std::int32_t>(learned_.size());
      learned_.push_back({graph_.add_tensor(own.shapes[p], master_, TensorRole::parameter)});
    }
    if (layer.kind == LayerKind::batch_norm) {
      for (std::size_t k = 0; k < 2; ++k) {
        buffers_[i][k] = graph_.add_tensor({layer.out_channels}, master_, TensorRole::buffer);
      }
      buffers_[i][2] = graph_.add_tensor({}, DataType::i64, TensorRole::buffer);
    } else if (layer.kind == LayerKind::causal_mask && mask_ == no_tensor) {
      mask_ = graph_.add_tensor({layer.output[1], layer.output[2]}, DataType::u8, TensorRole::buffer);
    }
  }
}

TensorId StepBuilder::cast(TensorId id, DataType to) {
  if (type(id) == to) return id;
  const Shape shape = graph_.shape(id);
  const TensorId out = made(shape, to);
  emit(OpKind::copy, {id}, {out});
  return out;
}

/// Input i of the layer in the type that its operator computes in.
TensorId StepBuilder::operand(std::size_t i, DataType compute) {
  const TensorId id = cast(input(i), compute);
  if (i < 2) state().inputs[i] = id;
  return id;
}

void StepBuilder::read_weights(DataType compute) {
  const auto& own = learned_of_layer_[static_cast<std::size_t>(layer_)];
  for (std::size_t p = 0; p < 2; ++p) {
    if (own[p] >= 0) state().weights[p] = cast(learned_[static_cast<std::size_t>(own[p])].weight, compute);
  }
}

void StepBuilder::forward_linear(const Layer& layer) {
  read_weights(compute_type());
  LayerState& s = state();
  TensorId x = operand(0, compute_type());
  const Shape in = graph_.shape(x);
  const bool folded = in.rank() != 2;
  if (folded) x = s.inputs[0] = graph_.add_view(x, {in.numel() / in.back(), in.back()});
  const TensorId weight = transposed(s.weights[0]);
  const Shape rows = graph_.shape(x);
  const TensorId out = made({rows[0], layer.out_channels}, compute_type());
  if (layer.bias) {
    emit(OpKind::addmm, {s.weights[1], x, weight}, {out});
  } else {
    emit(OpKind::mm, {x, weight}, {out});
  }
  s.output = folded ? graph_.add_view(out, layer.output) : out;
}

void StepBuilder::forward(const Layer& layer) {
  LayerState& s = state();
  const std::span<const std::int32_t> from = network_.inputs(layer);
  const auto own = learned_of_layer_[static_cast<std::size_t>(layer_)];
  s.needs_gradient = own[0] >= 0;
  for (const std::int32_t i : from) s.needs_gradient = s.needs_gradient || state_of(i).needs_gradient;

  const auto pointwise = [&](OpKind kind) {
    const TensorId x = operand(0, type(input(0)));
    s.output = layer.in_place ? graph_.add_view(x, layer.output) : made_like(x);
    emit(kind, {x}, {s.output});
  };

  switch (layer.kind) {
    case LayerKind::input:
      s.output = graph_.add_tensor(layer.output, network_.tokens ? DataType::i64 : master_, TensorRole::input);
      labels_ = graph_.add_tensor(network_.tokens ? Shape{layer.output[0] * layer.output[1]} : Shape{layer.output[0]},
                                  DataType::i64, TensorRole::input);
      break;
    case LayerKind::position_ids:
    case LayerKind::type_ids:
      s.output = graph_.add_tensor(layer.output, DataType::i64, TensorRole::buffer);
      s.needs_gradient = false;
      break;
    case LayerKind::conv2d: {
      const TensorId x = operand(0, compute_type());
      read_weights(compute_type());
      s.output = made(layer.output, compute_type());
      if (layer.bias) {
        emit(OpKind::convolution, {x, s.weights[0], s.weights[1]}, {s.output});
      } else {
        emit(OpKind::convolution, {x, s.weights[0]}, {s.output});
      }
      break;
    }
    case LayerKind::batch_norm: {
      const TensorId x = operand(0, type(input(0)));
      read_weights(master_);
      const auto& buffers = buffers_[static_cast<std::size_t>(layer_)];
      emit(OpKind::add, {buffers[2]}, {buffers[2]});
      s.output = made_like(x);
      s.saved[0] = made({layer.out_channels}, master_);
      s.saved[1] = made({layer.out_channels}, master_);
      emit(OpKind::batch_norm, {x, s.weights[0], s.weights[1], buffers[0], buffers[1]},
           {s.output, s.saved[0], s.saved[1]});
      break;
    }
    case LayerKind::layer_norm: {
      const TensorId x = operand(0, master_);
      read_weights(master_);
      s.output = made_like(x);
      const Shape statistics = layer.output.with(layer.output.rank() - 1, 1);
      s.saved[0] = made(statistics, master_);
      s.saved[1] = made(statistics, master_);
      emit(OpKind::layer_norm, {x, s.weights[0], s.weights[1]}, {s.output, s.saved[0], s.saved[1]});
      break;
    }
    case LayerKind::linear:
      forward_linear(layer);
      break;
    case LayerKind::embedding: {
      read_weights(master_);
      s.inputs[0] = input(0);
      s.output = made(layer.output, master_);
      emit(OpKind::embedding, {s.weights[0], s.inputs[0]}, {s.output});
      break;
    }
    case LayerKind::relu:
      pointwise(OpKind::relu);
      break;
    case LayerKind::relu6:
      pointwise(OpKind::hardtanh);
      break;
    case LayerKind::hardswish:
      pointwise(OpKind::hardswish);
      break;
    case LayerKind::hardsigmoid:
      pointwise(OpKind::hardsigmoid);
      break;
    case LayerKind::silu:
      pointwise(OpKind::silu);
      break;
    case LayerKind::sigmoid:
      pointwise(OpKind::sigmoid);
      break;
    case LayerKind::tanh:
      pointwise(OpKind::tanh);
      break;
    case LayerKind::gelu:
    case LayerKind::gelu_tanh:
      pointwise(OpKind::gelu);
      break;
    case LayerKind::scale:
      pointwise(OpKind::mul);
      break;
    case LayerKind::max_pool: {
      const TensorId x = operand(0, type(input(0)));
      s.output = made(layer.output, type(x));
      s.saved[0] = made(layer.output, DataType::i64);
      emit(OpKind::max_pool2d, {x}, {s.output, s.saved[0]});
      break;
    }
    case LayerKind::avg_pool:
    case LayerKind::adaptive_avg_pool:
    case LayerKind::global_avg_pool: {
      const TensorId x = operand(0, type(input(0)));
      s.output = made(layer.output, type(x));
      emit(layer.kind == LayerKind::avg_pool            ? OpKind::avg_pool2d
           : layer.kind == LayerKind::adaptive_avg_pool ? OpKind::adaptive_avg_pool2d
                                                        : OpKind::mean,
           {x}, {s.output});
      break;
    }
    case LayerKind::add: {
      const TensorId x = s.inputs[0] = input(0);
      const TensorId y = s.inputs[1] = input(1);
      const DataType wider = type(x) == type(y) ? type(x) : master_;
      s.output = layer.in_place && type(x) == wider ? graph_.add_view(x, layer.output) : made(layer.output, wider);
      emit(OpKind::add, {x, y}, {s.output});
      break;
    }
    case LayerKind::mul: {
      const TensorId x = operand(0, type(input(0)));
      const TensorId y = operand(1, type(input(1)));
      s.output = made_like(x);
      emit(OpKind::mul, {x, y}, {s.output});
      break;
    }
    case LayerKind::dropout:
    case LayerKind::stochastic_depth: {
      const TensorId x = operand(0, type(input(0)));
      const bool samples = layer.kind == LayerKind::stochastic_depth;
      s.saved[0] = made(samples ? Shape{layer.output[0], 1, 1, 1} : layer.output, type(x));
      emit(OpKind::bernoulli, {s.saved[0]}, {s.saved[0]});
      emit(OpKind::div, {s.saved[0]}, {s.saved[0]});
      s.output = made_like(x);
      emit(OpKind::mul, {x, s.saved[0]}, {s.output});
      break;
    }
    case LayerKind::layer_scale: {
      const TensorId x = operand(0, type(input(0)));
      read_weights(master_);
      s.output = made(layer.output, master_);
      emit(OpKind::mul, {s.weights[0], x}, {s.output});
      break;
    }
    case LayerKind::position_embedding: {
      const TensorId x = operand(0, type(input(0)));
      read_weights(master_);
      s.output = made(layer.output, master_);
      emit(OpKind::add, {x, s.weights[0]}, {s.output});
      break;
    }
    case LayerKind::class_token: {
      const TensorId x = operand(0, type(input(0)));  // joining promotes by itself
      read_weights(master_);
      s.output = made(layer.output, master_);
      emit(OpKind::cat, {s.weights[0], x}, {s.output});
      break;
    }
    case LayerKind::concat: {
      DataType widest = type(input(0));
      for (std::size_t i = 1; i < from.size(); ++i) widest = type(input(i)) == widest ? widest : master_;
      many_.clear();
      for (std::size_t i = 0; i < from.size(); ++i) many_.push_back(input(i));
      s.output = made(layer.output, widest);
      graph_.add_op(OpKind::cat, phase_, layer_, many_, std::span(&s.output, 1));
      break;
    }
    case LayerKind::channel_shuffle:
    case LayerKind::split_heads:
    case LayerKind::merge_heads: {
      const TensorId x = operand(0, type(input(0)));
      if (layer.kind == LayerKind::split_heads && graph_.shape(x)[0] == 1) {  // heads of one sample are strided already
        s.output = graph_.add_view(x, layer.output);
        break;
      }
      s.output = made(layer.output, type(x));
      emit(OpKind::copy, {x}, {s.output});
      break;
    }
    case LayerKind::chunk:
    case LayerKind::flatten:
    case LayerKind::to_nhwc:
    case LayerKind::to_nchw:
    case LayerKind::to_tokens:
    case LayerKind::first_token:
      s.output = graph_.add_view(input(0), layer.output);
      break;
    case LayerKind::matmul:
    case LayerKind::matmul_transposed: {
      const TensorId a = operand(0, compute_type());
      TensorId b = operand(1, compute_type());
      if (layer.kind == LayerKind::matmul_transposed) b = transposed(b);
      s.output = made(layer.output, compute_type());
      emit(OpKind::bmm, {a, b}, {s.output});
      break;
    }
    case LayerKind::causal_mask: {
      const TensorId x = operand(0, type(input(0)));
      s.output = made_like(x);
      emit(OpKind::masked_fill, {x, mask_}, {s.output});
      break;
    }
    case LayerKind::softmax: {
      const TensorId x = operand(0, master_);
      s.output = made_like(x);
      emit(OpKind::softmax, {x}, {s.output});
      break;
    }
  }
}

void StepBuilder::loss() {
  phase_ = Phase::loss;
  const auto last = static_cast<std::int32_t>(states_.size()) - 1;
  TensorId logits = state_of(last).output;
  const Shape shape = graph_.shape(logits);
  if (shape.rank() != 2) logits = graph_.add_view(logits, {shape.numel() / shape.back(), shape.back()});
  const TensorId raw = map(OpKind::log_softmax, {logits});  // in the logits' type, whatever autocast does elsewhere
  const TensorId log_probabilities = cast(raw, master_);
  const TensorId loss = made({}, master_);
  const TensorId total_weight = made({}, master_);
  emit(OpKind::nll_loss, {log_probabilities, labels_}, {loss, total_weight});

  phase_ = Phase::backward;
  const TensorId root = scaled_ ? map(OpKind::mul, {loss, scale_}) : loss;
  TensorId one = made({}, master_);
  emit(OpKind::fill, {root}, {one});
  if (scaled_) one = map(OpKind::mul, {one, scale_});
  const TensorId by_probability = made_like(log_probabilities);
  emit(OpKind::nll_loss_backward, {one, log_probabilities, labels_, total_weight}, {by_probability});
  TensorId gradient = map(OpKind::log_softmax_backward, {cast(by_probability, type(raw)), raw});
  if (shape.rank() != 2) gradient = graph_.add_view(gradient, shape);
  give_layer(last, gradient);
}

/// Gradients that meet are added: into the first where it is whole and no other layer waits for it, else into a new
/// one.
void StepBuilder::give_layer(std::int32_t layer, TensorId gradient, bool scattered) {
  LayerState& to = state_of(layer);
  if (!to.needs_gradient) return;
  gradient = cast(gradient, type(to.output));
  if (to.gradient == no_tensor) {
    to.gradient = gradient;
    to.scattered = scattered;
  } else {  // laid out as the first
    const TensorId first = to.gradient;
    hold(first, -1);
    to.gradient = is_free(first) ? first : made_like(first);
    emit(OpKind::add, {first, gradient}, {to.gradient});
  }
  hold(to.gradient, 1);
}

/// Counts the layers that wait for a gradient's memory.
void StepBuilder::hold(TensorId gradient, int layers) {
  const std::size_t storage = graph_.tensors[gradient].storage;
  if (holders_.size() <= storage) holders_.resize(graph_.tensors.size() * 2);
  holders_[storage] += layers;
}

/// True if no layer waits for the gradient's memory, of which it takes all.
bool StepBuilder::is_free(TensorId gradient) const {
  const std::size_t storage = graph_.tensors[gradient].storage;
  return holders_[storage] == 0 && graph_.bytes(gradient) == graph_.bytes(static_cast<TensorId>(storage));
}

void StepBuilder::give(std::size_t i, TensorId gradient, bool scattered) {
  give_layer(input_layer(i), gradient, scattered);
}

void StepBuilder::learn(std::size_t which, TensorId gradient) {
  const std::int32_t index = learned_of_layer_[static_cast<std::size_t>(layer_)][which];
  LearnedTensor& learned = learned_[static_cast<std::size_t>(index)];
  gradient = cast(gradient, master_);
  if (learned.gradient == no_tensor) {
    learned.gradient = gradient;
  } else {
    emit(OpKind::add, {learned.gradient, gradient}, {learned.gradient});
  }
  graph_.tensors[graph_.tensors[learned.gradient].storage].role = TensorRole::gradient;
}

void StepBuilder::backward_linear(const Layer& layer) {
  LayerState& s = state();
  const TensorId x = s.inputs[0];
  TensorId g = s.gradient;
  const Shape rows = graph_.shape(x);
  const Shape given = graph_.shape(g);
  if (s.scattered && given[0] > 1) g = map(OpKind::copy, {g});
  if (given.rank() != 2) g = graph_.add_view(g, {rows[0], layer.out_channels});
  if (input_needs_gradient(0)) {
    TensorId gx = made(rows, type(g));
    emit(OpKind::mm, {g, s.weights[0]}, {gx});
    if (given.rank() != 2) gx = graph_.add_view(gx, given.with(given.rank() - 1, layer.in_channels));
    give(0, gx);
  }
  const TensorId gw = made({layer.out_channels, layer.in_channels}, type(g));
  emit(OpKind::mm, {transposed(g), x}, {gw});
  learn(0, gw);
  if (layer.bias) learn(1, sum_to(g, {layer.out_channels}));
}

void StepBuilder::backward_chunk(const Layer& layer) {
  // Parts follow each other, so the first one is reached last; torch joins all gradients at once.
  if (layer.index != 0) return;
  many_.clear();
  for (std::int32_t part = 0; part < layer.count; ++part) many_.push_back(state_of(layer_ + part).gradient);
  const TensorId gx = made_like(input(0));
  graph_.add_op(OpKind::cat, phase_, layer_, many_, std::span(&gx, 1));
  give(0, gx);
}

void StepBuilder::backward_concat(const Layer& layer) {
  const TensorId g = state().gradient;
  for (std::size_t i = 0; i < layer.input_count; ++i) {
    const Shape part = graph_.shape(input(i));
    if (input_needs_gradient(i)) give(i, graph_.add_view(g, part));
  }
}

void StepBuilder::backward(const Layer& layer) {
  LayerState& s = state();
  const TensorId g = s.gradient;
  const bool wanted = layer.input_count > 0 && input_needs_gradient(0);
  const auto pointwise = [&](OpKind kind, TensorId saved) {
    const TensorId gx = map(kind, {g, saved});
    give(0, gx);
  };
  const auto view_back = [&] {
    const Shape shape = graph_.shape(input(0));
    give(0, graph_.add_view(g, shape), s.scattered);
  };

  switch (layer.kind) {
    case LayerKind::input:
    case LayerKind::position_ids:
    case LayerKind::type_ids:
      break;
    case LayerKind::conv2d: {
      const TensorId gx = wanted ? made_like(s.inputs[0]) : no_tensor;
      const TensorId gw = made_like(s.weights[0]);
      const TensorId gb = layer.bias ? made_like(s.weights[1]) : no_tensor;
      emit(OpKind::convolution_backward, {g, s.inputs[0], s.weights[0]}, {gx, gw, gb});
      if (wanted) give(0, gx);
      learn(0, gw);
      if (layer.bias) learn(1, gb);
      break;
    }
    case LayerKind::batch_norm: {
      const auto& buffers = buffers_[static_cast<std::size_t>(layer_)];
      const TensorId gx = wanted ? made_like(s.inputs[0]) : no_tensor;
      const TensorId gw = made_like(s.weights[0]);
      const TensorId gb = made_like(s.weights[1]);
      emit(OpKind::batch_norm_backward, {g, s.inputs[0], s.weights[0], buffers[0], buffers[1], s.saved[0], s.saved[1]},
           {gx, gw, gb});
      if (wanted) give(0, gx);
      learn(0, gw);
      learn(1, gb);
      break;
    }
    case LayerKind::layer_norm: {
      const TensorId gx = wanted ? made_like(s.inputs[0]) : no_tensor;
      const TensorId gw = made_like(s.weights[0]);
      const TensorId gb = made_like(s.weights[1]);
      emit(OpKind::layer_norm_backward, {g, s.inputs[0], s.saved[0], s.saved[1], s.weights[0], s.weights[1]},
           {gx, gw, gb});
      if (wanted) give(0, gx);
      learn(0, gw);
      learn(1, gb);
      break;
    }
    case LayerKind::linear:
      backward_linear(layer);
      break;
    case LayerKind::embedding: {
      const TensorId gw = made_like(s.weights[0]);
      emit(OpKind::embedding_backward, {g, s.inputs[0]}, {gw});
      learn(0, gw);
      break;
    }
    case LayerKind::relu:
      pointwise(OpKind::threshold_backward, s.output);
      break;
    case LayerKind::relu6:
      pointwise(OpKind::hardtanh_backward, s.inputs[0]);
      break;
    case LayerKind::hardswish:
      pointwise(OpKind::hardswish_backward, s.inputs[0]);
      break;
    case LayerKind::hardsigmoid:
      pointwise(OpKind::hardsigmoid_backward, s.inputs[0]);
      break;
    case LayerKind::silu:
      pointwise(OpKind::silu_backward, s.inputs[0]);
      break;
    case LayerKind::sigmoid:
      pointwise(OpKind::sigmoid_backward, s.output);
      break;
    case LayerKind::tanh:
      pointwise(OpKind::tanh_backward, s.output);
      break;
    case LayerKind::gelu:
    case LayerKind::gelu_tanh:
      pointwise(OpKind::gelu_backward, s.inputs[0]);
      break;
    case LayerKind::scale:
      give(0, map(OpKind::mul, {g}));
      break;
    case LayerKind::max_pool: {
      const TensorId gx = made_like(s.inputs[0]);
      emit(OpKind::max_pool2d_backward, {g, s.inputs[0], s.saved[0]}, {gx});
      give(0, gx);
      break;
    }
    case LayerKind::avg_pool:
    case LayerKind::adaptive_avg_pool: {
      const TensorId gx = made_like(s.inputs[0]);
      emit(layer.kind == LayerKind::avg_pool ? OpKind::avg_pool2d_backward : OpKind::adaptive_avg_pool2d_backward,
           {g, s.inputs[0]}, {gx});
      give(0, gx);
      break;
    }
    case LayerKind::global_avg_pool: {  // the mean keeps nothing but the shape
      const Shape shape = graph_.shape(s.inputs[0]);
      const TensorId gx = made(shape, type(g));
      emit(OpKind::div, {g}, {gx});
      give(0, gx, true);  // channel after channel, where linear layers over channels want pixel after pixel
      break;
    }
    case LayerKind::add: {
      give(0, g, s.scattered);
      if (!input_needs_gradient(1)) break;
      const Shape shape = graph_.shape(s.inputs[1]);
      if (shape == layer.output) {
        give(1, g, s.scattered);
      } else {
        give(1, sum_to(g, shape));
      }
      break;
    }
    case LayerKind::mul: {
      const Shape shape = graph_.shape(s.inputs[1]);
      const TensorId gx = map(OpKind::mul, {g, s.inputs[1]});
      const TensorId product = map(OpKind::mul, {g, s.inputs[0]});
      give(0, gx);
      give(1, sum_to(product, shape));
      break;
    }
    case LayerKind::dropout:
    case LayerKind::stochastic_depth: {
      const TensorId gx = map(OpKind::mul, {g, s.saved[0]});
      give(0, gx, s.scattered);
      break;
    }
    case LayerKind::layer_scale: {
      const Shape shape = graph_.shape(s.weights[0]);
      const TensorId product = map(OpKind::mul, {g, s.inputs[0]});
      const TensorId gw = sum_to(product, shape);
      const TensorId gx = map(OpKind::mul, {g, s.weights[0]});
      learn(0, gw);
      give(0, gx, s.scattered);
      break;
    }
    case LayerKind::position_embedding: {
      const Shape shape = graph_.shape(s.weights[0]);
      give(0, g);
      learn(0, graph_.shape(g) == shape ? map(OpKind::copy, {g}) : sum_to(g, shape));  // one sample: kept beside g
      break;
    }
    case LayerKind::class_token: {
      const Shape token = graph_.shape(s.weights[0]);
      const Shape rest = graph_.shape(s.inputs[0]);
      const TensorId of_token = graph_.add_view(g, token.with(0, rest[0]));
      learn(0, rest[0] == 1 ? of_token : sum_to(of_token, token));
      give(0, graph_.add_view(g, rest));
      break;
    }
    case LayerKind::concat:
      backward_concat(layer);
      break;
    case LayerKind::channel_shuffle:
    case LayerKind::split_heads:
    case LayerKind::merge_heads: {
      const Shape shape = graph_.shape(s.inputs[0]);
      const bool one_sample = layer.kind == LayerKind::merge_heads && shape[0] == layer.groups;
      if (one_sample) {
        give(0, graph_.add_view(g, shape));
        break;
      }
      if (s.scattered) {  // the transposed gradient of keys: heads lie side by side already
        give(0, graph_.add_view(g, shape), true);
        break;
      }
      const TensorId gx = made(shape, type(g));
      emit(OpKind::copy, {g}, {gx});
      give(0, gx);
      break;
    }
    case LayerKind::chunk:
      backward_chunk(layer);
      break;
    case LayerKind::flatten:
    case LayerKind::to_nhwc:
    case LayerKind::to_nchw:
    case LayerKind::to_tokens:
      view_back();
      break;
    case LayerKind::first_token: {
      const Shape shape = graph_.shape(input(0));
      const TensorId gx = made(shape, type(g));
      emit(OpKind::select_backward, {g}, {gx});
      give(0, gx);
      break;
    }
    case LayerKind::matmul: {
      const TensorId ga = made_like(s.inputs[0]);
      const TensorId gb = made_like(s.inputs[1]);
      emit(OpKind::bmm, {g, transposed(s.inputs[1])}, {ga});
      emit(OpKind::bmm, {transposed(s.inputs[0]), g}, {gb});
      give(0, ga);
      give(1, gb);
      break;
    }
    case LayerKind::matmul_transposed: {
      const TensorId ga = made_like(s.inputs[0]);
      const TensorId gb = made_like(transposed(s.inputs[1]));
      emit(OpKind::bmm, {g, s.inputs[1]}, {ga});
      emit(OpKind::bmm, {transposed(s.inputs[0]), g}, {gb});
      give(0, ga);
      give(1, transposed(gb), true);
      break;
    }
    case LayerKind::causal_mask:
      pointwise(OpKind::masked_fill, mask_);
      break;
    case LayerKind::softmax:
      pointwise(OpKind::softmax_backward, s.output);
      break;
  }
}

/// Gradients as they are without the loss's factor.
void StepBuilder::unscale() {
  emit(OpKind::fill, {found_inf_}, {found_inf_});
  const TensorId inverse = made_like(scale_);
  emit(OpKind::other, {scale_}, {inverse});
  graph_.ops.back().name = static_cast<std::int32_t>(graph_.op_names.size());
  graph_.op_names.emplace_back("reciprocal");
  many_.clear();
  for (const LearnedTensor& learned : learned_) many_.push_back(learned.gradient);
  many_.push_back(found_inf_);
  const std::vector<TensorId> written = many_;
  many_.push_back(inverse);
  graph_.add_op(OpKind::unscale_gradients, phase_, -1, many_, written);
}

/// As ParameterUpdate does it: one fused kernel for all parameters, or where there is none, grouped operators that go
/// through all parameters one after the other. Constants (rates, decays) are arguments, not tensors.
void StepBuilder::update(Optimizer optimizer) {
  const std::size_t count = learned_.size();
  if (optimizer == Optimizer::none || count == 0) return;
  const TensorId steps = graph_.add_tensor({}, DataType::f32, TensorRole::optimizer_state);
  emit(OpKind::add, {steps}, {steps});
  const auto histories = [&] {
    std::vector<TensorId> made;
    made.reserve(count);
    for (const LearnedTensor& l : learned_) made.push_back(graph_.add_like(l.weight, TensorRole::optimizer_state));
    return made;
  };
  const auto fused = [&](OpKind kind, int states, bool counts) {
    many_.clear();
    std::vector<TensorId> written;
    for (const LearnedTensor& l : learned_) many_.push_back(l.weight);
    written = many_;
    for (const LearnedTensor& l : learned_) many_.push_back(l.gradient);
    for (int state = 0; state < states; ++state) {
      const std::vector<TensorId> made = histories();
      many_.insert(many_.end(), made.begin(), made.end());
      written.insert(written.end(), made.begin(), made.end());
    }
    if (counts) many_.push_back(steps);
    if (scaled_) many_.push_back(found_inf_);
    graph_.add_op(kind, phase_, -1, many_, written);
  };
  const auto each = [&](auto operation) {
    for (std::size_t i = 0; i < count; ++i) operation(i, learned_[i].weight, learned_[i].gradient);
  };
  const auto in_place = [&](OpKind kind, TensorId self) { emit(kind, {self}, {self}); };
  // Without a kernel that looks at it, the host compares it with zero.
  const auto look_for_infinities = [&] {
    if (scaled_) map(OpKind::fill, {found_inf_});
  };
  switch (optimizer) {
    case Optimizer::none:
      break;
    case Optimizer::sgd:
      fused(OpKind::fused_sgd, 0, false);
      break;
    case Optimizer::nesterov:
      fused(OpKind::fused_momentum, 1, false);
      break;
    case Optimizer::adam:
      fused(OpKind::fused_adam, 2, true);
      break;
    case Optimizer::adamw:
      fused(OpKind::fused_adamw, 2, true);
      break;
    case Optimizer::adagrad:
      fused(OpKind::fused_adagrad, 1, true);
      break;
    case Optimizer::rmsprop: {
      look_for_infinities();
      const std::vector<TensorId> square = histories();
      std::vector<TensorId> root(count);
      each([&](std::size_t i, TensorId, TensorId) { in_place(OpKind::mul, square[i]); });
      each([&](std::size_t i, TensorId, TensorId g) { emit(OpKind::addcmul, {square[i], g, g}, {square[i]}); });
      each([&](std::size_t i, TensorId, TensorId) { root[i] = map(OpKind::sqrt, {square[i]}); });
      each([&](std::size_t i, TensorId, TensorId) { in_place(OpKind::add, root[i]); });
      each([&](std::size_t i, TensorId p, TensorId g) { emit(OpKind::addcdiv, {p, g, root[i]}, {p}); });
      break;
    }
    case Optimizer::adadelta: {
      look_for_infinities();
      const std::vector<TensorId> square = histories();
      const std::vector<TensorId> moved = histories();
      std::vector<TensorId> update(count), root(count);
      each([&](std::size_t i, TensorId, TensorId) { in_place(OpKind::mul, square[i]); });
      each([&](std::size_t i, TensorId, TensorId g) { emit(OpKind::addcmul, {square[i], g, g}, {square[i]}); });
      each([&](std::size_t i, TensorId, TensorId) { update[i] = map(OpKind::add, {moved[i]}); });
      each([&](std::size_t i, TensorId, TensorId) { in_place(OpKind::sqrt, update[i]); });
      each([&](std::size_t i, TensorId, TensorId) { root[i] = map(OpKind::add, {square[i]}); });
      each([&](std::size_t i, TensorId, TensorId) { in_place(OpKind::sqrt, root[i]); });
      each([&](std::size_t i, TensorId, TensorId) { emit(OpKind::div, {update[i], root[i]}, {update[i]}); });
      each([&](std::size_t i, TensorId, TensorId g) { emit(OpKind::mul, {update[i], g}, {update[i]}); });
      each([&](std::size_t i, TensorId, TensorId) { in_place(OpKind::mul, moved[i]); });
      each([&](std::size_t i, TensorId, TensorId) {
        emit(OpKind::addcmul, {moved[i], update[i], update[i]}, {moved[i]});
      });
      each([&](std::size_t i, TensorId p, TensorId) { emit(OpKind::add, {p, update[i]}, {p}); });
      break;
    }
  }
  if (scaled_) emit(OpKind::sub, {steps, found_inf_}, {steps});
}

}  // namespace

OpGraph training_step(const Network& network, Optimizer optimizer, Precision precision) {
  return StepBuilder(network, optimizer, precision).build(optimizer);
}

}  // namespace perfpred
