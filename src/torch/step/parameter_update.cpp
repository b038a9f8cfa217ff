// SPDX-License-Identifier: Apache-2.0
#include "torch/step/parameter_update.h"

#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_foreach_add.h>
#include <ATen/ops/_foreach_addcdiv.h>
#include <ATen/ops/_foreach_addcmul.h>
#include <ATen/ops/_foreach_div.h>
#include <ATen/ops/_foreach_mul.h>
#include <ATen/ops/_foreach_sqrt.h>
#include <ATen/ops/_fused_adagrad.h>
#include <ATen/ops/_fused_adam.h>
#include <ATen/ops/_fused_adamw.h>
#include <ATen/ops/_fused_sgd.h>
#include <ATen/ops/zeros.h>
#include <ATen/ops/zeros_like.h>

#include <fmt/format.h>

namespace perfpred {
namespace {

// torch::optim's defaults.
constexpr double beta1 = 0.9;
constexpr double beta2 = 0.999;
constexpr double adam_epsilon = 1e-8;
constexpr double sgd_momentum = 0.9;
constexpr double adagrad_epsilon = 1e-10;
constexpr double rmsprop_alpha = 0.99;
constexpr double rmsprop_epsilon = 1e-8;
constexpr double adadelta_rho = 0.9;
constexpr double adadelta_epsilon = 1e-6;

/// Multiplies all by `rate`, or by 1 if found_inf is 1.
void decay(std::vector<at::Tensor>& sums, double rate, const std::optional<at::Tensor>& found_inf) {
  if (found_inf) {
    at::_foreach_mul_(sums, found_inf->mul(1 - rate).add_(rate));
  } else {
    at::_foreach_mul_(sums, rate);
  }
}

}  // namespace

double default_learning_rate(Optimizer optimizer) {
  switch (optimizer) {
    case Optimizer::sgd:
    case Optimizer::nesterov:
    case Optimizer::adagrad:
      return 1e-2;
    case Optimizer::adadelta:
      return 1;
    case Optimizer::none:
      return 0;
    default:
      return 1e-3;
  }
}

ParameterUpdate::ParameterUpdate(Optimizer optimizer, std::vector<at::Tensor> parameters, double weight_decay)
    : optimizer_(optimizer), parameters_(std::move(parameters)), weight_decay_(weight_decay) {
  const at::NoGradGuard no_grad;
  const bool one = optimizer != Optimizer::none && optimizer != Optimizer::sgd;
  const bool two = optimizer == Optimizer::adam || optimizer == Optimizer::adamw || optimizer == Optimizer::adadelta;
  for (const at::Tensor& parameter : parameters_) {
    if (one) first_.push_back(at::zeros_like(parameter));
    if (two) second_.push_back(at::zeros_like(parameter));
  }
  if (!parameters_.empty()) count_ = at::zeros({}, parameters_.front().options().dtype(at::kFloat));
}

std::vector<at::Tensor> ParameterUpdate::gradients() const {
  std::vector<at::Tensor> gradients;
  gradients.reserve(parameters_.size());
  for (const at::Tensor& parameter : parameters_) {
    const at::Tensor& gradient = parameter.grad();
    gradients.push_back(gradient.defined() ? gradient : at::zeros_like(parameter));
  }
  return gradients;
}

void ParameterUpdate::clear_gradients() {
  for (const at::Tensor& parameter : parameters_) parameter.mutable_grad().reset();
}

void ParameterUpdate::step(double learning_rate, const std::optional<at::Tensor>& found_inf) {
  if (optimizer_ == Optimizer::none || parameters_.empty()) return;
  const at::NoGradGuard no_grad;
  const std::vector<at::Tensor> gradients = this->gradients();
  count_.add_(1);
  const std::vector<at::Tensor> counts(parameters_.size(), count_);
  switch (optimizer_) {
    case Optimizer::adam:
      at::_fused_adam_(parameters_, gradients, first_, second_, {}, counts, learning_rate, beta1, beta2, weight_decay_,
                       adam_epsilon, false, false, {}, found_inf);
      break;
    case Optimizer::adamw:
      at::_fused_adamw_(parameters_, gradients, first_, second_, {}, counts, learning_rate, beta1, beta2, weight_decay_,
                        adam_epsilon, false, false, {}, found_inf);
      break;
    case Optimizer::sgd:
    case Optimizer::nesterov:
      // A first step from a momentum of zeros is the first step.
      at::_fused_sgd_(parameters_, gradients, first_, weight_decay_, first_.empty() ? 0 : sgd_momentum, learning_rate,
                      0, !first_.empty(), false, false, {}, found_inf);
      break;
    case Optimizer::adagrad:
      at::_fused_adagrad_(parameters_, gradients, first_, counts, learning_rate, 0, weight_decay_, adagrad_epsilon,
                          false, {}, found_inf);
      break;
    default: {
      auto decayed = gradients;
      if (weight_decay_ != 0) decayed = at::_foreach_add(gradients, parameters_, weight_decay_);
      if (found_inf) {  // These have no kernel that looks at it: with zeros and without decay nothing changes.
        const at::Tensor skipped = found_inf->to(at::kBool);
        for (at::Tensor& gradient : decayed) gradient.masked_fill_(skipped, 0);
      }
      if (optimizer_ == Optimizer::rmsprop) {
        rmsprop(learning_rate, decayed, found_inf);
      } else {
        adadelta(learning_rate, decayed, found_inf);
      }
    }
  }
  if (found_inf) count_.sub_(*found_inf);
}

void ParameterUpdate::rmsprop(double learning_rate, const std::vector<at::Tensor>& gradients,
                              const std::optional<at::Tensor>& found_inf) {
  decay(first_, rmsprop_alpha, found_inf);
  at::_foreach_addcmul_(first_, gradients, gradients, 1 - rmsprop_alpha);
  auto root = at::_foreach_sqrt(first_);
  at::_foreach_add_(root, rmsprop_epsilon);
  at::_foreach_addcdiv_(parameters_, gradients, root, -learning_rate);
}

void ParameterUpdate::adadelta(double learning_rate, const std::vector<at::Tensor>& gradients,
                               const std::optional<at::Tensor>& found_inf) {
  decay(first_, adadelta_rho, found_inf);
  at::_foreach_addcmul_(first_, gradients, gradients, 1 - adadelta_rho);
  auto update = at::_foreach_add(second_, adadelta_epsilon);
  at::_foreach_sqrt_(update);
  auto root = at::_foreach_add(first_, adadelta_epsilon);
  at::_foreach_sqrt_(root);
  at::_foreach_div_(update, root);
  at::_foreach_mul_(update, gradients);
  decay(second_, adadelta_rho, found_inf);
  at::_foreach_addcmul_(second_, update, update, 1 - adadelta_rho);
  at::_foreach_add_(parameters_, update, -learning_rate);
}

NamedTensors ParameterUpdate::state() const {
  NamedTensors state;
  for (std::size_t i = 0; i < first_.size(); ++i) state.emplace_back(fmt::format("first.{}", i), first_[i]);
  for (std::size_t i = 0; i < second_.size(); ++i) state.emplace_back(fmt::format("second.{}", i), second_[i]);
  if (count_.defined()) state.emplace_back("count", count_);
  return state;
}

}  // namespace perfpred
