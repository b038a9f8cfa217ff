// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "step/step_builder.h"

namespace perfpred {
namespace {

using Tensors = std::vector<TensorId>;

/// The update of one optimizer. Constants (rates, decays) are arguments of its operators, not tensors.
class Update {
 public:
  explicit Update(StepBuilder& step) : step_(step) {}

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
    if (optimizer == Optimizer::nesterov) {
      in_place(OpKind::mul, moment);
      in_place(OpKind::add, moment, gradients);
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
    }
  }

  /// One kernel for all parameters.
  void fused(OpKind kind, int states, bool reads_steps) {
    Tensors read = step_.parameters();
    Tensors written = read;
    read.insert(read.end(), step_.gradients().begin(), step_.gradients().end());
    for (int i = 0; i < states; ++i) {
      const Tensors state = new_state();
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
  Tensors new_state() {
    Tensors state;
    for (const TensorId p : step_.parameters()) state.push_back(step_.new_like(p, TensorRole::optimizer_state));
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

  StepBuilder& step_;
  TensorId steps_ = no_tensor;
};

}  // namespace

void add_optimizer_update(StepBuilder& step, Optimizer optimizer, OptimizerImpl impl) {
  if (optimizer == Optimizer::none || step.parameters().empty()) return;
  if (impl == OptimizerImpl::foreach) {
    Update(step).run_foreach(optimizer);
  } else {
    Update(step).run(optimizer);
  }
}

}  // namespace perfpred
