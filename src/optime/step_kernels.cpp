// SPDX-License-Identifier: Apache-2.0
#include "optime/step_kernels.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <tuple>
#include <utility>

#include "step/rnn_operands.h"

namespace perfpred {
namespace {

/// The products that a convolution is, one for each direction (Chetlur et al. 2014). A transposed one is described by
/// the ordinary convolution with its weight, which goes from its result to its image.
class Convolution {
 public:
  Convolution(const Shape& image, const Shape& result, const Shape& weight)
      : in_(static_cast<double>(weight[1])), out_(static_cast<double>(weight[0])) {
    area_ = static_cast<double>(weight.numel()) / (in_ * out_);
    groups_ = static_cast<double>(image[1]) / in_;
    in_pixels_ = static_cast<double>(image.numel()) / static_cast<double>(image[1]);
    out_pixels_ = static_cast<double>(result.numel()) / static_cast<double>(result[1]);
    three_by_three_ = area_ == 9 && groups_ == 1 && in_pixels_ == out_pixels_;
    if (three_by_three_ && image.rank() == 4) by_fourier_transforms(image);
  }

  [[nodiscard]] StepKernel kernel(StepGroup direction) const {
    StepKernel kernel;
    kernel.group = direction;
    kernel.grouped = groups_ > 1;
    kernel.batch = groups_;
    kernel.flops = 2 * out_pixels_ * out_ * in_ * area_;
    const double out = out_ / groups_;
    switch (direction) {
      case StepGroup::conv_forward:
        shape(kernel, out_pixels_, out, in_ * area_);
        break;
      case StepGroup::conv_input:
        shape(kernel, in_pixels_, in_, out * area_);
        break;
      default:
        shape(kernel, out, in_ * area_, out_pixels_);
        break;
    }
    kernel.three_by_three = three_by_three_;
    kernel.fourier_flops = fourier_flops_;
    kernel.fourier_bytes = fourier_bytes_;
    kernel.aligned = static_cast<std::int64_t>(in_) % 8 == 0 && static_cast<std::int64_t>(out) % 8 == 0;
    kernel.sizes_aligned = kernel.aligned;
    if (groups_ > 1 && in_ == 1) {  // a product of depth 1 only multiplies elements
      kernel.group = direction == StepGroup::conv_forward ? StepGroup::depthwise_forward
                     : direction == StepGroup::conv_input ? StepGroup::depthwise_input
                                                          : StepGroup::depthwise_weight;
    }
    return kernel;
  }

 private:
  static void shape(StepKernel& kernel, double rows, double width, double depth) {
    kernel.rows = rows;
    kernel.width = width;
    kernel.depth = depth;
  }

  /// Tiles of 16x16 or 32x32 pixels, whichever need fewer products; real numbers, so that half of the frequencies are
  /// enough. Images, filters and results are transformed, multiplied frequency by frequency, and transformed back
  /// (Mathieu et al. 2013, Fast Training of Convolutional Networks through FFTs).
  void by_fourier_transforms(const Shape& image) {
    constexpr double complex_product = 8, complex_bytes = 8, bytes = 4;
    fourier_flops_ = HUGE_VAL;
    for (const double side : {16.0, 32.0}) {
      const double inner = side - 2, frequencies = side * (side / 2 + 1);
      const auto along = [&](std::int64_t pixels) { return std::ceil(static_cast<double>(pixels) / inner); };
      const double tiles = static_cast<double>(image[0]) * along(image[2]) * along(image[3]);
      const double flops = complex_product * frequencies * tiles * in_ * out_;
      if (flops >= fourier_flops_) continue;
      fourier_flops_ = flops;
      fourier_bytes_ = bytes * (in_pixels_ * (in_ + out_) + area_ * in_ * out_) +
                       2 * complex_bytes * frequencies * (tiles * (in_ + out_) + in_ * out_);
    }
  }

  double in_, out_;  // channels: of a group, of all groups
  double area_ = 1, groups_ = 1, in_pixels_ = 1, out_pixels_ = 1;
  double fourier_flops_ = 0, fourier_bytes_ = 0;
  bool three_by_three_ = false;
};

/// Convolutions on matrix units want channels-last memory; other images are copied there, and results back (NVIDIA,
/// Convolutional Layers User's Guide, Tensor Layouts in Memory). Depthwise ones are not products.
double transposed(const OpGraph& step, const StepKernel& kernel, double image_bytes) {
  return kernel.group <= StepGroup::conv_weight && step.layout() == Layout::nchw ? 2 * image_bytes : 0;
}

void add_convolution(const OpGraph& step, const Op& op, std::uint32_t index, std::vector<StepKernel>& kernels) {
  const auto in = step.inputs(op), out = step.outputs(op);
  const auto bytes = [&](TensorId id) { return static_cast<double>(step.bytes(id)); };
  const auto described = [&](TensorId image, TensorId result, TensorId weight) {
    if (op.transposed) std::swap(image, result);
    return Convolution(step.shape(image), step.shape(result), step.shape(weight));
  };
  const StepGroup forward = op.transposed ? StepGroup::conv_input : StepGroup::conv_forward;
  const StepGroup of_image = op.transposed ? StepGroup::conv_forward : StepGroup::conv_input;
  if (op.kind == OpKind::convolution) {
    StepKernel kernel = described(in[0], out[0], in[1]).kernel(forward);
    kernel.bytes = static_cast<double>(op.bytes_read + op.bytes_written);
    kernel.transposed = transposed(step, kernel, bytes(in[0]) + bytes(out[0]));
    kernel.flops = op.flops;
    kernel.op = index;
    kernel.channels_last = step.layout() == Layout::nhwc;
    kernels.push_back(kernel);
    return;
  }
  const Convolution convolution = described(in[1], in[0], in[2]);
  const int gradients = (out[0] != no_tensor ? 1 : 0) + (out[1] != no_tensor ? 1 : 0);
  bool first = true;
  for (const bool of_weight : {false, true}) {
    if (out[of_weight ? 1 : 0] == no_tensor) continue;
    StepKernel kernel = convolution.kernel(of_weight ? StepGroup::conv_weight : of_image);
    kernel.bytes = bytes(in[0]) + bytes(in[of_weight ? 1 : 2]) + bytes(out[of_weight ? 1 : 0]);
    kernel.transposed = transposed(step, kernel, bytes(in[0]) + bytes(of_weight ? in[1] : out[0]));
    kernel.flops = op.flops / gradients;
    kernel.op = index;
    kernel.dispatched = first;
    kernel.channels_last = step.layout() == Layout::nhwc;
    first = false;
    kernels.push_back(kernel);
  }
}

/// Whether a product's left factor [.., rows, depth] lies in memory as [.., depth, rows].
bool is_transposed(const OpGraph& step, TensorId factor) {
  const Shape& seen = step.shape(factor);
  const Shape& stored = step.shape(step.tensors()[factor].storage);
  return seen.rank() >= 2 && stored.rank() >= 2 && stored.back() != seen.back() &&
         stored.back() == seen[seen.rank() - 2];
}

void shape_product(const OpGraph& step, const Op& op, StepKernel& kernel) {
  const auto outputs = step.outputs(op);
  const auto made = std::find_if(outputs.begin(), outputs.end(), [](TensorId id) { return id != no_tensor; });
  if (made == outputs.end()) return;
  const Shape& result = step.shape(*made);
  kernel.width = result.rank() > 0 ? static_cast<double>(result.back()) : 1;
  kernel.rows = result.rank() > 1 ? static_cast<double>(result[result.rank() - 2]) : 1;
  kernel.batch = std::max(1.0, static_cast<double>(result.numel()) / (kernel.width * kernel.rows));
  kernel.depth = std::max(1.0, op.flops / (2 * static_cast<double>(result.numel())));
  const auto fills = [](double size) { return static_cast<std::int64_t>(size) % 8 == 0; };
  const bool adds = op.kind == OpKind::addmm || op.kind == OpKind::baddbmm;
  const bool transposed = is_transposed(step, step.inputs(op)[adds ? 1 : 0]);  // as for the gradient of a weight
  kernel.aligned = fills(kernel.width) && fills(transposed ? kernel.rows : kernel.depth);
  kernel.sizes_aligned = fills(kernel.width) && fills(kernel.depth);
}

/// Channels of all images, and the pixels of each in the result.
void shape_image(const OpGraph& step, const Op& op, StepKernel& kernel) {
  const auto outputs = step.outputs(op);
  if (outputs.empty() || outputs[0] == no_tensor || step.shape(outputs[0]).rank() < 3) return;
  const Shape& result = step.shape(outputs[0]);
  kernel.rows = static_cast<double>(result[0] * result[1]);
  kernel.width = static_cast<double>(result.numel()) / kernel.rows;
}

/// In nchw memory the batch norms of cuDNN and of PyTorch have one thread block for each channel. cuDNN has none for
/// bf16 (PyTorch, _select_batch_norm_backend).
void share_channels(const OpGraph& step, const Op& op, StepKernel& kernel) {
  const auto in = step.inputs(op);
  if (step.layout() != Layout::nchw || in.empty() || step.shape(in[0]).rank() < 3) return;
  kernel.channels = static_cast<double>(step.shape(in[0])[1]);
  kernel.numbers = kernel.bytes / static_cast<double>(size_of(op.type)) / kernel.channels;
  kernel.by_library = op.type != DataType::bf16;
}

/// The kernels of a recurrent operator of cuDNN or oneDNN (Appleyard et al. 2016, Optimizing Performance of Recurrent
/// Neural Networks on GPUs, section 3): of each layer and direction the products with the inputs of all positions at
/// once; then for each position, after the one before, the product with the state and the cell. Backward the products
/// for the gradients of the states in turn, and for those of the weights and the input of all positions at once.
class Recurrence {
 public:
  Recurrence(const OpGraph& step, const Op& op, std::uint32_t index)
      : index_(index), backward_(op.kind == OpKind::rnn_backward) {
    const RnnOperands rnn = rnn_operands(step, op);
    samples_ = static_cast<double>(rnn.samples);
    positions_ = static_cast<double>(rnn.positions);
    element_ = static_cast<double>(size_of(op.type));
    for (const RnnDirection& direction : rnn.directions) {
      const auto gates = static_cast<double>(direction.gate_rows), inputs = static_cast<double>(direction.inputs),
                 state = static_cast<double>(direction.state);
      add_at_once(positions_ * samples_, backward_ ? inputs : gates, backward_ ? gates : inputs);
      if (backward_) add_at_once(gates, inputs, positions_ * samples_);
      if (state == 0) continue;
      add_in_turn(gates, state);
      add_cell(gates, state);
      if (direction.projected == 0) continue;
      add_in_turn(static_cast<double>(direction.projected), static_cast<double>(direction.hidden));
    }
  }

  /// None for operands of another form.
  [[nodiscard]] const std::vector<StepKernel>& kernels() const { return kernels_; }

 private:
  StepKernel& add(StepGroup group) {
    StepKernel& kernel = kernels_.emplace_back();
    kernel.group = group;
    kernel.op = index_;
    kernel.dispatched = kernels_.size() == 1;
    return kernel;
  }

  StepKernel& add_product(StepGroup group, double rows, double width, double depth) {
    StepKernel& kernel = add(group);
    kernel.rows = rows;
    kernel.width = width;
    kernel.depth = depth;
    kernel.flops = 2 * rows * width * depth;
    kernel.bytes = element_ * (rows * depth + depth * width + rows * width);
    const auto fills = [](double size) { return static_cast<std::int64_t>(size) % 8 == 0; };
    kernel.aligned = kernel.sizes_aligned = fills(width) && fills(depth);
    return kernel;
  }

  void add_at_once(double rows, double width, double depth) { add_product(StepGroup::product, rows, width, depth); }

  void add_in_turn(double out, double in) {
    StepKernel& kernel = add_product(StepGroup::recurrent, samples_, backward_ ? in : out, backward_ ? out : in);
    kernel.calls = positions_;
    kernel.reread = element_ * out * in;
    kernel.flops *= positions_;
    kernel.bytes = kernel.reread + positions_ * (kernel.bytes - kernel.reread);
    if (backward_) add_at_once(out, in, positions_ * samples_);  // of the weight
  }

  /// Gates and cell state are read and written once in each direction, and the state.
  void add_cell(double gates, double hidden) {
    StepKernel& kernel = add(StepGroup::elementwise);
    kernel.calls = positions_;
    kernel.bytes = element_ * positions_ * samples_ * (2 * gates + 3 * hidden);
  }

  std::uint32_t index_;
  bool backward_;
  double samples_ = 0, positions_ = 0, element_ = 0;
  std::vector<StepKernel> kernels_;
};

/// Whether an operator is a further kernel of the convolution before: it adds the bias, or sums its gradient
/// (ExecutedStep). Its time is in the convolution's efficiencies: timed apart, it spoils what a probe of three networks
/// says of a machine (docs/notes/optime.md, Biases of convolutions).
bool is_of_bias(const OpGraph& step, std::size_t i) {
  return i > 0 && !step.ops()[i].dispatched && is_convolution(step.ops()[i - 1].kind);
}

/// A batch norm in evaluation mode: it keeps no statistics of the batch.
bool uses_running_statistics(const OpGraph& step, const Op& op) {
  return op.kind == OpKind::batch_norm && step.outputs(op).size() == 1;
}

/// Whether an operator has nothing to compute, and no sizes that its time could follow from.
bool is_empty(const OpGraph& step, const Op& op) {
  const auto in = step.inputs(op), out = step.outputs(op);
  const auto none = [&](TensorId id) { return id != no_tensor && step.numel(id) == 0; };
  if (!out.empty() && none(out[0])) return true;
  return is_conv_or_matmul(op.kind) && in.size() >= 2 && (none(in[0]) || none(in[1]));
}

/// Fills in what kernels read that the step has just made. Backward and update read parameters, too, but long after.
void find_near(const OpGraph& step, std::vector<StepKernel>& kernels) {
  constexpr double never = -1;
  std::vector<double> made_at(step.tensors().size(), never);  // by storage: bytes moved before
  double moved = 0;
  for (std::size_t k = 0; k < kernels.size();) {
    const std::uint32_t index = kernels[k].op;
    const Op& op = step.ops()[index];
    double bytes = 0, distance = 0;
    for (const TensorId id : step.inputs(op)) {
      if (id == no_tensor) continue;
      const double at = made_at[step.tensors()[id].storage];
      const auto own = static_cast<double>(step.bytes(id));
      if (at == never || own <= bytes) continue;
      bytes = own;
      distance = moved - at + own;
    }
    for (; k < kernels.size() && kernels[k].op == index; ++k) {
      kernels[k].near_bytes = std::min(bytes, kernels[k].bytes);
      kernels[k].near_distance = distance;
    }
    moved += static_cast<double>(op.bytes_read + op.bytes_written);
    for (const TensorId id : step.outputs(op)) {
      if (id != no_tensor) made_at[step.tensors()[id].storage] = moved;
    }
  }
}

/// Adds an operator's kernels.
void add_op(const OpGraph& step, std::uint32_t i, std::vector<StepKernel>& kernels) {
  const Op& op = step.ops()[i];
  StepKernel kernel;
  kernel.group = traits_of(op.kind).group;
  kernel.op = i;
  kernel.flops = op.flops;
  kernel.bytes = static_cast<double>(op.bytes_read + op.bytes_written);
  if (uses_running_statistics(step, op)) kernel.group = StepGroup::elementwise;
  if (kernel.group != StepGroup::unknown && is_empty(step, op)) {
    kernel.group = StepGroup::other;
    kernels.push_back(kernel);
    return;
  }
  const bool is_image = is_convolution(op.kind) && step.shape(step.inputs(op)[1]).rank() >= 3;
  if (is_image && step.shape(step.inputs(op)[op.kind == OpKind::convolution ? 0 : 1]).rank() >= 3)
    return add_convolution(step, op, i, kernels);
  if (op.kind == OpKind::rnn || op.kind == OpKind::rnn_backward) {
    const Recurrence recurrence(step, op, i);
    kernels.insert(kernels.end(), recurrence.kernels().begin(), recurrence.kernels().end());
    if (!recurrence.kernels().empty()) return;
  }
  if (kernel.group == StepGroup::product) shape_product(step, op, kernel);
  if (kernel.group == StepGroup::batch_norm || kernel.group == StepGroup::pooling) shape_image(step, op, kernel);
  if (kernel.group == StepGroup::batch_norm) share_channels(step, op, kernel);
  kernels.push_back(kernel);
}

}  // namespace

std::vector<StepKernel> step_kernels(const ExecutedStep& executed) {
  const OpGraph& step = executed.graph();
  std::vector<StepKernel> kernels;
  kernels.reserve(step.ops().size() + step.ops().size() / 4);
  for (std::uint32_t i = 0; i < step.ops().size(); ++i) {
    if (!is_of_bias(step, i)) add_op(step, i, kernels);
  }
  for (StepKernel& kernel : kernels) {
    const Op& op = step.ops()[kernel.op];
    kernel.kind = op.kind;
    kernel.type = op.type;
    kernel.backward = op.phase >= Phase::backward;
    kernel.dispatched = kernel.dispatched && op.dispatched;
  }
  find_near(step, kernels);
  return kernels;
}

void find_repeats(std::vector<StepKernel>& kernels) {
  using Key = std::tuple<StepGroup, OpKind, bool, bool, bool, bool, bool, double, double, double, double, double,
                         double, double, double>;
  std::map<Key, std::uint32_t> first;
  for (std::uint32_t i = 0; i < kernels.size(); ++i) {
    StepKernel& k = kernels[i];
    const Key key = {k.group,   k.kind,          k.three_by_three, k.grouped,    k.channels_last,
                     k.aligned, k.sizes_aligned, k.flops,          k.bytes,      k.depth,
                     k.width,   k.calls,         k.channels,       k.near_bytes, k.near_distance};
    k.same_as = first.emplace(key, i).first->second;
  }
}

}  // namespace perfpred
