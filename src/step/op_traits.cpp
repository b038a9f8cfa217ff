// SPDX-License-Identifier: Apache-2.0
#include "step/op_traits.h"

#include <algorithm>
#include <array>

#include "text/enum_names.h"

namespace perfpred {
namespace {

std::size_t rank(const Operands& op, std::size_t i) { return op.graph.shape(op.in[i]).rank(); }
double elements(const Operands& op, TensorId id) { return static_cast<double>(op.graph.numel(id)); }
bool has_result(const Operands& op) { return !op.out.empty() && op.out[0] != no_tensor; }

// FLOPs: a multiplication and an addition are 2.

/// One for each element of the first input or the first output, whichever has more.
OpFlops element_flops(const Operands& op) {
  const double in = op.in.empty() ? 0 : elements(op, op.in[0]);
  return {std::max(in, has_result(op) ? elements(op, op.out[0]) : 0)};
}

OpFlops no_flops(const Operands&) { return {}; }

/// One for each element of an input.
template <std::size_t input>
OpFlops input_flops(const Operands& op) {
  return {elements(op, op.in[input])};
}

/// Of an optimizer that writes so many `copies` for each parameter: the parameter itself and its state.
template <int per_parameter, int copies>
OpFlops update_flops(const Operands& op) {
  std::int64_t written = 0;
  for (const TensorId id : op.out) written += op.graph.numel(id);
  return {static_cast<double>(written) * per_parameter / copies};
}

/// Multiply-adds for one output element of a convolution: input channels of a group times the kernel's area. For one
/// element of the image if the convolution is transposed.
double taps(const Shape& weight) { return static_cast<double>(weight.numel()) / static_cast<double>(weight[0]); }

OpFlops convolution_flops(const Operands& op) {
  return {2 * elements(op, op.transposed ? op.in[0] : op.out[0]) * taps(op.graph.shape(op.in[1]))};
}

OpFlops convolution_backward_flops(const Operands& op) {
  const int gradients = (op.out[0] != no_tensor ? 1 : 0) + (op.out[1] != no_tensor ? 1 : 0);
  return {gradients * 2 * elements(op, op.in[op.transposed ? 1 : 0]) * taps(op.graph.shape(op.in[2]))};
}

/// @tparam left  the index of the first factor; of addbmm, products are summed along its first axis, too
template <std::size_t left>
OpFlops product_flops(const Operands& op) {
  const Shape& factor = op.graph.shape(op.in[left]);
  const bool summed = left > 0 && op.graph.shape(op.out[0]).rank() < factor.rank();
  return {2 * elements(op, op.out[0]) * static_cast<double>(summed ? factor[0] : 1) *
          static_cast<double>(factor.back())};
}

/// Of attention from q [.., positions, width] to k and v: products along the width of k and along that of v, so many of
/// each. FlashAttention (Dao et al. 2022), algorithms 1 and 4: forward q k^T and p v; backward computes q k^T anew, and
/// has two products for each of the two others.
template <std::size_t first, int along_keys, int along_values>
OpFlops attention_flops(const Operands& op) {
  const Shape& q = op.graph.shape(op.in[first]);
  const Shape &k = op.graph.shape(op.in[first + 1]), &v = op.graph.shape(op.in[first + 2]);
  const std::int64_t queries = q.numel() / q.back();
  const auto pairs = static_cast<double>(queries) * static_cast<double>(k[k.rank() - 2]);
  return {2 * pairs * static_cast<double>(along_keys * k.back() + along_values * v.back())};
}

/// Each weight matrix is multiplied once for each position of x [.., width]. The operands after x are weights, up to
/// the first state, which has rank 3; of each layer and direction the recurrent matrix [gates * hidden, hidden] is the
/// second one, and a projection [projected, hidden] may follow. Cells by the equations of torch.nn.LSTM, GRU and RNN,
/// one FLOP for each sum, product and function of an element; backward for each sum and function one, for each product
/// two.
template <bool is_backward>
OpFlops rnn_flops(const Operands& op) {
  struct Cell {
    double forward, backward;  // FLOPs for each element of the hidden state
  };
  constexpr Cell lstm = {13, 12}, gru = {11, 10}, plain = {2, 1};
  const Shape& x = op.graph.shape(op.in[0]);
  const double positions = x.back() > 0 ? static_cast<double>(x.numel()) / static_cast<double>(x.back()) : 0;
  double products = 0, cells = 0;
  bool recurrent = false;
  for (std::size_t i = 1; i < op.in.size() && op.graph.shape(op.in[i]).rank() < 3; ++i) {
    const Shape& weight = op.graph.shape(op.in[i]);
    if (weight.rank() != 2) {  // a bias
      recurrent = false;
      continue;
    }
    products += 2 * positions * static_cast<double>(weight.numel());
    if (recurrent) {
      const bool is_plain = weight[0] == weight[1], is_gru = weight[0] == 3 * weight[1];
      const Cell cell = is_plain ? plain : is_gru ? gru : lstm;
      const double hidden = static_cast<double>(weight[0]) / (is_plain ? 1 : is_gru ? 3 : 4);
      cells += positions * hidden * (is_backward ? cell.backward : cell.forward);
    }
    recurrent = !recurrent;
  }
  return {cells + (is_backward ? 2 : 1) * products, cells};
}

// Bytes that are read.

/// Of all operands; one that is given twice is read once.
std::int64_t all_bytes(const Operands& op) {
  std::int64_t bytes = 0;
  for (std::size_t i = 0; i < op.in.size(); ++i) {
    const auto before = op.in.first(std::min<std::size_t>(i, 4));
    if (std::find(before.begin(), before.end(), op.in[i]) == before.end()) bytes += op.graph.bytes(op.in[i]);
  }
  return bytes;
}

std::int64_t no_bytes(const Operands&) { return 0; }

/// The chosen rows, which a bag sums up, and which.
std::int64_t embedding_bytes(const Operands& op) {
  const OpGraph& graph = op.graph;
  const std::int64_t row_bytes = graph.bytes(op.in[0]) / std::max<std::int64_t>(graph.shape(op.in[0])[0], 1);
  const std::int64_t rows_bytes = Shape({graph.numel(op.in[1]), row_bytes}).numel();
  return std::max(rows_bytes, graph.bytes(op.out[0])) + graph.bytes(op.in[1]);
}

/// One element for each label.
std::int64_t nll_loss_bytes(const Operands& op) {
  const OpGraph& graph = op.graph;
  return graph.numel(op.in[1]) * size_of(graph.tensors()[op.in[0]].type) + graph.bytes(op.in[1]);
}

/// Not the probabilities.
std::int64_t nll_loss_backward_bytes(const Operands& op) {
  return op.graph.bytes(op.in[0]) + op.graph.bytes(op.in[2]) + op.graph.bytes(op.in[3]);
}

// Operands that the rules above can take.

bool always(const Operands&) { return true; }

template <std::size_t inputs>
bool has_inputs(const Operands& op) {
  return op.in.size() >= inputs;
}

bool is_filter(const Operands& op, std::size_t i) {
  return op.in.size() > i && rank(op, i) >= 2 && op.graph.shape(op.in[i])[0] > 0;
}

bool fits_convolution(const Operands& op) {
  return is_filter(op, 1) && rank(op, 0) >= 2 && has_result(op) && op.graph.shape(op.out[0]).rank() >= 2;
}

bool fits_convolution_backward(const Operands& op) {
  return is_filter(op, 2) && rank(op, 0) >= 2 && rank(op, 1) >= 2 && op.out.size() >= 2;
}

/// Two inputs, of which that at `left` has an axis, and a result.
template <std::size_t left>
bool fits_product(const Operands& op) {
  return op.in.size() >= 2 && rank(op, left) >= 1 && has_result(op);
}

template <std::size_t q>
bool fits_attention(const Operands& op) {
  return op.in.size() >= q + 3 && rank(op, q) >= 1 && op.graph.shape(op.in[q]).back() > 0 && rank(op, q + 1) >= 2 &&
         rank(op, q + 2) >= 1;
}

bool fits_rnn(const Operands& op) { return !op.in.empty() && rank(op, 0) >= 1; }

bool fits_update(const Operands& op) { return std::find(op.out.begin(), op.out.end(), no_tensor) == op.out.end(); }

constexpr CountRule element_rule = {element_flops, all_bytes, always};
constexpr CountRule result_rule = {element_flops, all_bytes, has_result};
constexpr CountRule move_rule = {no_flops, all_bytes, always};
constexpr CountRule fill_rule = {no_flops, no_bytes, always};
constexpr CountRule random_rule = {element_flops, no_bytes, always};
constexpr CountRule convolution_rule = {convolution_flops, all_bytes, fits_convolution};
constexpr CountRule convolution_backward_rule = {convolution_backward_flops, all_bytes, fits_convolution_backward};
constexpr CountRule product_rule = {product_flops<0>, all_bytes, fits_product<0>};
constexpr CountRule sum_product_rule = {product_flops<1>, all_bytes, fits_product<1>};  // with a first addend
constexpr CountRule attention_rule = {attention_flops<0, 1, 1>, all_bytes, fits_attention<0>};
constexpr CountRule attention_backward_rule = {attention_flops<1, 3, 2>, all_bytes, fits_attention<1>};
constexpr CountRule rnn_rule = {rnn_flops<false>, all_bytes, fits_rnn};
constexpr CountRule rnn_backward_rule = {rnn_flops<true>, all_bytes, fits_rnn};
constexpr CountRule nll_loss_rule = {input_flops<1>, nll_loss_bytes, has_inputs<2>};
constexpr CountRule nll_loss_backward_rule = {input_flops<2>, nll_loss_backward_bytes, has_inputs<4>};
constexpr CountRule embedding_rule = {no_flops, embedding_bytes, fits_product<0>};
constexpr CountRule embedding_backward_rule = {input_flops<0>, all_bytes, has_inputs<1>};
template <int per_parameter, int copies>
constexpr CountRule update_rule = {update_flops<per_parameter, copies>, all_bytes, fits_update};

// Operators of about one FLOP per element that have no kind of their own and that LibTorch does not mark as pointwise.
constexpr std::string_view other_names =
    "amax amin aminmax argmax argmin max min prod var var_mean std std_mean norm linalg_vector_norm logsumexp nansum "
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
    "multilabel_margin_loss_forward multilabel_margin_loss_backward _ctc_loss _ctc_loss_backward _pdist_forward "
    "_pdist_backward log_sigmoid_forward log_sigmoid_backward glu glu_backward "
    "elu_backward "
    "leaky_relu leaky_relu_backward softplus_backward rrelu_with_noise rrelu_with_noise_backward _prelu_kernel "
    "_prelu_kernel_backward _masked_softmax _weight_norm_interface _weight_norm_interface_backward "
    "_thnn_fused_lstm_cell _thnn_fused_lstm_cell_backward_impl _thnn_fused_gru_cell _thnn_fused_gru_cell_backward "
    "batch_norm_stats batch_norm_elemt batch_norm_gather_stats_with_counts batch_norm_backward_reduce "
    "batch_norm_backward_elemt "
    // LibTorch marks these as pointwise, but not their in-place forms.
    "abs celu elu selu mish hardsigmoid threshold eq ne lt le gt ge copysign heaviside xlogy gcd lcm";

using K = OpKind;
using F = OpFamily;
using G = StepGroup;

constexpr auto traits = std::to_array<OpTraits>({
    {K::unknown, F::unnamed, G::unknown, element_rule},
    {K::convolution, F::convolution, G::other, convolution_rule, "_convolution"},
    {K::convolution_backward, F::convolution, G::other, convolution_backward_rule},
    {K::addmm, F::matrix_product, G::product, sum_product_rule},
    {K::mm, F::matrix_product, G::product, product_rule},
    {K::bmm, F::matrix_product, G::product, product_rule},
    {K::baddbmm, F::matrix_product, G::product, sum_product_rule, "addbmm"},
    {K::attention, F::attention, G::product, attention_rule,
     "_scaled_dot_product_flash_attention _scaled_dot_product_efficient_attention _scaled_dot_product_cudnn_attention "
     "_scaled_dot_product_flash_attention_for_cpu"},
    {K::attention_backward, F::attention, G::product, attention_backward_rule,
     "_scaled_dot_product_flash_attention_backward _scaled_dot_product_efficient_attention_backward "
     "_scaled_dot_product_cudnn_attention_backward _scaled_dot_product_flash_attention_for_cpu_backward"},
    {K::rnn, F::recurrent, G::product, rnn_rule, "_cudnn_rnn mkldnn_rnn_layer"},
    {K::rnn_backward, F::recurrent, G::product, rnn_backward_rule, "_cudnn_rnn_backward mkldnn_rnn_layer_backward"},
    {K::batch_norm, F::plain, G::batch_norm, element_rule, "native_batch_norm _native_batch_norm_legit"},
    {K::batch_norm_backward, F::plain, G::batch_norm, element_rule, "native_batch_norm_backward"},
    {K::layer_norm, F::plain, G::other, result_rule, "native_layer_norm"},
    {K::layer_norm_backward, F::plain, G::other, element_rule, "native_layer_norm_backward"},
    {K::rms_norm, F::plain, G::other, element_rule, "_fused_rms_norm"},
    {K::rms_norm_backward, F::plain, G::other, element_rule, "_fused_rms_norm_backward"},
    {K::group_norm, F::plain, G::other, element_rule, "native_group_norm"},
    {K::group_norm_backward, F::plain, G::other, element_rule, "native_group_norm_backward"},
    {K::relu, F::plain, G::elementwise, element_rule},
    {K::threshold_backward, F::plain, G::elementwise, element_rule},
    {K::hardtanh, F::plain, G::elementwise, element_rule},
    {K::hardtanh_backward, F::plain, G::elementwise, element_rule},
    {K::hardswish, F::plain, G::elementwise, element_rule},
    {K::hardswish_backward, F::plain, G::other, element_rule},
    {K::hardsigmoid, F::plain, G::other, element_rule},
    {K::hardsigmoid_backward, F::plain, G::other, element_rule},
    {K::silu, F::plain, G::elementwise, element_rule},
    {K::silu_backward, F::plain, G::other, element_rule},
    {K::sigmoid, F::plain, G::elementwise, element_rule},
    {K::sigmoid_backward, F::plain, G::other, element_rule},
    {K::tanh, F::plain, G::other, element_rule},
    {K::tanh_backward, F::plain, G::other, element_rule},
    {K::gelu, F::plain, G::elementwise, element_rule},
    {K::gelu_backward, F::plain, G::elementwise, element_rule},
    {K::softmax, F::plain, G::other, result_rule, "_softmax _safe_softmax"},
    {K::softmax_backward, F::plain, G::other, element_rule, "_softmax_backward_data"},
    {K::log_softmax, F::plain, G::other, element_rule, "_log_softmax"},
    {K::log_softmax_backward, F::plain, G::other, element_rule, "_log_softmax_backward_data"},
    {K::nll_loss, F::plain, G::other, nll_loss_rule, "nll_loss_forward nll_loss2d_forward"},
    {K::nll_loss_backward, F::plain, G::other, nll_loss_backward_rule, "nll_loss2d_backward"},
    {K::max_pool2d, F::plain, G::pooling, element_rule, "max_pool2d_with_indices"},
    {K::max_pool2d_backward, F::plain, G::pooling, element_rule, "max_pool2d_with_indices_backward"},
    {K::avg_pool2d, F::plain, G::pooling, element_rule},
    {K::avg_pool2d_backward, F::plain, G::pooling, element_rule},
    {K::adaptive_avg_pool2d, F::plain, G::pooling, element_rule, "_adaptive_avg_pool2d"},
    {K::adaptive_avg_pool2d_backward, F::plain, G::pooling, element_rule, "_adaptive_avg_pool2d_backward"},
    {K::mean, F::plain, G::other, element_rule},
    {K::sum, F::plain, G::other, element_rule},
    {K::add, F::arithmetic, G::elementwise, element_rule},
    {K::sub, F::arithmetic, G::elementwise, element_rule},
    {K::mul, F::arithmetic, G::elementwise, element_rule},
    {K::div, F::arithmetic, G::elementwise, element_rule},
    {K::sqrt, F::arithmetic, G::other, element_rule},
    {K::addcmul, F::arithmetic, G::other, element_rule},
    {K::addcdiv, F::arithmetic, G::other, element_rule},
    {K::masked_fill, F::plain, G::other, element_rule},
    {K::bernoulli, F::plain, G::other, random_rule,
     "normal uniform random randint randint_like randperm rand randn rand_like randn_like"},
    {K::native_dropout, F::plain, G::elementwise, element_rule},
    {K::native_dropout_backward, F::plain, G::elementwise, element_rule},
    {K::embedding, F::plain, G::other, embedding_rule, "_embedding_bag"},
    {K::embedding_backward, F::plain, G::other, embedding_backward_rule,
     "_embedding_bag_backward _embedding_bag_dense_backward embedding_dense_backward"},
    {K::cat, F::plain, G::rearrangement, move_rule},
    {K::copy, F::plain, G::rearrangement, move_rule, "clone _to_copy _reshape_copy view_copy"},
    {K::fill, F::plain, G::other, fill_rule,
     "zeros zeros_like zero ones ones_like full full_like new_zeros new_ones new_full scalar_tensor arange linspace "
     "eye"},
    {K::select_backward, F::plain, G::rearrangement, move_rule},
    {K::slice_backward, F::plain, G::rearrangement, move_rule},
    {K::fused_sgd, F::update, G::elementwise, update_rule<1, 1>, "_fused_sgd"},
    {K::fused_momentum, F::update, G::elementwise, update_rule<4, 2>},
    {K::fused_adam, F::update, G::elementwise, update_rule<8, 3>, "_fused_adam"},
    {K::fused_adamw, F::update, G::elementwise, update_rule<9, 3>, "_fused_adamw"},
    {K::fused_adagrad, F::update, G::elementwise, update_rule<4, 2>, "_fused_adagrad"},
    {K::unscale_gradients, F::update, G::other, update_rule<1, 1>, "_amp_foreach_non_finite_check_and_unscale"},
    {K::update_scale, F::plain, G::other, element_rule, "_amp_update_scale"},
    {K::fused, F::unnamed, G::elementwise, element_rule},
    {K::other, F::unnamed, G::other, element_rule, other_names},
    {K::custom, F::unnamed, G::unknown, element_rule},
});

constexpr bool complete = [] {  // every kind, at its own place
  for (std::size_t i = 0; i < traits.size(); ++i) {
    if (traits[i].kind != static_cast<OpKind>(i)) return false;
  }
  return traits.size() == enumerator_names<OpKind::custom>.size();
}();
static_assert(complete);

// Operators that neither compute nor move anything.
constexpr std::string_view free_names =
    "empty empty_like empty_strided new_empty new_empty_strided _unsafe_view _reshape_alias unsafe_split "
    "unsafe_split_with_sizes unsafe_chunk detach lift lift_fresh resize as_strided set squeeze unsqueeze t "
    "transpose";

/// Whether a text, with a space between two words, has this one.
bool has_word(std::string_view words, std::string_view word) {
  constexpr std::size_t none = std::string_view::npos;
  std::size_t at = word.empty() ? none : words.find(word);
  for (; at != none; at = words.find(word, at + 1)) {
    const std::size_t end = at + word.size();
    if ((at == 0 || words[at - 1] == ' ') && (end == words.size() || words[end] == ' ')) return true;
  }
  return false;
}

/// The operators of torch.nn.functional.interpolate.
bool resizes(std::string_view name) { return name.starts_with("upsample_") || name.starts_with("_upsample_"); }

}  // namespace

const OpTraits& traits_of(OpKind kind) { return traits.at(static_cast<std::size_t>(kind)); }

OpKind kind_of_name(std::string_view name) {
  const auto* const found = std::find_if(traits.begin(), traits.end(), [&](const OpTraits& known) {
    return (known.family != OpFamily::unnamed && to_string(known.kind) == name) || has_word(known.names, name);
  });
  if (found != traits.end()) return found->kind;
  return resizes(name) ? OpKind::other : OpKind::unknown;
}

bool computes_nothing(std::string_view name) { return has_word(free_names, name); }

}  // namespace perfpred
