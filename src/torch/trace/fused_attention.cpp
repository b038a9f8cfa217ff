// SPDX-License-Identifier: Apache-2.0
#include "torch/trace/fused_attention.h"

#include <ATen/core/Tensor.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/_scaled_dot_product_efficient_attention.h>
#include <ATen/ops/pad.h>
#include <ATen/ops/scalar_tensor.h>
#include <ATen/ops/where.h>

#include <array>
#include <limits>
#include <optional>

namespace perfpred {
namespace {

constexpr std::int64_t alignment = 16;  // of the rows of a bias, in elements

/// The mask as what is added to q k^T, with a row for each query of each head.
at::Tensor bias_of(at::Tensor mask, const at::Tensor& q, const at::Tensor& k) {
  if (mask.scalar_type() == at::kBool) {
    mask = at::where(mask, 0.0, at::scalar_tensor(-std::numeric_limits<double>::infinity(), q.options()));
  }
  const std::int64_t keys = mask.size(-1), rest = keys % alignment;
  if (rest != 0) mask = at::pad(mask, {0, alignment - rest}).slice(-1, 0, keys);
  return mask.expand({q.size(0), q.size(1), q.size(2), k.size(2)});
}

}  // namespace

bool call_fused_attention(torch::jit::Stack& stack, std::size_t begin) {
  const at::Tensor q = stack[begin].toTensor(), k = stack[begin + 1].toTensor(), v = stack[begin + 2].toTensor();
  const auto mask = stack[begin + 3].toOptional<at::Tensor>();
  const double dropout = stack[begin + 4].toDouble();
  const bool causal = stack[begin + 5].toBool();
  const auto scale = stack[begin + 6].toOptional<double>();
  if (q.dim() != 4 || !q.is_floating_point() || (mask && causal)) return false;
  bool gradients = false;
  for (const at::Tensor* operand : {&q, &k, &v}) {
    if (operand->dim() != 4 || operand->scalar_type() != q.scalar_type()) return false;
    gradients = gradients || operand->requires_grad();
  }
  const std::optional<at::Tensor> bias = mask ? std::optional(bias_of(*mask, q, k)) : std::nullopt;
  at::Tensor result = std::get<0>(at::_scaled_dot_product_efficient_attention(
      q, k, v, bias, gradients && at::GradMode::is_enabled(), dropout, causal, scale));
  stack.resize(begin);
  stack.emplace_back(std::move(result));
  return true;
}

}  // namespace perfpred
