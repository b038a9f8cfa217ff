// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "device/caching_allocator.h"

namespace perfpred {
namespace {

constexpr std::int64_t mebibyte = std::int64_t{1} << 20;
constexpr std::int64_t cuda_context = 512 * mebibyte;
constexpr std::int64_t cublas_workspace = 8'519'680;  // LibTorch's default, `:4096:2:16:8`
constexpr std::size_t roles = 7;
constexpr std::int64_t most_samples = std::int64_t{1} << 40;  // of a step

/// Channels that oneDNN's blocked layouts hold together (of AVX-512).
constexpr std::int64_t channel_block = 16;

/// Rows and columns of the widest window for which oneDNN has kernels of its own.
constexpr std::int64_t widest_window = 14;

double usable_bytes(const Device& device, double margin) {
  const std::optional<double> memory = device.memory_bytes();
  if (!memory) throw InputError(fmt::format("device {} has no known memory", device.name));
  return *memory * (1 - margin);
}

/// Replays the life of every tensor.
class Replay {
 public:
  Replay(const OpGraph& graph, Allocator allocator, int threads)
      : graph_(graph), caching_(allocator == Allocator::caching), threads_(threads) {
    const std::size_t count = graph.tensors().size();
    first_use_.assign(count, never);
    last_use_.assign(count, 0);
    held_.assign(count, false);
    block_.assign(count, CachingAllocator::no_block);
    alive_.assign(count, false);
    find_uses();
  }

  MemoryEstimate run() {
    if (caching_) allocate_bytes(cublas_workspace);
    for (TensorId id = 0; id < graph_.tensors().size(); ++id) {
      if (is_permanent(graph_.tensors()[id].role) && graph_.tensors()[id].storage == id) allocate(id);
    }
    for (int step = 0; step < 2; ++step) {  // optimizer state comes into being in the first
      for (std::size_t i = 0; i < graph_.ops().size(); ++i) execute(i);
      free_after_step();
    }
    MemoryEstimate estimate;
    estimate.parameters = bytes_at_peak_[static_cast<std::size_t>(TensorRole::parameter)] +
                          bytes_at_peak_[static_cast<std::size_t>(TensorRole::buffer)];
    estimate.gradients = bytes_at_peak_[static_cast<std::size_t>(TensorRole::gradient)];
    estimate.optimizer = bytes_at_peak_[static_cast<std::size_t>(TensorRole::optimizer_state)];
    estimate.activations = bytes_at_peak_[static_cast<std::size_t>(TensorRole::input)] +
                           bytes_at_peak_[static_cast<std::size_t>(TensorRole::activation)] +
                           bytes_at_peak_[static_cast<std::size_t>(TensorRole::temporary)];
    estimate.workspace = workspace_at_peak_;
    if (caching_) {
      estimate.context = cuda_context;
      estimate.workspace = memory_.reserved() - peak_;
    }
    estimate.peak_bytes = estimate.parameters + estimate.gradients + estimate.optimizer + estimate.activations +
                          estimate.workspace + estimate.context;
    return estimate;
  }

 private:
  static constexpr std::size_t never = static_cast<std::size_t>(-1);

  static bool is_permanent(TensorRole role) {
    return role == TensorRole::parameter || role == TensorRole::buffer || role == TensorRole::input;
  }

  void find_uses() {
    for (std::size_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      const auto use = [&](TensorId id) {
        if (id == no_tensor) return;
        const TensorId storage = graph_.tensors()[id].storage;
        first_use_[storage] = std::min(first_use_[storage], i);
        last_use_[storage] = i;
        if (op.phase == Phase::loss) held_[storage] = held_[storage] || is_result(op, storage, i);
      };
      for (const TensorId id : graph_.inputs(op)) use(id);
      for (const TensorId id : graph_.outputs(op)) use(id);
    }
  }

  /// What the training loop holds until the step is over: the logits, and the loss, a scalar.
  [[nodiscard]] bool is_result(const Op& op, TensorId storage, std::size_t i) const {
    return first_use_[storage] < i ? graph_.ops()[first_use_[storage]].phase == Phase::forward
                                   : op.kind == OpKind::nll_loss;
  }

  void allocate_bytes(std::int64_t bytes) { static_cast<void>(memory_.allocate(bytes)); }

  void allocate(TensorId storage) {
    const Tensor& tensor = graph_.tensors()[storage];
    alive_[storage] = true;
    if (caching_) block_[storage] = memory_.allocate(tensor.bytes);
    bytes_[static_cast<std::size_t>(tensor.role)] += tensor.bytes;
    now_ += tensor.bytes;
  }

  void free(TensorId storage) {
    const Tensor& tensor = graph_.tensors()[storage];
    alive_[storage] = false;
    if (caching_) memory_.free(block_[storage]);
    bytes_[static_cast<std::size_t>(tensor.role)] -= tensor.bytes;
    now_ -= tensor.bytes;
  }

  void note(std::int64_t workspace) {
    if (now_ + workspace <= peak_) return;
    peak_ = now_ + workspace;
    workspace_at_peak_ = workspace;
    std::copy(bytes_, bytes_ + roles, bytes_at_peak_);
  }

  [[nodiscard]] std::int64_t bytes_of(TensorId id) const { return id == no_tensor ? 0 : graph_.bytes(id); }

  /// Bytes of a copy in oneDNN's layout: channels (axis 1 of images, both channel axes of weights) are filled up.
  [[nodiscard]] std::int64_t blocked(TensorId id, bool weight) const {
    if (id == no_tensor) return 0;
    const Shape& shape = graph_.shape(id);
    double bytes = static_cast<double>(graph_.bytes(id));
    for (std::size_t axis = weight ? 0 : 1; axis < 2; ++axis) {
      const std::int64_t channels = shape[axis];
      if (channels < channel_block) continue;
      const std::int64_t filled = (channels + channel_block - 1) / channel_block * channel_block;
      bytes *= static_cast<double>(filled) / static_cast<double>(channels);
    }
    return static_cast<std::int64_t>(bytes);
  }

  /// A view of a tensor that ends in the channels, as permuting images makes it.
  [[nodiscard]] bool channels_last(TensorId id) const {
    const TensorId storage = graph_.tensors()[id].storage;
    if (storage == id || graph_.shape(storage).rank() == 0) return false;
    return graph_.shape(storage) != graph_.shape(id) && graph_.shape(storage).back() == graph_.shape(id)[1];
  }

  /// Whether LibTorch convolves by itself rather than by oneDNN (ConvParams::use_mkldnn in
  /// ATen/native/Convolution.cpp).
  [[nodiscard]] bool is_native(TensorId image, TensorId weight, TensorId result) const {
    if (graph_.tensors()[image].type == DataType::f64) return true;
    const Shape& in = graph_.shape(image);
    const Shape& window = graph_.shape(weight);
    const bool one = window[2] == 1 && window[3] == 1;
    if (one && in[2] == graph_.shape(result)[2] && in[0] < 16 && threads_ == 1) return true;
    const bool grouped = window[1] != in[1];
    const bool wide = window[2] > 3 && window[3] > 3;
    return !grouped && !wide && in[0] == 1 && in.numel() <= 20'480;
  }

  /// Bytes of the matrix of windows that a native convolution multiplies; a 1x1 window's is the image itself.
  [[nodiscard]] std::int64_t columns(TensorId image, TensorId weight, TensorId result) const {
    const Shape& window = graph_.shape(weight);
    const Shape& out = graph_.shape(result);
    if (window[2] == 1 && window[3] == 1 && graph_.shape(image)[2] == out[2]) return 0;
    return out[0] * out[2] * out[3] * window[1] * window[2] * window[3] * size_of(graph_.tensors()[image].type);
  }

  /// What convolutions hold beside their operands and results on a CPU.
  void note_convolution(const Op& op) {
    const bool forward = op.kind == OpKind::convolution;
    if (!forward && op.kind != OpKind::convolution_backward) return;
    const auto inputs = graph_.inputs(op);
    const TensorId image = inputs[forward ? 0 : 1];
    const TensorId weight = inputs[forward ? 1 : 2];
    const TensorId result = forward ? graph_.outputs(op)[0] : inputs[0];
    if (is_native(image, weight, result)) {
      std::int64_t made = 0;
      for (const TensorId id : graph_.outputs(op)) {
        made += bytes_of(id);
        note(columns(image, weight, result) + made);
      }
    } else {
      note_copies(op);
    }
  }

  /// oneDNN convolves copies of its operands, one product after the other.
  void note_copies(const Op& op) {
    const auto inputs = graph_.inputs(op);
    const auto outputs = graph_.outputs(op);
    if (op.kind == OpKind::convolution) {
      const std::int64_t out = blocked(outputs[0], false);
      note(std::max(blocked(inputs[0], false) + blocked(inputs[1], true) + out, out + bytes_of(outputs[0])));
    } else {
      const std::int64_t gradient = blocked(inputs[0], false);
      const std::int64_t weight = blocked(inputs[2], true);
      const std::int64_t of_input = blocked(outputs[0], false);
      if (outputs[0] != no_tensor) {
        note(std::max(gradient + weight + of_input, of_input + bytes_of(outputs[0])));
      }
      const Shape& window = graph_.shape(inputs[2]);
      if (outputs[1] != no_tensor && std::min(window[2], window[3]) > widest_window) {
        // By matrices of windows, one image a thread; it books four times the sums of the threads' weight gradients.
        const std::int64_t columns_of_one = columns(inputs[1], inputs[2], inputs[0]) / graph_.shape(inputs[1])[0];
        const std::int64_t of_thread = columns_of_one + 4 * bytes_of(inputs[2]);
        note(bytes_of(outputs[0]) + bytes_of(inputs[0]) + bytes_of(outputs[1]) + threads_ * of_thread);
      } else if (outputs[1] != no_tensor) {
        // Without a kernel for depthwise weights in this layout, each group is filled to a block of its own.
        const bool filled = graph_.shape(inputs[2])[1] == 1 && channels_last(inputs[0]);
        const std::int64_t of_weight = filled ? weight * channel_block * channel_block : weight;
        note(bytes_of(outputs[0]) +
             std::max(gradient + blocked(inputs[1], false) + of_weight, of_weight + bytes_of(outputs[1])));
      }
    }
  }

  void execute(std::size_t i) {
    const Op& op = graph_.ops()[i];
    if (!caching_) note_convolution(op);
    const auto make = [&](TensorId id) {
      if (id != no_tensor && !alive_[graph_.tensors()[id].storage]) allocate(graph_.tensors()[id].storage);
    };
    for (const TensorId id : graph_.inputs(op)) make(id);  // made in place: its operator is the first to name it
    for (const TensorId id : graph_.outputs(op)) make(id);
    note(0);
    const auto release = [&](TensorId id) {
      if (id == no_tensor) return;
      const TensorId storage = graph_.tensors()[id].storage;
      if (last_use_[storage] != i || !alive_[storage] || held_[storage]) return;
      const TensorRole role = graph_.tensors()[storage].role;
      if (role == TensorRole::activation || role == TensorRole::temporary) free(storage);
    };
    for (const TensorId id : graph_.inputs(op)) release(id);
    for (const TensorId id : graph_.outputs(op)) release(id);
  }

  void free_after_step() {
    for (TensorId id = 0; id < graph_.tensors().size(); ++id) {
      const TensorRole role = graph_.tensors()[id].role;
      if (alive_[id] && (role == TensorRole::gradient || held_[id])) free(id);
    }
  }

  const OpGraph& graph_;
  const bool caching_;
  const int threads_;
  std::vector<std::size_t> first_use_, last_use_;  // operators that name a storage
  std::vector<bool> held_, alive_;
  std::vector<CachingAllocator::Block> block_;
  CachingAllocator memory_;
  std::int64_t bytes_[roles] = {};
  std::int64_t bytes_at_peak_[roles] = {};
  std::int64_t now_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t workspace_at_peak_ = 0;
};

}  // namespace

bool MemoryEstimate::fits(const Device& device, double margin) const {
  return static_cast<double>(peak_bytes) <= usable_bytes(device, margin);
}

Allocator allocator_of(const Device& device) {
  const bool cpu = std::find(device.aliases.begin(), device.aliases.end(), "cpu") != device.aliases.end();
  return cpu ? Allocator::exact : Allocator::caching;
}

MemoryEstimate estimate_memory(const OpGraph& graph, Allocator allocator, int threads) {
  return Replay(graph, allocator, threads).run();
}

std::optional<std::int64_t> largest_batch(const std::function<OpGraph(std::int64_t batch)>& step, const Device& device,
                                          double margin) {
  const Allocator allocator = allocator_of(device);
  const double limit = usable_bytes(device, margin);
  const auto peak = [&](std::int64_t batch) {
    return static_cast<double>(estimate_memory(step(batch), allocator).peak_bytes);
  };
  std::int64_t low = 1;
  double at_low = peak(low);
  if (at_low > limit) return std::nullopt;
  // Memory grows nearly in proportion: a line through two batches says where to look.
  std::int64_t high = 2;
  double at_high = peak(high);
  while (at_high <= limit) {
    std::int64_t step_up = 7 * high;  // a small batch may hide in what the allocator takes at once
    if (at_high > at_low) {
      const double slope = (at_high - at_low) / static_cast<double>(high - low);
      step_up = static_cast<std::int64_t>(1.02 * (limit - at_high) / slope) + 1;
    } else if (high > most_samples) {
      throw InputError("the memory of the step does not grow with its batch size");
    }
    low = high;
    at_low = at_high;
    high += step_up;
    at_high = peak(high);
  }
  for (bool halve = false; high - low > 1; halve = !halve) {
    const double share = halve ? 0.5 : (limit - at_low) / (at_high - at_low);
    const auto inside = static_cast<std::int64_t>(share * static_cast<double>(high - low));
    const std::int64_t middle = low + std::clamp<std::int64_t>(inside, 1, high - low - 1);
    const double at_middle = peak(middle);
    (at_middle <= limit ? low : high) = middle;
    (at_middle <= limit ? at_low : at_high) = at_middle;
  }
  return low;
}

std::optional<std::int64_t> largest_batch(Workload workload, const Device& device, double margin) {
  const auto step = [&workload](std::int64_t batch) {
    workload.batch_size = batch;
    return workload.graph();
  };
  return largest_batch(step, device, margin);
}

}  // namespace perfpred
