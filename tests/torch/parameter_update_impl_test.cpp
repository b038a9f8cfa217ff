// SPDX-License-Identifier: Apache-2.0
#include "torch/step/parameter_update.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/optim/adagrad.h>
#include <torch/optim/adam.h>
#include <torch/optim/adamw.h>
#include <torch/optim/rmsprop.h>
#include <torch/optim/sgd.h>

#include <cmath>
#include <functional>
#include <limits>
#include <memory>
#include <vector>

namespace perfpred {
namespace {

/// The same gradients for both, several steps; parameters must stay together.
void expect_like(Optimizer kind, double rate, double decay,
                 const std::function<std::unique_ptr<torch::optim::Optimizer>(std::vector<at::Tensor>)>& make) {
  at::manual_seed(1);
  const std::vector<at::Tensor> ours = {at::randn({7, 3}).requires_grad_(), at::randn({5}).requires_grad_()};
  std::vector<at::Tensor> theirs;
  for (const at::Tensor& p : ours) theirs.push_back(p.detach().clone().requires_grad_());
  ParameterUpdate update(kind, ours, decay);
  const auto optimizer = make(theirs);
  for (int step = 0; step < 5; ++step) {
    for (std::size_t i = 0; i < ours.size(); ++i) {
      const at::Tensor gradient = at::randn_like(ours[i]);
      ours[i].mutable_grad() = gradient;
      theirs[i].mutable_grad() = gradient.clone();
    }
    update.step(rate);
    optimizer->step();
    for (std::size_t i = 0; i < ours.size(); ++i) {
      EXPECT_TRUE(at::allclose(ours[i], theirs[i], 1e-5, 1e-6)) << to_string(kind) << " step " << step;
    }
  }
}

TEST(ParameterUpdate, IsTorchOptims) {
  using namespace torch::optim;
  for (const double decay : {0.0, 0.01}) {
    expect_like(Optimizer::adam, 0.01, decay,
                [&](auto p) { return std::make_unique<Adam>(p, AdamOptions(0.01).weight_decay(decay)); });
    expect_like(Optimizer::adamw, 0.01, decay,
                [&](auto p) { return std::make_unique<AdamW>(p, AdamWOptions(0.01).weight_decay(decay)); });
    expect_like(Optimizer::sgd, 0.1, decay,
                [&](auto p) { return std::make_unique<SGD>(p, SGDOptions(0.1).weight_decay(decay)); });
    expect_like(Optimizer::nesterov, 0.1, decay, [&](auto p) {
      return std::make_unique<SGD>(p, SGDOptions(0.1).momentum(0.9).nesterov(true).weight_decay(decay));
    });
    expect_like(Optimizer::adagrad, 0.1, decay,
                [&](auto p) { return std::make_unique<Adagrad>(p, AdagradOptions(0.1).weight_decay(decay)); });
    expect_like(Optimizer::rmsprop, 0.01, decay,
                [&](auto p) { return std::make_unique<RMSprop>(p, RMSpropOptions(0.01).weight_decay(decay)); });
  }
}

TEST(ParameterUpdate, AdadeltaIsItsDefinition) {
  // Zeiler 2012, rho 0.9, epsilon 1e-6, one parameter, by hand.
  const at::Tensor p = at::full({1}, 1.0, at::kDouble).requires_grad_();
  ParameterUpdate update(Optimizer::adadelta, {p});
  double x = 1;
  double squares = 0;
  double updates = 0;
  for (const double g : {0.5, -0.3, 0.2}) {
    p.mutable_grad() = at::full({1}, g, at::kDouble);
    update.step(1);
    squares = 0.9 * squares + 0.1 * g * g;
    const double d = std::sqrt(updates + 1e-6) / std::sqrt(squares + 1e-6) * g;
    updates = 0.9 * updates + 0.1 * d * d;
    x -= d;
    EXPECT_NEAR(p.item<double>(), x, 1e-12);
  }
}

TEST(ParameterUpdate, SkipsAStepWhereAGradientIsNotFinite) {
  for (const Optimizer kind : {Optimizer::sgd, Optimizer::nesterov, Optimizer::adam, Optimizer::adamw,
                               Optimizer::adagrad, Optimizer::rmsprop, Optimizer::adadelta}) {
    for (const double decay : {0.0, 0.01}) {
      SCOPED_TRACE(to_string(kind));
      at::manual_seed(1);
      const at::Tensor told = at::ones({4}).requires_grad_();   // of infinities by a tensor on the device
      const at::Tensor other = at::ones({4}).requires_grad_();  // the host leaves these steps out
      ParameterUpdate update(kind, {told}, decay);
      ParameterUpdate without(kind, {other}, decay);
      for (int step = 0; step < 6; ++step) {
        const bool finite = step % 2 == 1;
        const at::Tensor gradient = at::randn({4});
        told.mutable_grad() = gradient.clone();
        if (!finite) {
          told.mutable_grad()[1] = std::numeric_limits<float>::quiet_NaN();
          told.mutable_grad()[2] = std::numeric_limits<float>::infinity();
        }
        update.step(0.1, finite ? at::zeros({}) : at::ones({}));
        if (finite) {
          other.mutable_grad() = gradient.clone();
          without.step(0.1);
        }
        EXPECT_TRUE(at::equal(told, other)) << step;
        const auto left = update.state();
        const auto right = without.state();
        for (std::size_t i = 0; i < left.size(); ++i) {
          EXPECT_TRUE(at::equal(left[i].second, right[i].second)) << step << ' ' << left[i].first;
        }
      }
      EXPECT_FALSE(at::equal(told.detach(), at::ones({4})));
    }
  }
}

}  // namespace
}  // namespace perfpred
