// SPDX-License-Identifier: Apache-2.0
#include "torch/network/layer_functions.h"

#include <ATen/Functions.h>
#include <ATen/TensorOperators.h>

#include <optional>

namespace perfpred {
namespace {

constexpr double rotary_base = 10000;  // Su et al. 2021
constexpr double masked = -100;        // added to scores: torchvision's, Swin's

}  // namespace

at::Tensor stochastic_depth(const at::Tensor& x, double probability) {
  const double kept = 1 - probability;
  std::vector<std::int64_t> sizes(static_cast<std::size_t>(x.dim()), 1);
  sizes[0] = x.size(0);
  at::Tensor noise = at::empty(sizes, x.options()).bernoulli_(kept);
  if (kept > 0) noise.div_(kept);
  return x * noise;
}

at::Tensor shuffle_channels(const at::Tensor& x, std::int64_t groups) {
  const std::int64_t channels = x.size(1);
  return x.view({x.size(0), groups, channels / groups, x.size(2), x.size(3)})
      .transpose(1, 2)
      .contiguous()
      .view({x.size(0), channels, x.size(2), x.size(3)});
}

at::Tensor split_heads(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t width = x.size(2) / heads;
  return x.view({x.size(0), x.size(1), heads, width}).transpose(1, 2).reshape({x.size(0) * heads, x.size(1), width});
}

at::Tensor merge_heads(const at::Tensor& x, std::int64_t heads) {
  const std::int64_t samples = x.size(0) / heads;
  return x.view({samples, heads, x.size(1), x.size(2)})
      .transpose(1, 2)
      .reshape({samples, x.size(1), heads * x.size(2)});
}

at::Tensor attention(const Layer& layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v, bool training) {
  const auto heads = [](const at::Tensor& x, std::int64_t count) {
    return x.unflatten(2, {count, x.size(2) / count}).transpose(1, 2);
  };
  const double dropout = training ? layer.value : 0;
  return at::scaled_dot_product_attention(heads(q, layer.groups), heads(k, layer.count), heads(v, layer.count), {},
                                          dropout, layer.causal, std::nullopt, layer.count != layer.groups)
      .transpose(1, 2)
      .flatten(2);
}

std::pair<at::Tensor, at::Tensor> rotations(std::int64_t positions, std::int64_t width,
                                            const at::TensorOptions& options) {
  const auto on_host = at::TensorOptions().dtype(at::kDouble).device(options.device().is_meta() ? at::kMeta : at::kCPU);
  const at::Tensor exponents = at::arange(0, width, 2, on_host) / static_cast<double>(width);
  const at::Tensor angles = at::outer(at::arange(positions, on_host), at::pow(rotary_base, -exponents)).repeat({1, 2});
  return {at::cos(angles).to(options), at::sin(angles).to(options)};
}

at::Tensor rotary(const Layer& layer, const at::Tensor& x, const at::Tensor& cosines, const at::Tensor& sines) {
  const at::Tensor heads = x.unflatten(2, {layer.groups, x.size(2) / layer.groups});
  const std::int64_t half = heads.size(3) / 2;
  const at::Tensor first = heads.slice(3, 0, half), second = heads.slice(3, half);
  return (heads * cosines.unsqueeze(1) + at::cat({-second, first}, 3) * sines.unsqueeze(1)).flatten(2);
}

at::Tensor recurrent(const Layer& layer, const at::Tensor& x, const std::vector<at::Tensor>& weights, bool training) {
  const bool both = layer.groups == 2;
  const std::int64_t layers = layer.count;
  const auto first = [&] { return at::zeros({layers * layer.groups, x.size(0), layer.out_channels}, x.options()); };
  at::Tensor outputs;
  switch (layer.cell) {
    case RnnCell::lstm: {
      const at::Tensor state = first(), cell = first();
      outputs = std::get<0>(at::lstm(x, {state, cell}, weights, true, layers, layer.value, training, both, true));
      break;
    }
    case RnnCell::gru:
      outputs = std::get<0>(at::gru(x, first(), weights, true, layers, layer.value, training, both, true));
      break;
    case RnnCell::tanh:
      outputs = std::get<0>(at::rnn_tanh(x, first(), weights, true, layers, layer.value, training, both, true));
      break;
    case RnnCell::relu:
      outputs = std::get<0>(at::rnn_relu(x, first(), weights, true, layers, layer.value, training, both, true));
      break;
  }
  return outputs.contiguous();
}

at::Tensor pad(const Layer& layer, const at::Tensor& x) {
  return at::constant_pad_nd(x, {0, 0, 0, layer.output[2] - x.size(2), 0, layer.output[1] - x.size(1)});
}

at::Tensor crop(const Layer& layer, const at::Tensor& x) {
  at::Tensor left = x;
  for (const std::int64_t axis : {1, 2}) {
    const std::int64_t kept = layer.output[static_cast<std::size_t>(axis)];
    if (kept < x.size(axis)) left = left.slice(axis, 0, kept);
  }
  return left.contiguous();
}

at::Tensor merge_patches(const at::Tensor& x) {
  std::vector<at::Tensor> parts;
  for (const std::int64_t column : {0, 1}) {
    for (const std::int64_t row : {0, 1}) {
      parts.push_back(x.slice(1, row, std::nullopt, 2).slice(2, column, std::nullopt, 2));
    }
  }
  return at::cat(parts, -1);
}

at::Tensor to_windows(const Layer& layer, const at::Tensor& x) {
  const auto [height, width] = layer.kernel;
  const std::int64_t samples = x.size(0), rows = x.size(1) / height, columns = x.size(2) / width;
  return x.view({samples, rows, height, columns, width, x.size(3)})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({samples * rows * columns, height * width, x.size(3)});
}

at::Tensor from_windows(const Layer& layer, const at::Tensor& x) {
  const auto [height, width] = layer.kernel;
  const Shape& image = layer.output;
  const std::int64_t rows = image[1] / height, columns = image[2] / width, samples = x.size(0) / (rows * columns);
  return x.view({samples, rows, columns, height, width, image[3]})
      .permute({0, 1, 3, 2, 4, 5})
      .reshape({samples, image[1], image[2], image[3]});
}

at::Tensor image_windows(const Layer& layer, const at::Tensor& x) {
  const auto [height, width] = layer.kernel;
  const std::int64_t samples = x.size(0), channels = x.size(1), rows = x.size(2) / height, columns = x.size(3) / width;
  if (layer.stride[0] == 1) {
    return x.reshape({samples, channels, rows, height, columns, width})
        .permute({0, 2, 4, 3, 5, 1})
        .reshape({samples, rows * columns, height * width, channels});
  }
  return x.reshape({samples, channels, height, rows, width, columns})
      .permute({0, 2, 4, 3, 5, 1})
      .reshape({samples, height * width, rows * columns, channels})
      .transpose(1, 2);
}

at::Tensor windows_image(const Layer& layer, const at::Tensor& x) {
  const auto [height, width] = layer.kernel;
  const Shape& image = layer.output;
  const std::int64_t samples = x.size(0), rows = image[2] / height, columns = image[3] / width;
  const bool grid = layer.stride[0] > 1;
  const at::Tensor parted = grid ? x.transpose(1, 2).reshape({samples, height, width, rows, columns, image[1]})
                                 : x.reshape({samples, rows, columns, height, width, image[1]});
  return parted.permute({0, 5, 1, 3, 2, 4}).reshape({samples, image[1], image[2], image[3]});
}

std::vector<at::Tensor> select_heads(const Layer& layer, const at::Tensor& x) {
  const std::int64_t width = x.size(2) / layer.count / layer.groups;
  const at::Tensor apart = x.view({x.size(0), x.size(1), layer.count, layer.groups, width}).permute({2, 0, 3, 1, 4});
  std::vector<at::Tensor> parts;
  for (std::int64_t part = 0; part < layer.count; ++part) {
    parts.push_back(apart.select(0, part).reshape({x.size(0) * layer.groups, x.size(1), width}));
  }
  return parts;
}

at::Tensor distance_rows(const Layer& layer, const at::TensorOptions& integers) {
  const auto [height, width] = layer.kernel;
  const auto between = [&](const at::Tensor& along) {
    const at::Tensor places = along.expand(layer.kernel).flatten();
    return places.unsqueeze(1) - places.unsqueeze(0);
  };
  const at::Tensor down = between(at::arange(height, integers).unsqueeze(1)) + (height - 1);
  const at::Tensor right = between(at::arange(width, integers).unsqueeze(0)) + (width - 1);
  return (down * (2 * width - 1) + right).flatten();
}

at::Tensor relative_position(const Layer& layer, const at::Tensor& scores, const at::Tensor& table,
                             const at::Tensor& rows) {
  const std::int64_t positions = scores.size(1);
  c10::List<std::optional<at::Tensor>> chosen;
  chosen.push_back(rows);
  const at::Tensor bias = at::index(table, chosen).view({positions, positions, layer.groups}).permute({2, 0, 1});
  return (scores.unflatten(0, {-1, layer.groups}) + bias.contiguous().unsqueeze(0)).flatten(0, 1);
}

at::Tensor roll_mask(const Layer& layer, const at::TensorOptions& floats) {
  // Parts of an axis that were neighbours before the roll: up to the last window, the rest, and what came in.
  const auto parts = [&](std::size_t axis) {
    const std::int64_t size = layer.kernel.at(axis), length = size * layer.stride.at(axis);
    const std::int64_t shift = layer.padding.at(axis);
    const at::Tensor places = at::arange(length, floats);
    if (shift == 0) return at::zeros_like(places);
    return places.ge(length - size).to(floats) + places.ge(length - shift).to(floats);
  };
  const auto [height, width] = layer.kernel;
  const auto [rows, columns] = layer.stride;
  const at::Tensor parts_of_windows = (parts(0).unsqueeze(1) * 3 + parts(1).unsqueeze(0))
                                          .view({rows, height, columns, width})
                                          .permute({0, 2, 1, 3})
                                          .reshape({rows * columns, 1, height * width});
  return parts_of_windows.unsqueeze(2).ne(parts_of_windows.unsqueeze(3)).to(floats) * masked;
}

at::Tensor window_mask(const Layer& layer, const at::Tensor& scores, const at::Tensor& mask) {
  return (scores.unflatten(0, {-1, mask.size(0), layer.groups}) + mask).flatten(0, 2);
}

}  // namespace perfpred
