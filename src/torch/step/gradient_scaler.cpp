// SPDX-License-Identifier: Apache-2.0
#include "torch/step/gradient_scaler.h"

#include <ATen/TensorOperators.h>
#include <ATen/ops/_amp_foreach_non_finite_check_and_unscale.h>
#include <ATen/ops/_amp_update_scale.h>
#include <ATen/ops/full.h>
#include <ATen/ops/zeros.h>

namespace perfpred {
namespace {

// torch.amp.GradScaler's defaults.
constexpr double first_scale = 65'536;
constexpr double scale_growth = 2;
constexpr double scale_backoff = 0.5;
constexpr std::int64_t scale_growth_interval = 2'000;

}  // namespace

GradientScaler::GradientScaler(c10::Device device) {
  const auto scalar = at::TensorOptions().device(device).dtype(at::kFloat);
  scale_ = at::full({}, first_scale, scalar);
  growth_ = at::zeros({}, scalar.dtype(at::kInt));
  found_inf_ = at::zeros({}, scalar);
}

at::Tensor GradientScaler::scaled(const at::Tensor& loss) const { return loss * scale_; }

const at::Tensor& GradientScaler::unscale(const std::vector<at::Tensor>& gradients) {
  found_inf_.zero_();
  at::_amp_foreach_non_finite_check_and_unscale_(gradients, found_inf_, scale_.reciprocal());
  return found_inf_;
}

void GradientScaler::update() {
  at::_amp_update_scale_(scale_, growth_, found_inf_, scale_growth, scale_backoff, scale_growth_interval);
}

NamedTensors GradientScaler::state() const { return {{"scale", scale_}, {"growth", growth_}}; }

}  // namespace perfpred
