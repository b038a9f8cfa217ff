// SPDX-License-Identifier: Apache-2.0
#include "device/convolution_workspace.h"

#include <algorithm>

#include "step/permuted_image.h"

namespace perfpred {
namespace {

/// How oneDNN fills the channels of its copies.
struct Filling {
  std::int64_t block;  ///< channels that its layouts hold together
  /// The fewest channels that are filled up to a block: of an image and of a result in the forward pass, of both for
  /// the image's gradient, and for the weight's, which has kernels for fewer.
  std::int64_t least_of_image, least_of_result, least_of_image_gradient, least_of_weight_gradient;
};
constexpr Filling filling_of(VectorUnits units) {
  return units == VectorUnits::avx512 ? Filling{16, 4, 4, 4, 9} : Filling{8, 8, 2, 2, 4};
}

/// Rows and columns of the widest window for which oneDNN has kernels of its own.
constexpr std::int64_t max_window = 14;

/// The fewest channels that cuDNN 9.19 convolves by Winograd's algorithm on an H200: networks of 64 have its workspace,
/// those of 16 and 32 have none (docs/notes/counting.md).
constexpr std::int64_t min_winograd_channels = 64;

/// The backward pass' workspace beside the forward pass': 1.0 to 1.4 in VGG-16, ResNet-18, AlexNet and the CIFAR
/// family.
constexpr double backward_winograd = 1.3;

/// A convolution's operands by what they are; the gradients are no_tensor in the forward pass or if not requested.
struct ConvolutionOperands {
  TensorId image = no_tensor;
  TensorId weight = no_tensor;
  TensorId result = no_tensor;  // forward: the output; backward: its gradient
  TensorId image_gradient = no_tensor;
  TensorId weight_gradient = no_tensor;
};

ConvolutionOperands operands_of(const OpGraph& step, const Op& op) {
  const auto inputs = step.inputs(op);
  const auto outputs = step.outputs(op);
  if (op.kind == OpKind::convolution) return {inputs[0], inputs[1], outputs[0], no_tensor, no_tensor};
  return {inputs[1], inputs[2], inputs[0], outputs[0], outputs[1]};
}

/// Whether an operator convolves images: of sounds and volumes, workspaces are not known.
bool convolves_images(const OpGraph& step, const Op& op) {
  constexpr std::size_t image_rank = 4;
  if (!is_convolution(op.kind)) return false;
  const auto is_image = [&](TensorId id) { return step.shape(id).rank() == image_rank && step.numel(id) > 0; };
  const auto operands =
      step.inputs(op).first(std::min<std::size_t>(step.inputs(op).size(), op.kind == OpKind::convolution ? 2 : 3));
  return std::all_of(operands.begin(), operands.end(), is_image);
}

class Workspace {
 public:
  Workspace(const OpGraph& step, const Op& op, int threads, VectorUnits units)
      : step_(step),
        op_(op),
        threads_(threads),
        units_(units),
        filling_(filling_of(units)),
        operands_(operands_of(step, op)) {}

  [[nodiscard]] std::int64_t peak() const {
    if (is_native()) return native();
    return op_.kind == OpKind::convolution ? blocked_forward() : std::max(blocked_image(), blocked_weight());
  }

 private:
  /// The image and the result of the ordinary convolution with this weight: a transposed one has them exchanged.
  [[nodiscard]] const Shape& ordinary_image() const {
    return step_.shape(op_.transposed ? operands_.result : operands_.image);
  }
  [[nodiscard]] const Shape& ordinary_result() const {
    return step_.shape(op_.transposed ? operands_.image : operands_.result);
  }

  [[nodiscard]] std::int64_t bytes(TensorId id) const { return id == no_tensor ? 0 : step_.bytes(id); }

  /// Bytes of a copy in oneDNN's layout: channels (axis 1 of images, both channel axes of weights) are filled up.
  [[nodiscard]] std::int64_t blocked(TensorId id, std::int64_t least) const {
    if (id == no_tensor) return 0;
    const Shape& shape = step_.shape(id);
    double bytes = static_cast<double>(step_.bytes(id));
    for (std::size_t axis = id == operands_.weight ? 0 : 1; axis < 2; ++axis) {
      const std::int64_t channels = shape[axis];
      if (channels < least) continue;
      const std::int64_t filled = (channels + filling_.block - 1) / filling_.block * filling_.block;
      bytes *= static_cast<double>(filled) / static_cast<double>(channels);
    }
    return static_cast<std::int64_t>(bytes);
  }

  /// Whether LibTorch convolves by itself rather than by oneDNN (ConvParams::use_mkldnn in
  /// ATen/native/Convolution.cpp).
  [[nodiscard]] bool is_native() const {
    if (step_.tensors()[operands_.image].type == DataType::f64) return true;
    const Shape& in = step_.shape(operands_.image);
    const Shape& window = step_.shape(operands_.weight);
    const bool one = window[2] == 1 && window[3] == 1;
    if (one && in[2] == step_.shape(operands_.result)[2] && in[0] < 16 && threads_ == 1) return true;
    const bool wide = window[2] > 3 && window[3] > 3;
    return !is_grouped() && !wide && in[0] == 1 && in.numel() <= 20'480;
  }

  /// Bytes of the matrix of windows that a native convolution multiplies; a 1x1 window's is the image itself.
  [[nodiscard]] std::int64_t window_matrix() const {
    const Shape& window = step_.shape(operands_.weight);
    const Shape& out = ordinary_result();
    if (window[2] == 1 && window[3] == 1 && ordinary_image()[2] == out[2]) return 0;
    return out[0] * out[2] * out[3] * window[1] * window[2] * window[3] *
           size_of(step_.tensors()[operands_.image].type);
  }

  [[nodiscard]] std::int64_t native() const {
    std::int64_t results = 0;
    for (const TensorId id : step_.outputs(op_)) results += bytes(id);
    return window_matrix() + results;
  }

  [[nodiscard]] std::int64_t blocked_forward() const {
    const std::int64_t out = blocked(operands_.result, filling_.least_of_result);
    const std::int64_t in =
        blocked(operands_.image, filling_.least_of_image) + blocked(operands_.weight, filling_.least_of_image);
    return std::max(in + out, out + bytes(operands_.result));
  }

  [[nodiscard]] std::int64_t blocked_image() const {
    if (operands_.image_gradient == no_tensor) return 0;
    const std::int64_t least = filling_.least_of_image_gradient;
    const std::int64_t made = blocked(operands_.image_gradient, least), given = bytes(operands_.image_gradient);
    const std::int64_t blocked_sum = blocked(operands_.result, least) + blocked(operands_.weight, least) + made;
    // AVX2's kernel for strides gives a channels-last image, which is copied twice until it is as LibTorch wants it.
    const bool twice = units_ != VectorUnits::avx512 && !is_grouped() && ordinary_image()[2] > ordinary_result()[2] &&
                       !is_permuted_image(step_, operands_.result);
    return std::max(blocked_sum, twice ? 3 * given : made + given);
  }

  [[nodiscard]] bool is_grouped() const { return step_.shape(operands_.weight)[1] != ordinary_image()[1]; }

  /// Whether oneDNN has no kernel of its own for the weight's gradient, and multiplies matrices of windows: of wide
  /// windows, and, with AVX2, of windows larger than the image without its border, and of single channels in other
  /// windows than 3x3.
  [[nodiscard]] bool multiplies_windows() const {
    const Shape &window = step_.shape(operands_.weight), &image = ordinary_image();
    if (std::min(window[2], window[3]) > max_window) return true;
    if (units_ == VectorUnits::avx512) return false;
    if (window[2] > image[2] || window[3] > image[3]) return true;
    const bool single = window[1] == 1 && is_grouped();
    return single && (window[2] != 3 || window[3] != 3) && !is_permuted_image(step_, operands_.result);
  }

  [[nodiscard]] std::int64_t blocked_weight() const {
    if (operands_.weight_gradient == no_tensor) return 0;
    const std::int64_t before = bytes(operands_.image_gradient);
    const Shape& window = step_.shape(operands_.weight);
    if (multiplies_windows()) {
      // One image of a group a thread; oneDNN books four times the sums of the threads' weight gradients.
      const std::int64_t of_image = window_matrix() / step_.shape(operands_.image)[0];
      const std::int64_t of_thread = of_image + 4 * bytes(operands_.weight);
      return before + bytes(operands_.result) + bytes(operands_.weight_gradient) + threads_ * of_thread;
    }
    // Without a kernel for depthwise weights in this layout, oneDNN fills each group to a block of its own.
    const bool filled = window[1] == 1 && is_permuted_image(step_, operands_.result);
    const std::int64_t least = filling_.least_of_weight_gradient, block = filling_.block;
    const std::int64_t made = blocked(operands_.weight, least) * (filled ? block * block : 1);
    const bool summed = units_ == VectorUnits::avx2_most && threads_ > 1 && !is_grouped() && window[2] * window[3] == 1;
    const std::int64_t sums = summed ? threads_ * made : 0;
    return before + std::max(blocked(operands_.result, least) + blocked(operands_.image, least) + made + sums,
                             made + bytes(operands_.weight_gradient));
  }

  const OpGraph& step_;
  const Op& op_;
  const int threads_;
  const VectorUnits units_;
  const Filling filling_;
  ConvolutionOperands operands_;
};

}  // namespace

std::int64_t convolution_workspace(const OpGraph& step, const Op& op, int threads, VectorUnits units) {
  return convolves_images(step, op) ? Workspace(step, op, threads, units).peak() : 0;
}

std::int64_t cudnn_workspace(const OpGraph& step, const Op& op, bool matrix_units) {
  if (!convolves_images(step, op)) return 0;
  const ConvolutionOperands operands = operands_of(step, op);
  const Shape &image = step.shape(operands.image), &window = step.shape(operands.weight),
              &result = step.shape(operands.result);
  const DataType type = step.tensors()[operands.image].type;
  if (window[1] != image[1] || type == DataType::f64) return 0;  // grouped: kernels without workspace
  if (type != DataType::f32 || matrix_units) {
    std::int64_t copies = 0;
    for (const TensorId id : {operands.image, operands.result}) {
      if (!is_permuted_image(step, id)) copies += step.bytes(id);
    }
    return copies;
  }
  const bool winograd = window[2] == 3 && window[3] == 3 && image[2] == result[2] && image[3] == result[3] &&
                        std::min(image[1], result[1]) >= min_winograd_channels;
  if (!winograd) return 0;
  constexpr std::int64_t outputs = 4, tile = 6;  // F(4x4, 3x3)
  const std::int64_t tiles = image[0] * ((result[2] + outputs - 1) / outputs) * ((result[3] + outputs - 1) / outputs);
  const std::int64_t numbers = tile * tile * (tiles * (image[1] + result[1]) + image[1] * result[1]);
  const double bytes = static_cast<double>(numbers * size_of(type));
  return static_cast<std::int64_t>(op.kind == OpKind::convolution ? bytes : backward_winograd * bytes);
}

}  // namespace perfpred
