// SPDX-License-Identifier: Apache-2.0
// Why own rules: LibTorch's shape functions in C++ (torch/csrc/lazy/core/shape_inference.h, TorchScript's symbolic
// shapes) give sizes without strides. Strides decide which copies a step contains, with channels last for example.
#include "torch/trace/shape_rules.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ExpandUtils.h>
#include <ATen/WrapDimUtils.h>
#include <ATen/core/Reduction.h>
#include <ATen/ops/result_type.h>
#include <c10/util/Exception.h>

#include <algorithm>
#include <array>
#include <utility>

namespace perfpred {
namespace {

using Arguments = c10::ArrayRef<c10::IValue>;

at::Tensor made(at::IntArrayRef sizes, at::ScalarType type, at::MemoryFormat format = at::MemoryFormat::Contiguous) {
  return at::Tensor(at::detail::empty_meta(sizes, type, format));
}

at::Tensor like(const at::Tensor& tensor) {
  return made(tensor.sizes(), tensor.scalar_type(), tensor.suggest_memory_format());
}

at::Tensor like(const c10::IValue& value) {
  return value.isTensor() && value.toTensor().defined() ? like(value.toTensor()) : at::Tensor();
}

bool defined(const c10::IValue& value) { return value.isTensor() && value.toTensor().defined(); }

/// What was asked of the last argument, a list of bool.
bool asked(Arguments arguments, std::size_t which) { return arguments.back().toBoolList()[which]; }

/// `values[i]`, or the one that stands for all axes.
std::int64_t of_axis(const at::DimVector& values, std::size_t axis) {
  return values.size() == 1 ? values[0] : values[axis];
}

/// convolution and _convolution share their first nine arguments.
std::vector<at::Tensor> convolution(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const at::Tensor& weight = arguments[1].toTensor();
  const auto stride = arguments[3].toDimVector();
  const auto padding = arguments[4].toDimVector();
  const auto dilation = arguments[5].toDimVector();
  const bool transposed = arguments[6].toBool();
  const auto output_padding = arguments[7].toDimVector();
  const std::int64_t groups = arguments[8].toInt();
  TORCH_CHECK(input.dim() == weight.dim(), "a weight of rank ", weight.dim(), " does not fit an input of rank ",
              input.dim());
  const std::int64_t taken = transposed ? weight.size(0) : weight.size(1) * groups;
  TORCH_CHECK(input.size(1) == taken, "the input has ", input.size(1), " channels, the weight takes ", taken);
  at::DimVector sizes(input.sizes().begin(), input.sizes().end());
  sizes[1] = transposed ? weight.size(1) * groups : weight.size(0);
  for (std::size_t axis = 2; axis < sizes.size(); ++axis) {
    const std::size_t i = axis - 2;
    const std::int64_t reach = of_axis(dilation, i) * (weight.sizes()[axis] - 1) + 1;
    if (transposed) {
      sizes[axis] =
          (sizes[axis] - 1) * of_axis(stride, i) - 2 * of_axis(padding, i) + reach + of_axis(output_padding, i);
    } else {
      const std::int64_t span = sizes[axis] + 2 * of_axis(padding, i) - reach;
      TORCH_CHECK(span >= 0, "a kernel of ", reach, " is larger than the padded input of ",
                  sizes[axis] + 2 * of_axis(padding, i));
      sizes[axis] = span / of_axis(stride, i) + 1;
    }
  }
  const bool channels_last = input.dim() == 4 && (input.suggest_memory_format() == at::MemoryFormat::ChannelsLast ||
                                                  weight.suggest_memory_format() == at::MemoryFormat::ChannelsLast);
  return {
      made(sizes, input.scalar_type(), channels_last ? at::MemoryFormat::ChannelsLast : at::MemoryFormat::Contiguous)};
}

std::vector<at::Tensor> convolution_backward(Arguments arguments) {
  const at::Tensor& gradient = arguments[0].toTensor();
  const bool transposed = arguments[7].toBool();
  const at::Tensor& weight = arguments[2].toTensor();
  const std::int64_t outputs = transposed ? weight.size(1) * arguments[9].toInt() : weight.size(0);
  return {asked(arguments, 0) ? like(arguments[1]) : at::Tensor(), asked(arguments, 1) ? like(weight) : at::Tensor(),
          asked(arguments, 2) ? made(outputs, gradient.scalar_type()) : at::Tensor()};
}

/// Statistics are single precision for half types.
at::ScalarType statistics_type(const at::Tensor& input) {
  return input.scalar_type() == at::kHalf || input.scalar_type() == at::kBFloat16 ? at::kFloat : input.scalar_type();
}

std::vector<at::Tensor> batch_norm(const at::Tensor& input, bool training) {
  const std::int64_t channels = training ? input.size(1) : 0;
  return {like(input), made(channels, statistics_type(input)), made(channels, statistics_type(input))};
}

std::vector<at::Tensor> native_batch_norm(Arguments arguments) {
  return batch_norm(arguments[0].toTensor(), arguments[5].toBool());
}

std::vector<at::Tensor> native_batch_norm_backward(Arguments arguments) {
  const at::Tensor& input = arguments[1].toTensor();
  const auto learned = [&] {
    return defined(arguments[2]) ? like(arguments[2]) : made(input.size(1), statistics_type(input));
  };
  return {asked(arguments, 0) ? like(input) : at::Tensor(), asked(arguments, 1) ? learned() : at::Tensor(),
          asked(arguments, 2) ? learned() : at::Tensor()};
}

std::vector<at::Tensor> native_layer_norm(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const auto normalised = arguments[1].toDimVector();
  const auto rank = static_cast<std::size_t>(input.dim());
  TORCH_CHECK(
      normalised.size() <= rank && std::equal(normalised.begin(), normalised.end(),
                                              input.sizes().end() - static_cast<std::ptrdiff_t>(normalised.size())),
      "the last axes of the input are not of the normalised shape ", at::IntArrayRef(normalised));
  at::DimVector sizes(input.sizes().begin(), input.sizes().end());
  for (std::size_t axis = rank - normalised.size(); axis < rank; ++axis) sizes[axis] = 1;
  return {made(input.sizes(), input.scalar_type()), made(sizes, statistics_type(input)),
          made(sizes, statistics_type(input))};
}

std::vector<at::Tensor> native_layer_norm_backward(Arguments arguments) {
  return {
      asked(arguments, 0) ? made(arguments[1].toTensor().sizes(), arguments[1].toTensor().scalar_type()) : at::Tensor(),
      asked(arguments, 1) ? like(arguments[5]) : at::Tensor(), asked(arguments, 2) ? like(arguments[6]) : at::Tensor()};
}

std::vector<at::Tensor> rms_norm(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  at::DimVector sizes(input.sizes().begin(), input.sizes().end());
  const std::size_t normalised = arguments[1].toDimVector().size();
  TORCH_CHECK(normalised <= sizes.size(), "an input of rank ", sizes.size(), " has no ", normalised, " last axes");
  std::fill(sizes.end() - static_cast<std::ptrdiff_t>(normalised), sizes.end(), 1);
  return {made(input.sizes(), input.scalar_type()), made(sizes, statistics_type(input))};
}

std::vector<at::Tensor> rms_norm_backward(Arguments arguments) {
  return {asked(arguments, 0) ? like(arguments[1]) : at::Tensor(),
          asked(arguments, 1) ? like(arguments[4]) : at::Tensor()};
}

std::vector<at::Tensor> native_group_norm(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const std::array<std::int64_t, 2> sizes = {arguments[3].toInt(), arguments[6].toInt()};
  return {like(input), made(sizes, statistics_type(input)), made(sizes, statistics_type(input))};
}

std::vector<at::Tensor> native_group_norm_backward(Arguments arguments) {
  return {asked(arguments, 0) ? like(arguments[1]) : at::Tensor(),
          asked(arguments, 1) ? like(arguments[4]) : at::Tensor(),
          asked(arguments, 2) ? like(arguments[4]) : at::Tensor()};
}

std::vector<at::Tensor> adaptive_pool(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const auto output = arguments[1].toDimVector();
  at::DimVector sizes(input.sizes().begin(), input.sizes().end());
  TORCH_CHECK(sizes.size() > output.size(), "an input of rank ", sizes.size(), " cannot be pooled");
  for (std::size_t i = 0; i < output.size(); ++i) sizes[sizes.size() - output.size() + i] = output[i];
  return {made(sizes, input.scalar_type(), input.suggest_memory_format())};
}

std::vector<at::Tensor> embedding(Arguments arguments) {
  const at::Tensor& weight = arguments[0].toTensor();
  const at::Tensor& rows = arguments[1].toTensor();
  at::DimVector sizes(rows.sizes().begin(), rows.sizes().end());
  sizes.push_back(weight.size(1));
  return {made(sizes, weight.scalar_type())};
}

std::vector<at::Tensor> embedding_backward(Arguments arguments) {
  const at::Tensor& gradient = arguments[0].toTensor();
  const std::array<std::int64_t, 2> sizes = {arguments[2].toInt(), gradient.size(-1)};
  return {made(sizes, gradient.scalar_type())};
}

std::vector<at::Tensor> where(Arguments arguments) {
  const at::Tensor& yes = arguments[1].toTensor();
  const at::Tensor& no = arguments[2].toTensor();
  const auto sizes = at::infer_size(arguments[0].toTensor().sizes(), at::infer_size(yes.sizes(), no.sizes()));
  return {made(sizes, at::result_type(yes, no))};
}

std::vector<at::Tensor> index_select(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  at::DimVector sizes(input.sizes().begin(), input.sizes().end());
  sizes.at(static_cast<std::size_t>(at::maybe_wrap_dim(arguments[1].toInt(), input.dim()))) =
      arguments[2].toTensor().numel();
  return {made(sizes, input.scalar_type())};
}

/// var and std: the overload `correction`, to which LibTorch reduces the others.
at::Tensor reduced(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const bool keep = arguments[3].toBool();
  std::vector<bool> gone(static_cast<std::size_t>(input.dim()), arguments[1].isNone());
  if (arguments[1].isIntList()) {
    for (const std::int64_t axis : arguments[1].toIntVector()) {
      gone.at(static_cast<std::size_t>(at::maybe_wrap_dim(axis, input.dim()))) = true;
    }
  }
  at::DimVector sizes;
  for (std::size_t axis = 0; axis < gone.size(); ++axis) {
    if (!gone[axis]) sizes.push_back(input.sizes()[axis]);
    if (gone[axis] && keep) sizes.push_back(1);
  }
  return made(sizes, input.scalar_type());
}

std::vector<at::Tensor> moment(Arguments arguments) { return {reduced(arguments)}; }
std::vector<at::Tensor> two_moments(Arguments arguments) { return {reduced(arguments), reduced(arguments)}; }

/// Dropout with the mask that the backward pass needs.
std::vector<at::Tensor> native_dropout(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  return {like(input), made(input.sizes(), at::kBool)};
}

/// The loss and the sum of the labels' weights.
std::vector<at::Tensor> nll_loss2d(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const bool mean_or_sum = arguments[3].toInt() != at::Reduction::None;
  return {mean_or_sum ? made({}, input.scalar_type()) : made(arguments[1].toTensor().sizes(), input.scalar_type()),
          made({}, input.scalar_type())};
}

std::vector<at::Tensor> pixel_shuffle(Arguments arguments) {
  const at::Tensor& input = arguments[0].toTensor();
  const std::int64_t factor = arguments[1].toInt();
  at::DimVector sizes(input.sizes().begin(), input.sizes().end());
  TORCH_CHECK(sizes.size() >= 3 && sizes[sizes.size() - 3] % (factor * factor) == 0,
              "the channels are not a multiple of the square of the factor ", factor);
  sizes[sizes.size() - 3] /= factor * factor;
  sizes[sizes.size() - 2] *= factor;
  sizes[sizes.size() - 1] *= factor;
  return {made(sizes, input.scalar_type())};
}

/// [batch, heads, positions, width] whose heads lie side by side, as CUDA's attention kernels make them.
at::Tensor heads_side_by_side(const at::Tensor& model, std::int64_t width) {
  return made({model.size(0), model.size(2), model.size(1), width}, model.scalar_type()).transpose(1, 2);
}

/// The result, its log-sum-exp and, with dropout, the two numbers that the random elements follow from.
std::vector<at::Tensor> attention(Arguments arguments) {
  const at::Tensor &q = arguments[0].toTensor(), &k = arguments[1].toTensor(), &v = arguments[2].toTensor();
  TORCH_CHECK(q.size(0) == k.size(0) && k.size(0) == v.size(0) && k.size(2) == v.size(2) && q.size(3) == k.size(3) &&
                  k.size(1) == v.size(1) && q.size(1) % k.size(1) == 0,
              "queries, keys and values do not fit each other");
  const bool drops = arguments[5].toDouble() > 0;
  return {heads_side_by_side(q, v.size(3)), made({q.size(0), q.size(1), q.size(2)}, statistics_type(q)),
          drops ? made({2}, at::kLong) : at::Tensor(), at::Tensor()};
}

std::vector<at::Tensor> attention_backward(Arguments arguments) {
  std::vector<at::Tensor> gradients;
  for (std::size_t i = 1; i <= 3; ++i) {
    const at::Tensor& operand = arguments[i].toTensor();
    gradients.push_back(heads_side_by_side(operand, operand.size(3)));
  }
  const bool of_bias = defined(arguments[4]) && arguments[10].toBoolList()[3];
  gradients.push_back(of_bias ? like(arguments[4]) : at::Tensor());
  return gradients;
}

/// Outputs, last states, what the backward pass needs, and an empty tensor in place of a copy of the weights. Outputs
/// have the positions in front in memory. aten/src/ATen/native/cudnn/RNN.cpp.
std::vector<at::Tensor> rnn(Arguments arguments) {
  const at::Tensor &x = arguments[0].toTensor(), &state = arguments[4].toTensor();
  const bool batch_first = arguments[10].toBool(), bidirectional = arguments[13].toBool();
  const std::int64_t layers = arguments[9].toInt(), directions = bidirectional ? 2 : 1, mode = arguments[6].toInt();
  const std::int64_t hidden = arguments[7].toInt();
  TORCH_CHECK(x.dim() == 2 || x.dim() == 3, "the input has rank ", x.dim());
  at::DimVector sizes(x.sizes().begin(), x.sizes().end());
  if (batch_first && x.dim() == 3) std::swap(sizes[0], sizes[1]);
  const std::int64_t positions = x.numel() / x.size(-1);
  sizes.back() = directions * state.size(2);
  at::Tensor outputs = made(sizes, x.scalar_type());
  if (batch_first && x.dim() == 3) outputs = outputs.transpose(0, 1);
  // As kept_elements() of src/step/layers/sequence.cpp.
  const std::int64_t of_layer = mode == 2 ? 5 : mode == 3 ? 4 : 0, between = arguments[11].toDouble() > 0 ? 2 : 1;
  const std::int64_t kept = positions * directions * hidden * (layers * of_layer + (layers - 1) * between);
  return {outputs, like(state), like(arguments[5]), made(kept, x.scalar_type()), made(0, x.scalar_type())};
}

/// Gradients of the input, the first states, the weights.
std::vector<at::Tensor> rnn_backward(Arguments arguments) {
  const at::Tensor& x = arguments[0].toTensor();
  const bool batch_first = arguments[14].toBool() && x.dim() == 3;
  at::Tensor of_input;
  if (asked(arguments, 0)) {
    at::DimVector sizes(x.sizes().begin(), x.sizes().end());
    if (batch_first) std::swap(sizes[0], sizes[1]);
    of_input = made(sizes, x.scalar_type());
    if (batch_first) of_input = of_input.transpose(0, 1);
  }
  std::vector<at::Tensor> gradients = {of_input, asked(arguments, 1) ? like(arguments[4]) : at::Tensor(),
                                       asked(arguments, 2) ? like(arguments[5]) : at::Tensor()};
  if (!asked(arguments, 3)) return gradients;
  for (const at::Tensor& weight : arguments[1].toTensorVector()) gradients.push_back(like(weight));
  return gradients;
}

std::vector<at::Tensor> as_first(Arguments arguments) { return {like(arguments[0])}; }
std::vector<at::Tensor> as_second(Arguments arguments) { return {like(arguments[1])}; }

constexpr std::array<std::pair<std::string_view, ShapeRule>, 50> rules = {{
    {"_scaled_dot_product_efficient_attention", attention},
    {"_scaled_dot_product_efficient_attention_backward", attention_backward},
    {"_cudnn_rnn", rnn},
    {"_cudnn_rnn_backward", rnn_backward},
    {"_fused_rms_norm", rms_norm},
    {"_fused_rms_norm_backward", rms_norm_backward},
    {"convolution", convolution},
    {"_convolution", convolution},
    {"convolution_backward", convolution_backward},
    {"native_batch_norm", native_batch_norm},
    {"native_batch_norm_backward", native_batch_norm_backward},
    {"native_layer_norm", native_layer_norm},
    {"native_layer_norm_backward", native_layer_norm_backward},
    {"native_group_norm", native_group_norm},
    {"native_group_norm_backward", native_group_norm_backward},
    {"_adaptive_avg_pool2d", adaptive_pool},
    {"_adaptive_avg_pool2d_backward", as_second},
    {"_adaptive_avg_pool3d", adaptive_pool},
    {"_adaptive_avg_pool3d_backward", as_second},
    {"embedding", embedding},
    {"embedding_dense_backward", embedding_backward},
    {"where", where},
    {"index_select", index_select},
    {"var", moment},
    {"std", moment},
    {"var_mean", two_moments},
    {"std_mean", two_moments},
    {"native_dropout", native_dropout},
    {"nll_loss2d_forward", nll_loss2d},
    {"nll_loss2d_backward", as_second},
    {"pixel_shuffle", pixel_shuffle},
    {"channel_shuffle", as_first},
    {"relu", as_first},
    {"hardtanh", as_first},
    {"hardtanh_backward", as_first},
    {"hardswish", as_first},
    {"hardswish_backward", as_first},
    {"native_dropout_backward", as_first},
    {"_prelu_kernel", as_first},
    {"_masked_softmax", as_first},
    {"_safe_softmax", as_first},
    {"roll", as_first},
    {"flip", as_first},
    {"logit", as_first},
    {"mse_loss_backward", as_second},
    {"huber_loss_backward", as_second},
    {"binary_cross_entropy_backward", as_second},
    {"log_sigmoid_backward", as_second},
    {"glu_backward", as_second},
    {"mish_backward", as_second},
}};

}  // namespace

ShapeRule shape_rule(std::string_view name) {
  const auto* found = std::find_if(rules.begin(), rules.end(), [&](const auto& rule) { return rule.first == name; });
  return found != rules.end() ? found->second : nullptr;
}

}  // namespace perfpred
