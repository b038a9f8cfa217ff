// SPDX-License-Identifier: Apache-2.0
#include <vector>

#include "step/step_builder.h"

namespace perfpred {
namespace {

/// The update of one optimizer. Constants (rates, decays) are arguments of its operators, not tensors.
class Update {
 public:
  explicit Update(StepBuilder& step) : step_(step), learned_(step.learned()) {
    steps_ = step.new_tensor({}, DataType::f32, TensorRole::optimizer_state);
    step.add_op(OpKind::add, {steps_}, {steps_});
  }

  void run(Optimizer optimizer) {
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
      case Optimizer::rmsprop:
        rmsprop();
        break;
      case Optimizer::adadelta:
        adadelta();
        break;
    }
    if (step_.scales_loss()) step_.add_op(OpKind::sub, {steps_, step_.found_inf()}, {steps_});
  }

 private:
  using Tensors = std::vector<TensorId>;

  /// A new state tensor for each parameter.
  Tensors new_states() {
    Tensors states;
    states.reserve(learned_.size());
    for (const LearnedTensor& p : learned_) states.push_back(step_.new_like(p.weight, TensorRole::optimizer_state));
    return states;
  }

  /// One kernel for all parameters.
  void fused(OpKind kind, int states, bool reads_steps) {
    Tensors read;
    for (const LearnedTensor& p : learned_) read.push_back(p.weight);
    Tensors written = read;
    for (const LearnedTensor& p : learned_) read.push_back(p.gradient);
    for (int i = 0; i < states; ++i) {
      const Tensors made = new_states();
      read.insert(read.end(), made.begin(), made.end());
      written.insert(written.end(), made.begin(), made.end());
    }
    if (reads_steps) read.push_back(steps_);
    if (step_.scales_loss()) read.push_back(step_.found_inf());
    step_.add_op(kind, read, written);
  }

  /// A grouped operator: it goes through all parameters before the next one starts.
  template <class Operation>
  void for_each(const Operation& operation) {
    for (std::size_t i = 0; i < learned_.size(); ++i) operation(i);
  }
  void in_place(OpKind kind, const Tensors& self) {
    for_each([&](std::size_t i) { step_.add_op(kind, {self[i]}, {self[i]}); });
  }
  void in_place(OpKind kind, const Tensors& self, const Tensors& other) {
    for_each([&](std::size_t i) { step_.add_op(kind, {self[i], other[i]}, {self[i]}); });
  }
  Tensors apply(OpKind kind, const Tensors& self) {
    Tensors results(self.size());
    for_each([&](std::size_t i) { results[i] = step_.apply(kind, {self[i]}); });
    return results;
  }
  void add_square(const Tensors& self, const Tensors& other) {
    for_each([&](std::size_t i) { step_.add_op(OpKind::addcmul, {self[i], other[i], other[i]}, {self[i]}); });
  }

  /// Without a kernel that reads the flag, the host compares it with zero.
  void check_for_infinities() {
    if (step_.scales_loss()) step_.apply(OpKind::fill, {step_.found_inf()});
  }

  void rmsprop() {
    check_for_infinities();
    const Tensors square = new_states();
    in_place(OpKind::mul, square);
    add_square(square, gradients());
    const Tensors root = apply(OpKind::sqrt, square);
    in_place(OpKind::add, root);
    for_each([&](std::size_t i) {
      step_.add_op(OpKind::addcdiv, {learned_[i].weight, learned_[i].gradient, root[i]}, {learned_[i].weight});
    });
  }

  void adadelta() {
    check_for_infinities();
    const Tensors square = new_states();
    const Tensors moved = new_states();
    in_place(OpKind::mul, square);
    add_square(square, gradients());
    const Tensors update = apply(OpKind::add, moved);
    in_place(OpKind::sqrt, update);
    const Tensors root = apply(OpKind::add, square);
    in_place(OpKind::sqrt, root);
    in_place(OpKind::div, update, root);
    in_place(OpKind::mul, update, gradients());
    in_place(OpKind::mul, moved);
    add_square(moved, update);
    in_place(OpKind::add, weights(), update);
  }

  [[nodiscard]] Tensors weights() const {
    Tensors list;
    for (const LearnedTensor& p : learned_) list.push_back(p.weight);
    return list;
  }
  [[nodiscard]] Tensors gradients() const {
    Tensors list;
    for (const LearnedTensor& p : learned_) list.push_back(p.gradient);
    return list;
  }

  StepBuilder& step_;
  std::span<const LearnedTensor> learned_;
  TensorId steps_ = no_tensor;
};

}  // namespace

void add_optimizer_update(StepBuilder& step, Optimizer optimizer) {
  if (optimizer != Optimizer::none && !step.learned().empty()) Update(step).run(optimizer);
}

}  // namespace perfpred
