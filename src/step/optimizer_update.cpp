// SPDX-License-Identifier: Apache-2.0
#include <algorithm>
#include <array>
#include <vector>

#include "step/parts_needed.h"
#include "step/step_writer.h"

namespace perfpred {
namespace {

using Tensors = std::vector<TensorId>;

/// The update of one optimizer. Constants (rates, decays) are arguments of its operators, not tensors.
class Update {
 public:
  explicit Update(StepWriter& step) : step_(step) {}

  void run(Optimizer optimizer) {
    steps_ = step_.new_tensor({}, DataType::f32, TensorRole::optimizer_state);
    in_place(OpKind::add, {steps_});
    add(optimizer);
    if (step_.scales_loss()) step_.add_op(OpKind::sub, {steps_, step_.found_inf()}, {steps_});
  }

  /// torch/optim/*.py, _multi_tensor_*: the count of steps stays on the host.
  void run_foreach(Optimizer optimizer) {
    check_for_infinities();
    const Tensors &parameters = step_.parameters(), &gradients = step_.gradients();
    if (optimizer == Optimizer::sgd) return in_place(OpKind::add, parameters, gradients);
    const Tensors moment = new_state();
    if (optimizer == Optimizer::nesterov || optimizer == Optimizer::momentum) {
      in_place(OpKind::mul, moment);
      in_place(OpKind::add, moment, gradients);
      if (optimizer == Optimizer::momentum) return in_place(OpKind::add, parameters, moment);
      in_place(OpKind::add, gradients, moment);
      return in_place(OpKind::add, parameters, gradients);
    }
    if (optimizer == Optimizer::adagrad) {
      in_place(OpKind::addcmul, moment, gradients, gradients);
      const Tensors root = apply(OpKind::sqrt, moment);
      in_place(OpKind::add, root);
      return in_place(OpKind::addcdiv, parameters, apply(OpKind::mul, gradients), root);
    }
    const Tensors square = new_state();  // adam, adamw
    if (optimizer == Optimizer::adamw) in_place(OpKind::mul, parameters);
    for (std::size_t i = 0; i < moment.size(); ++i) step_.add_other("lerp", {moment[i], gradients[i]}, moment[i]);
    in_place(OpKind::mul, square);
    in_place(OpKind::addcmul, square, gradients, gradients);
    const Tensors root = apply(OpKind::sqrt, square);
    in_place(OpKind::div, root);
    in_place(OpKind::add, root);
    in_place(OpKind::addcdiv, parameters, moment, root);
  }

 private:
  void add(Optimizer optimizer) {
    switch (optimizer) {
      case Optimizer::none:
        return;
      case Optimizer::sgd:
        return fused(OpKind::fused_sgd, 0, false);
      case Optimizer::nesterov:
      case Optimizer::momentum:
        return fused(OpKind::fused_momentum, 1, false);
      case Optimizer::adam:
        return fused(OpKind::fused_adam, 2, true);
      case Optimizer::adamw:
        return fused(OpKind::fused_adamw, 2, true);
      case Optimizer::adagrad:
        return fused(OpKind::fused_adagrad, 1, true);
      case Optimizer::rmsprop:
        return rmsprop();
      case Optimizer::adadelta:
        return adadelta();
      default:
        return of_package(optimizer);
    }
  }

  /// Optimizers of other packages go through the parameters one by one.
  void of_package(Optimizer optimizer) {
    check_for_infinities();
    Tensors others, their_gradients;  // that AdamW updates
    for (std::size_t i = 0; i < step_.parameters().size(); ++i) {
      const TensorId p = step_.parameters()[i], g = step_.gradients()[i];
      if (optimizer == Optimizer::adafactor) {
        adafactor(p, g);
      } else if (optimizer == Optimizer::lion) {
        lion(p, g);
      } else if (optimizer == Optimizer::lamb) {
        lamb(p, g);
      } else if (optimizer != Optimizer::muon) {
        in_bytes(p, g, optimizer == Optimizer::paged_adamw8bit);
      } else if (step_.is_hidden_matrix()[i]) {
        muon(p, g);
      } else {
        others.push_back(p);
        their_gradients.push_back(g);
      }
    }
    if (!others.empty()) fused(OpKind::fused_adamw, 2, true, others, their_gradients);
  }

  /// bitsandbytes' optim/optimizer.py, Optimizer2State: states of a byte an element with a scale for each 256; of small
  /// parameters in single precision; paged ones of large parameters are not in the device's own memory.
  void in_bytes(TensorId p, TensorId g, bool paged) {
    constexpr std::int64_t block = 256, least_in_bytes = 4096, least_paged = 100'000;
    const Shape shape = step_.shape(p);  // a copy: new tensors move those of the step
    const std::int64_t count = shape.numel();
    Tensors read = {p, g}, written = {p};
    const auto add_state = [&](const Shape& sizes, DataType type) {
      const TensorId state = step_.new_tensor(sizes, type, TensorRole::optimizer_state);
      read.push_back(state);
      written.push_back(state);
    };
    const bool on_host = paged && count >= least_paged;
    for (int moment = 0; moment < 2 && count < least_in_bytes; ++moment) add_state(shape, DataType::f32);
    for (int moment = 0; moment < 2 && count >= least_in_bytes; ++moment) {
      if (!on_host) add_state(shape, DataType::u8);
      add_state({parts_needed(count, block)}, DataType::f32);
    }
    Op& op = step_.add_update("optimizer_update_8bit_blockwise", read, written);
    if (!on_host) return;
    op.bytes_read += 2 * count;
    op.bytes_written += 2 * count;
  }

  /// transformers' optimization.py, Adafactor without first moment.
  void adafactor(TensorId parameter, TensorId gradient) {
    const Shape shape = step_.shape(parameter);
    const TensorId p = step_.cast(parameter, DataType::f32), g = step_.cast(gradient, DataType::f32);
    norm_of(p);
    const TensorId update = step_.apply(OpKind::mul, {g, g});
    step_.add_op(OpKind::add, {update}, {update});
    TensorId scaled = no_tensor;
    if (shape.rank() < 2) {
      const TensorId square = state_of(shape);
      moving_average(square, update);
      scaled = step_.apply(OpKind::sqrt, {square});
    } else {
      std::array<TensorId, 2> roots{};
      for (const std::size_t axis : {shape.rank() - 1, shape.rank() - 2}) {
        const TensorId mean = step_.apply(OpKind::mean, {update}, without(shape, axis));
        const TensorId average = state_of(without(shape, axis));
        moving_average(average, mean);
        roots.at(shape.rank() - 1 - axis) = step_.apply(OpKind::sqrt, {average});
      }
      scaled = step_.apply(OpKind::mul, {roots[0], roots[1]}, shape);
    }
    step_.add_op(OpKind::mul, {scaled, g}, {scaled});
    norm_of(scaled);
    for (int i = 0; i < 2; ++i) step_.add_op(OpKind::mul, {scaled}, {scaled});
    step_.add_op(OpKind::add, {p, scaled}, {p});
    if (p != parameter) step_.add_op(OpKind::copy, {p}, {parameter});
  }

  /// Chen et al. 2023, algorithm 2, as lion-pytorch has it.
  void lion(TensorId p, TensorId g) {
    const TensorId moment = state_of(step_.shape(p), step_.type(p));
    step_.add_op(OpKind::mul, {p}, {p});
    const TensorId update = step_.apply(OpKind::copy, {moment});
    moving_average(update, g);
    step_.add_other("sign", {update}, update);
    step_.add_op(OpKind::add, {p, update}, {p});
    moving_average(moment, g);
  }

  /// You et al. 2020, algorithm 2, as timm's optim/lamb.py has it.
  void lamb(TensorId p, TensorId g) {
    norm_of(g);
    const TensorId moment = state_of(step_.shape(p), step_.type(p)), square = state_of(step_.shape(p), step_.type(p));
    moving_average(moment, g);
    step_.add_op(OpKind::mul, {square}, {square});
    step_.add_op(OpKind::addcmul, {square, g, g}, {square});
    const TensorId root = step_.apply(OpKind::sqrt, {square});
    step_.add_op(OpKind::div, {root}, {root});
    step_.add_op(OpKind::add, {root}, {root});
    const TensorId update = step_.apply(OpKind::div, {moment, root});
    step_.add_op(OpKind::add, {update, p}, {update});
    norm_of(p);
    norm_of(update);
    step_.add_op(OpKind::mul, {update}, {update});
    step_.add_op(OpKind::add, {p, update}, {p});
  }

  /// torch/optim/_muon.py: Newton-Schulz in bf16, of the matrix or its transpose, whichever has fewer rows.
  void muon(TensorId p, TensorId g) {
    constexpr int iterations = 5;
    const Shape shape = step_.shape(p);
    const TensorId moment = state_of(shape, step_.type(p));
    step_.add_other("lerp", {moment, g}, moment);
    const TensorId ahead = step_.new_like(g);
    step_.add_other("lerp", {g, moment}, ahead);
    TensorId x = step_.new_tensor(shape, DataType::bf16);
    step_.add_op(OpKind::copy, {ahead}, {x});
    if (shape[0] > shape[1]) x = step_.transposed(x);
    norm_of(x);
    step_.add_op(OpKind::div, {x}, {x});
    const Shape wide = step_.shape(x), square = {wide[0], wide[0]};
    for (int i = 0; i < iterations; ++i) {
      const TensorId gram = step_.apply(OpKind::mm, {x, step_.transposed(x)}, square);
      const TensorId polynomial = step_.apply(OpKind::addmm, {gram, gram, gram}, square);
      x = step_.apply(OpKind::addmm, {x, polynomial, x}, wide);
    }
    step_.add_op(OpKind::mul, {p}, {p});
    step_.add_op(OpKind::add, {p, x}, {p});
  }

  void norm_of(TensorId x) { step_.add_other("linalg_vector_norm", {x}, step_.new_tensor({}, step_.type(x))); }

  void moving_average(TensorId average, TensorId x) {
    step_.add_op(OpKind::mul, {average}, {average});
    step_.add_op(OpKind::add, {average, x}, {average});
  }

  [[nodiscard]] TensorId state_of(const Shape& shape, DataType type = DataType::f32) {
    return step_.new_tensor(shape, type, TensorRole::optimizer_state);
  }

  [[nodiscard]] static Shape without(const Shape& shape, std::size_t axis) {
    std::vector<std::int64_t> sizes(shape.begin(), shape.end());
    sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(axis));
    return Shape(sizes);
  }

  /// One kernel for all parameters.
  void fused(OpKind kind, int states, bool reads_steps) {
    fused(kind, states, reads_steps, step_.parameters(), step_.gradients());
  }

  void fused(OpKind kind, int states, bool reads_steps, const Tensors& parameters, const Tensors& gradients) {
    Tensors read = parameters;
    Tensors written = read;
    read.insert(read.end(), gradients.begin(), gradients.end());
    for (int i = 0; i < states; ++i) {
      const Tensors state = new_state(parameters);
      read.insert(read.end(), state.begin(), state.end());
      written.insert(written.end(), state.begin(), state.end());
    }
    if (reads_steps) read.push_back(steps_);
    if (step_.scales_loss()) read.push_back(step_.found_inf());
    step_.add_op(kind, read, written);
  }

  /// Without a fused kernel: grouped operators, each of which goes through all parameters before the next one starts.
  void rmsprop() {
    clear_infinities();
    const Tensors square = new_state();
    decay(square);
    in_place(OpKind::addcmul, square, step_.gradients(), step_.gradients());
    const Tensors root = apply(OpKind::sqrt, square);
    in_place(OpKind::add, root);
    in_place(OpKind::addcdiv, step_.parameters(), step_.gradients(), root);
  }

  void adadelta() {
    clear_infinities();
    const Tensors square = new_state();
    const Tensors moved = new_state();
    decay(square);
    in_place(OpKind::addcmul, square, step_.gradients(), step_.gradients());
    const Tensors update = apply(OpKind::add, moved);
    in_place(OpKind::sqrt, update);
    const Tensors root = apply(OpKind::add, square);
    in_place(OpKind::sqrt, root);
    in_place(OpKind::div, update, root);
    in_place(OpKind::mul, update, step_.gradients());
    decay(moved);
    in_place(OpKind::addcmul, moved, update, update);
    in_place(OpKind::add, step_.parameters(), update);
  }

  /// torch.amp.GradScaler: the host reads the flag, because no kernel of PyTorch's foreach updates does.
  void check_for_infinities() {
    if (step_.scales_loss()) step_.apply(OpKind::fill, {step_.found_inf()});
  }

  /// No kernel of these updates reads the flag of infinities: gradients become zeros where it is set.
  void clear_infinities() {
    if (!step_.scales_loss()) return;
    const TensorId flag = step_.cast(step_.found_inf(), DataType::u8);
    for (const TensorId gradient : step_.gradients()) step_.add_op(OpKind::masked_fill, {gradient, flag}, {gradient});
  }

  /// Multiplies sums by a rate; if gradients are scaled, by a tensor that is 1 where the flag is set.
  void decay(const Tensors& sums) {
    if (!step_.scales_loss()) return in_place(OpKind::mul, sums);
    const TensorId rate = step_.apply(OpKind::mul, {step_.found_inf()});
    step_.add_op(OpKind::add, {rate}, {rate});
    for (const TensorId sum : sums) step_.add_op(OpKind::mul, {sum, rate}, {sum});
  }

  /// A new tensor for each parameter.
  Tensors new_state() { return new_state(step_.parameters()); }
  Tensors new_state(const Tensors& parameters) {
    Tensors state;
    for (const TensorId p : parameters) state.push_back(step_.new_like(p, TensorRole::optimizer_state));
    return state;
  }

  template <class... Lists>
  void in_place(OpKind kind, const Tensors& self, const Lists&... others) {
    for (std::size_t i = 0; i < self.size(); ++i) step_.add_op(kind, {self[i], others[i]...}, {self[i]});
  }

  Tensors apply(OpKind kind, const Tensors& inputs) {
    Tensors results;
    for (const TensorId input : inputs) results.push_back(step_.apply(kind, {input}));
    return results;
  }

  StepWriter& step_;
  TensorId steps_ = no_tensor;
};

}  // namespace

void add_optimizer_update(StepWriter& step, Optimizer optimizer, OptimizerImpl impl) {
  if (optimizer == Optimizer::none || step.parameters().empty()) return;
  if (impl == OptimizerImpl::foreach) {
    Update(step).run_foreach(optimizer);
  } else {
    Update(step).run(optimizer);
  }
}

}  // namespace perfpred
