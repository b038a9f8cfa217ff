// SPDX-License-Identifier: Apache-2.0
#include "step/executed_op.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <utility>

namespace perfpred {
namespace {

// Operators whose name in LibTorch differs from the name of their kind.
constexpr std::array<std::pair<std::string_view, OpKind>, 73> kinds_by_name = {{
    {"_convolution", OpKind::convolution},
    {"addbmm", OpKind::baddbmm},
    {"native_batch_norm", OpKind::batch_norm},
    {"_native_batch_norm_legit", OpKind::batch_norm},
    {"native_batch_norm_backward", OpKind::batch_norm_backward},
    {"native_layer_norm", OpKind::layer_norm},
    {"native_layer_norm_backward", OpKind::layer_norm_backward},
    {"_fused_rms_norm", OpKind::rms_norm},
    {"_fused_rms_norm_backward", OpKind::rms_norm_backward},
    {"_cudnn_rnn", OpKind::rnn},
    {"_cudnn_rnn_backward", OpKind::rnn_backward},
    {"mkldnn_rnn_layer", OpKind::rnn},
    {"mkldnn_rnn_layer_backward", OpKind::rnn_backward},
    {"native_group_norm", OpKind::group_norm},
    {"native_group_norm_backward", OpKind::group_norm_backward},
    {"_softmax", OpKind::softmax},
    {"_safe_softmax", OpKind::softmax},
    {"_softmax_backward_data", OpKind::softmax_backward},
    {"_log_softmax", OpKind::log_softmax},
    {"_log_softmax_backward_data", OpKind::log_softmax_backward},
    {"nll_loss_forward", OpKind::nll_loss},
    {"nll_loss2d_forward", OpKind::nll_loss},
    {"nll_loss2d_backward", OpKind::nll_loss_backward},
    {"max_pool2d_with_indices", OpKind::max_pool2d},
    {"max_pool2d_with_indices_backward", OpKind::max_pool2d_backward},
    {"_adaptive_avg_pool2d", OpKind::adaptive_avg_pool2d},
    {"_adaptive_avg_pool2d_backward", OpKind::adaptive_avg_pool2d_backward},
    {"_embedding_bag", OpKind::embedding},
    {"_embedding_bag_backward", OpKind::embedding_backward},
    {"_embedding_bag_dense_backward", OpKind::embedding_backward},
    {"embedding_dense_backward", OpKind::embedding_backward},
    {"clone", OpKind::copy},
    {"_to_copy", OpKind::copy},
    {"_reshape_copy", OpKind::copy},
    {"view_copy", OpKind::copy},
    {"zeros", OpKind::fill},
    {"zeros_like", OpKind::fill},
    {"zero", OpKind::fill},
    {"ones", OpKind::fill},
    {"ones_like", OpKind::fill},
    {"full", OpKind::fill},
    {"full_like", OpKind::fill},
    {"new_zeros", OpKind::fill},
    {"new_ones", OpKind::fill},
    {"new_full", OpKind::fill},
    {"scalar_tensor", OpKind::fill},
    {"arange", OpKind::fill},
    {"linspace", OpKind::fill},
    {"eye", OpKind::fill},
    {"normal", OpKind::bernoulli},
    {"uniform", OpKind::bernoulli},
    {"random", OpKind::bernoulli},
    {"randint", OpKind::bernoulli},
    {"randint_like", OpKind::bernoulli},
    {"randperm", OpKind::bernoulli},
    {"rand", OpKind::bernoulli},
    {"randn", OpKind::bernoulli},
    {"rand_like", OpKind::bernoulli},
    {"randn_like", OpKind::bernoulli},
    {"_fused_sgd", OpKind::fused_sgd},
    {"_fused_adam", OpKind::fused_adam},
    {"_fused_adamw", OpKind::fused_adamw},
    {"_fused_adagrad", OpKind::fused_adagrad},
    {"_amp_foreach_non_finite_check_and_unscale", OpKind::unscale_gradients},
    {"_amp_update_scale", OpKind::update_scale},
    {"_scaled_dot_product_flash_attention", OpKind::attention},
    {"_scaled_dot_product_flash_attention_backward", OpKind::attention_backward},
    {"_scaled_dot_product_efficient_attention", OpKind::attention},
    {"_scaled_dot_product_efficient_attention_backward", OpKind::attention_backward},
    {"_scaled_dot_product_cudnn_attention", OpKind::attention},
    {"_scaled_dot_product_cudnn_attention_backward", OpKind::attention_backward},
    {"_scaled_dot_product_flash_attention_for_cpu", OpKind::attention},
    {"_scaled_dot_product_flash_attention_for_cpu_backward", OpKind::attention_backward},
}};

// Operators of about one FLOP per element that have no kind of their own and that LibTorch does not mark as pointwise.
constexpr std::string_view others =
    " amax amin aminmax argmax argmin max min prod var var_mean std std_mean norm linalg_vector_norm logsumexp nansum "
    "cumsum cumprod logcumsumexp _cummax_helper _cummin_helper any all count_nonzero index index_put _index_put_impl "
    "index_select index_add index_copy index_fill index_reduce gather scatter scatter_add scatter_reduce slice_scatter "
    "select_scatter masked_select masked_scatter masked_scatter_backward nonzero sort topk kthvalue searchsorted "
    "bucketize bincount multinomial flip roll repeat repeat_interleave stack tril triu im2col col2im "
    "unfold_backward pixel_shuffle pixel_unshuffle channel_shuffle one_hot constant_pad_nd "
    "reflection_pad1d reflection_pad1d_backward reflection_pad2d reflection_pad2d_backward reflection_pad3d "
    "reflection_pad3d_backward replication_pad1d replication_pad1d_backward replication_pad2d "
    "replication_pad2d_backward replication_pad3d replication_pad3d_backward avg_pool3d avg_pool3d_backward "
    "max_pool3d_with_indices max_pool3d_with_indices_backward adaptive_max_pool2d adaptive_max_pool2d_backward "
    "adaptive_max_pool3d adaptive_max_pool3d_backward _adaptive_avg_pool3d _adaptive_avg_pool3d_backward max_unpool2d "
    "max_unpool3d grid_sampler_2d grid_sampler_2d_backward grid_sampler_3d grid_sampler_3d_backward "
    "affine_grid_generator mse_loss mse_loss_backward smooth_l1_loss smooth_l1_loss_backward huber_loss "
    "huber_loss_backward binary_cross_entropy binary_cross_entropy_backward binary_cross_entropy_with_logits "
    "soft_margin_loss soft_margin_loss_backward multi_margin_loss multi_margin_loss_backward "
    "multilabel_margin_loss_forward multilabel_margin_loss_backward _ctc_loss _ctc_loss_backward _cdist_forward "
    "_cdist_backward _pdist_forward _pdist_backward log_sigmoid_forward log_sigmoid_backward glu glu_backward "
    "elu_backward "
    "leaky_relu leaky_relu_backward softplus_backward rrelu_with_noise rrelu_with_noise_backward _prelu_kernel "
    "_prelu_kernel_backward _masked_softmax _weight_norm_interface _weight_norm_interface_backward "
    "_thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell _thnn_fused_gru_cell_backward "
    "batch_norm_stats batch_norm_elemt batch_norm_gather_stats_with_counts batch_norm_backward_reduce "
    "batch_norm_backward_elemt "
    // LibTorch marks these as pointwise, but not their in-place forms.
    "abs celu elu selu mish hardsigmoid threshold eq ne lt le gt ge copysign heaviside xlogy gcd lcm ";

// Operators that neither compute nor move anything.
constexpr std::string_view free_names =
    " empty empty_like empty_strided new_empty new_empty_strided _unsafe_view _reshape_alias unsafe_split "
    "unsafe_split_with_sizes unsafe_chunk detach lift lift_fresh resize as_strided set squeeze unsqueeze t "
    "transpose ";

/// @param words  with a space before and behind each
bool is_in(std::string_view words, std::string_view name) {
  return words.find(fmt::format(" {} ", name)) != std::string_view::npos;
}

/// The operators of torch.nn.functional.interpolate.
bool resizes(std::string_view name) { return name.starts_with("upsample_") || name.starts_with("_upsample_"); }

}  // namespace

OpKind kind_of_name(std::string_view name) {
  const auto* found =
      std::find_if(kinds_by_name.begin(), kinds_by_name.end(), [&](const auto& entry) { return entry.first == name; });
  if (found != kinds_by_name.end()) return found->second;
  for (auto kind = static_cast<int>(OpKind::unknown) + 1; kind < static_cast<int>(OpKind::other); ++kind) {
    if (to_string(static_cast<OpKind>(kind)) == name) return static_cast<OpKind>(kind);
  }
  return is_in(others, name) || resizes(name) ? OpKind::other : OpKind::unknown;
}

bool computes_nothing(std::string_view name) { return is_in(free_names, name); }

Shape Strided::stored() const {
  if (sizes.size() > Shape::max_rank) return Shape({numel()});
  std::array<std::int64_t, Shape::max_rank> stored{};
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    stored[axis] = strides[axis] == 0 && sizes[axis] > 1 ? 1 : sizes[axis];
  }
  return Shape(std::span<const std::int64_t>(stored.data(), sizes.size()));
}

std::int64_t Strided::numel() const {
  const std::int64_t elements = Shape::product(sizes);
  if (elements > Shape::max_numel) throw InputError("a tensor is too large for any device");
  return elements;
}

double repetitions(OpKind kind, std::span<const Strided> inputs, std::span<const Strided> outputs, bool transposed) {
  const auto ratio = [](std::int64_t whole, std::int64_t stored) {
    return stored > 0 ? static_cast<double>(whole) / static_cast<double>(stored) : 1;
  };
  const bool backward = kind == OpKind::convolution_backward;
  if (kind == OpKind::convolution || backward) {
    if (!backward && !transposed) return 1;
    const Strided& counted = inputs[backward && transposed ? 1 : 0];
    return ratio(counted.numel(), counted.stored().numel());
  }
  if (kind >= OpKind::attention || !is_conv_or_matmul(kind)) return 1;
  const Strided& left = inputs[kind == OpKind::mm || kind == OpKind::bmm ? 0 : 1];
  const Shape stored = left.stored();
  const bool summed = outputs[0].sizes.size() < left.sizes.size();  // addbmm
  return ratio(left.sizes.back(), stored.back()) * (summed ? ratio(left.sizes[0], stored[0]) : 1);
}

}  // namespace perfpred
