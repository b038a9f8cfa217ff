// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <vector>

#include "device/caching_allocator.h"
#include "device/convolution_workspace.h"
#include "step/padded_row.h"

namespace perfpred {
namespace {

constexpr std::size_t roles = 7;
constexpr std::int64_t max_samples = std::int64_t{1} << 40;  // of a step

double usable_bytes(const Device& device, double margin) {
  const std::optional<double> memory = device.memory_bytes();
  if (!memory) throw InputError(fmt::format("the memory size of device \"{}\" is unknown", device.name));
  if (!(margin >= 0 && margin <= 1)) throw InputError(fmt::format("margin {} is not in 0..1", margin));
  return *memory * (1 - margin);
}

/// What oneDNN holds while it computes a layer of an LSTM in one direction: its weights transposed, in the backward
/// pass their gradients so and the weights in padded rows; the gates of all positions. Such an operator has a workspace
/// of bytes. Measured with LibTorch 2.11.
std::int64_t rnn_workspace(const OpGraph& graph, const Op& op) {
  const bool backward = op.kind == OpKind::rnn_backward;
  if (!backward && op.kind != OpKind::rnn) return 0;
  const auto in = graph.inputs(op), out = graph.outputs(op);
  const auto rank = [&](std::size_t i) { return graph.shape(in[i]).rank(); };
  if (in.size() < 3 || (!backward && out.empty()) || rank(0) < 2 || rank(1) < 2 || rank(2) < 2) return 0;
  const TensorId kept = backward ? in.back() : out.back();
  if (kept == no_tensor || graph.tensors()[kept].type != DataType::u8) return 0;
  const std::int64_t gates = graph.shape(in[1])[0];
  const std::int64_t samples = graph.shape(in[0])[1], rows = graph.shape(in[0])[0] * samples;
  std::int64_t floats = rows * padded_row(gates) + 2 * samples * padded_row(gates / 4);
  for (const TensorId weight : {in[1], in[2]}) {
    const std::int64_t width = graph.shape(weight)[1];
    floats += width * padded_row(gates);
    if (backward && padded_row(width) != width) floats += gates * padded_row(width);
  }
  return floats * size_of(op.type);
}

/// Replays the life of every tensor.
class Replay {
 public:
  Replay(const OpGraph& graph, const TrainingJob& job) : graph_(graph), job_(job), caching_(job.caching_allocator) {
    const std::size_t count = graph.tensors().size();
    first_use_.assign(count, never);
    last_use_.assign(count, 0);
    held_.assign(count, false);
    block_.assign(count, CachingAllocator::no_block);
    alive_.assign(count, false);
    find_uses();
  }

  MemoryEstimate run() {
    if (caching_) allocate_matrix_workspaces();
    MemoryEstimate estimate;
    for (TensorId id = 0; id < graph_.tensors().size(); ++id) {
      const Tensor& tensor = graph_.tensors()[id];
      if (!is_permanent(tensor.role) || tensor.storage != id) continue;
      allocate(id);
      for (int ahead = 1; tensor.role == TensorRole::input && ahead < job_.loader_batches; ++ahead) {
        if (caching_) static_cast<void>(memory_.allocate(tensor.bytes));
        estimate.loader += tensor.bytes;
      }
    }
    now_ += estimate.loader;
    for (int step = 0; step < 2; ++step) {  // the first step makes the optimizer's state
      next_free_ = 0;
      if (graph_.repeats() > 1) make_gradients();
      for (std::size_t i = 0; i < graph_.ops().size(); ++i) execute(i);
      free_after_step();
    }
    const auto at_peak = [this](TensorRole role) { return bytes_at_peak_[static_cast<std::size_t>(role)]; };
    estimate.parameters = at_peak(TensorRole::parameter) + at_peak(TensorRole::buffer);
    estimate.gradients = at_peak(TensorRole::gradient);
    estimate.optimizer = at_peak(TensorRole::optimizer_state);
    estimate.activations =
        at_peak(TensorRole::input) + at_peak(TensorRole::activation) + at_peak(TensorRole::temporary);
    estimate.workspace = caching_ ? memory_.reserved() - peak_ : workspace_at_peak_;
    estimate.context = job_.context_bytes;
    estimate.peak_bytes = estimate.parameters + estimate.gradients + estimate.optimizer + estimate.activations +
                          estimate.loader + estimate.workspace + estimate.context;
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
        if (op.phase == Phase::loss && graph_.frees().empty()) {
          const bool is_kept = graph_.tensors()[storage].role != TensorRole::temporary;
          held_[storage] = held_[storage] || (is_kept && is_result(op, storage, i));
        }
      };
      for (const TensorId id : graph_.inputs(op)) use(id);
      for (const TensorId id : graph_.outputs(op)) use(id);
    }
    for (std::size_t i = 0; i < graph_.ops().size() && graph_.frees().empty(); ++i) {
      if (!is_second_factor(i)) continue;
      std::size_t& last = last_use_[first_factor(i)];
      last = std::max(last, i);
    }
    if (graph_.frees().empty()) return;
    for (TensorId id = 0; id < graph_.tensors().size(); ++id) {
      last_use_[id] = never;
      held_[id] = !is_permanent(graph_.tensors()[id].role) && graph_.tensors()[id].role != TensorRole::optimizer_state;
    }
    for (const auto& [op, storage] : graph_.frees()) {
      last_use_[storage] = op;
      held_[storage] = false;
    }
  }

  /// Whether an operator gives the second gradient of a product whose first one the operator before it gave. Autograd
  /// keeps both factors until it has both.
  [[nodiscard]] bool is_second_factor(std::size_t i) const {
    if (i == 0) return false;
    const Op &before = graph_.ops()[i - 1], &op = graph_.ops()[i];
    if (op.kind != OpKind::mul || before.kind != OpKind::mul || op.phase != Phase::backward) return false;
    const auto first = graph_.inputs(before), second = graph_.inputs(op);
    const auto storage = [&](TensorId id) { return graph_.tensors()[id].storage; };
    return first.size() == 2 && second.size() == 2 && storage(first[0]) == storage(second[0]);
  }
  [[nodiscard]] TensorId first_factor(std::size_t i) const {
    return graph_.tensors()[graph_.inputs(graph_.ops()[i - 1])[1]].storage;
  }

  /// What the training loop holds until the step is over: the logits, and the loss, a scalar.
  [[nodiscard]] bool is_result(const Op& op, TensorId storage, std::size_t i) const {
    return first_use_[storage] < i ? graph_.ops()[first_use_[storage]].phase == Phase::forward
                                   : op.kind == OpKind::nll_loss;
  }

  /// LibTorch has a handle for each thread that multiplies matrices: that of the forward pass and autograd's.
  void allocate_matrix_workspaces() {
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      const bool multiplies = std::any_of(graph_.ops().begin(), graph_.ops().end(), [phase](const Op& op) {
        return op.phase == phase && is_conv_or_matmul(op.kind) && !is_convolution(op.kind);
      });
      if (multiplies) static_cast<void>(memory_.allocate(job_.matrix_workspace_bytes));
    }
  }

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

  void execute(std::size_t i) {
    const Op& op = graph_.ops()[i];
    if (!caching_) note(convolution_workspace(graph_, op, job_.threads));
    const auto make = [&](TensorId id) {
      if (id != no_tensor && !alive_[graph_.tensors()[id].storage]) allocate(graph_.tensors()[id].storage);
    };
    for (const TensorId id : graph_.inputs(op)) make(id);  // made in place: its operator is the first to name it
    for (const TensorId id : graph_.outputs(op)) make(id);
    note(caching_ ? 0 : rnn_workspace(graph_, op));
    const auto release = [&](TensorId id) {
      if (id == no_tensor) return;
      const TensorId storage = graph_.tensors()[id].storage;
      if (last_use_[storage] != i || !alive_[storage] || held_[storage]) return;
      const TensorRole role = graph_.tensors()[storage].role;
      if (role == TensorRole::activation || role == TensorRole::temporary) free(storage);
    };
    for (const TensorId id : graph_.inputs(op)) release(id);
    for (const TensorId id : graph_.outputs(op)) release(id);
    if (is_second_factor(i)) release(first_factor(i));
    for (; next_free_ < graph_.frees().size() && graph_.frees()[next_free_].first == i; ++next_free_) {
      release(graph_.frees()[next_free_].second);  // not an operand, as autograd's saved tensors
    }
  }

  /// Of the batches before, whose sums later ones are added to.
  void make_gradients() {
    for (TensorId id = 0; id < graph_.tensors().size(); ++id) {
      const Tensor& tensor = graph_.tensors()[id];
      if (tensor.role == TensorRole::gradient && tensor.storage == id && !alive_[id]) allocate(id);
    }
  }

  void free_after_step() {
    for (TensorId id = 0; id < graph_.tensors().size(); ++id) {
      const TensorRole role = graph_.tensors()[id].role;
      if (alive_[id] && (role == TensorRole::gradient || held_[id])) free(id);
    }
  }

  const OpGraph& graph_;
  const TrainingJob& job_;
  const bool caching_;
  std::vector<std::size_t> first_use_, last_use_;  // operators that name a storage
  std::vector<bool> held_, alive_;
  std::vector<CachingAllocator::Block> block_;
  CachingAllocator memory_;
  std::size_t next_free_ = 0;  // index into the graph's frees
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

std::optional<TrainingJob> TrainingJob::on(const Device& device) {
  TrainingJob job;
  switch (device.kind) {
    case DeviceKind::cpu:
      if (device.sms) job.threads = std::max(1, static_cast<int>(*device.sms));
      return job;
    case DeviceKind::gpu:
      job.caching_allocator = true;
      job.context_bytes = 512 * mebibyte;
      if (device.vendor == "AMD") {  // parseChosenWorkspaceSize in ATen/cuda/CublasHandlePool.cpp
        job.matrix_workspace_bytes = (device.arch == "CDNA3" ? 128 : 32) * mebibyte;
      } else {
        const bool large = device.arch == "Hopper" || device.arch == "Blackwell";
        job.matrix_workspace_bytes = large ? 32 * mebibyte : 8'519'680;
      }
      return job;
    case DeviceKind::other:
      break;
  }
  return std::nullopt;
}

MemoryEstimate estimate_memory(const ExecutedStep& step, const TrainingJob& job) {
  if (job.threads < 1 || job.loader_batches < 1) throw InputError("a training job has at least one thread and batch");
  if (job.matrix_workspace_bytes < 0 || job.context_bytes < 0) throw InputError("a training job's bytes are negative");
  return Replay(step.graph(), job).run();
}

std::optional<std::int64_t> largest_batch(const std::function<OpGraph(std::int64_t batch)>& step,
                                          const TrainingJob& job, const Device& device, double margin) {
  const double limit = usable_bytes(device, margin);
  const auto fits = [&](std::int64_t batch) {
    return static_cast<double>(estimate_memory(execute(step(batch), device.kind), job).peak_bytes) <= limit;
  };
  std::int64_t low = 0, high = 1;  // the first fits, the second does not
  for (; fits(high); high *= 2) {
    if (high > max_samples) throw InputError("the memory of the step does not grow with its batch size");
    low = high;
  }
  while (high - low > 1) {
    const std::int64_t middle = low + (high - low) / 2;
    (fits(middle) ? low : high) = middle;
  }
  return low > 0 ? std::optional(low) : std::nullopt;
}

std::optional<std::int64_t> largest_batch(Workload workload, const Device& device, double margin) {
  std::optional<TrainingJob> job = TrainingJob::on(device);
  if (!job) throw InputError(fmt::format("how device \"{}\" allocates memory is unknown", device.name));
  if (workload.threads) job->threads = *workload.threads;
  const auto step = [&](std::int64_t batch) {
    workload.batch_size = batch;
    return workload.graph();
  };
  return largest_batch(step, *job, device, margin);
}

}  // namespace perfpred
