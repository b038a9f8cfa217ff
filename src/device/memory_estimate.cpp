// SPDX-License-Identifier: Apache-2.0
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/workload.h>

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <span>
#include <utility>
#include <vector>

#include "catalogue/device_table.h"
#include "device/caching_allocator.h"
#include "device/convolution_workspace.h"
#include "step/kept_steps.h"
#include "step/padded_row.h"
#include "step/program.h"
#include "text/enum_names.h"

namespace perfpred {
namespace {

constexpr std::size_t roles = 7;
constexpr std::int64_t max_samples = std::int64_t{1} << 40;  // of a step

/// How far a job's memory lies from the estimate, as shares of what is not parameters or optimizer state: these are
/// known to the byte. Calibrated on jobs of others and of an H200 (docs/notes/counting.md).
struct MemoryErrors {
  double expected;  ///< median of (measured - estimated) / variable
  double upper;     ///< what 95 of 100 jobs stay below
};
constexpr MemoryErrors tensor_errors = {0.01, 0.10};
constexpr MemoryErrors reserved_errors = {0.04, 0.30};
constexpr MemoryErrors cpu_errors = {0, 0.05};
/// Of steps of torch.compile: what the compiler reuses and how it lays tensors out is not followed.
constexpr MemoryErrors compiled_tensor_errors = {0.01, 0.20};
constexpr MemoryErrors compiled_reserved_errors = {0.04, 0.38};

/// What bitsandbytes adds: copies that its products keep, as shares of the same; and of the allocator, as shares of the
/// packed weights, the blocks in which they were loaded before they were packed.
constexpr MemoryErrors nf4_errors = {0.1, 0.6};
constexpr MemoryErrors nf4_loading = {0.7, 1.2};

/// Blocks of other sizes that stay in the allocator where lengths vary, as shares of the activations at their peak.
constexpr MemoryErrors varying_length_errors = {1.2, 2.7};
constexpr double most_kept_blocks = 0.15;  // of the device's memory, expected

/// Of the driver's context and libraries on a GPU: the least and the most that was seen beside PyTorch.
constexpr std::int64_t usual_context_bytes = 900'000'000;  // an H200's with cuBLAS and cuDNN loaded
constexpr std::int64_t context_upper_bytes = 1'600'000'000;

std::int64_t plus_share(std::int64_t bytes, double share, std::int64_t variable) {
  return bytes + static_cast<std::int64_t>(share * static_cast<double>(variable));
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
  /// @param units  of a CPU
  Replay(const OpGraph& graph, const TrainingJob& job, VectorUnits units)
      : graph_(graph), job_(job), units_(units), caching_(job.caching_allocator), lives_(graph.tensors().size()) {
    find_uses();
    find_events();
  }

  MemoryEstimate run() {
    MemoryEstimate estimate;
    if (caching_) allocate_matrix_workspaces();
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
      if (!graph_.frees().empty() || graph_.repeats() > 1) make_earlier_gradients();
      for (std::size_t i = 0; i < graph_.ops().size(); ++i) execute(i);
      free_after_step();
    }
    take_parts(estimate);
    bound(estimate);
    return estimate;
  }

 private:
  static constexpr std::size_t never = static_cast<std::size_t>(-1);

  static bool is_permanent(TensorRole role) {
    return role == TensorRole::parameter || role == TensorRole::buffer || role == TensorRole::input;
  }

  void find_uses() {
    const bool recorded = !graph_.frees().empty();
    for (std::size_t i = 0; i < graph_.ops().size(); ++i) {
      for (const TensorId id : graph_.inputs(graph_.ops()[i])) use(id, i, recorded);
      for (const TensorId id : graph_.outputs(graph_.ops()[i])) use(id, i, recorded);
    }
    if (recorded) {
      take_recorded_frees();
      return;
    }
    for (std::size_t i = 0; i < graph_.ops().size(); ++i) {
      if (!is_second_factor(i)) continue;
      std::size_t& last = lives_[first_factor(i)].last_use;
      last = std::max(last, i);
    }
    if (!job_.compiled && !job_.other_allocator) keep_cached_casts();
  }

  /// Autocast keeps its copies of trained parameters until the program leaves it, behind the loss (PyTorch,
  /// aten/src/ATen/autocast_mode.cpp): also those of a block whose activations are computed anew.
  void keep_cached_casts() {
    const auto& ops = graph_.ops();
    const auto backward = std::ranges::find(ops, Phase::backward, &Op::phase);
    if (backward == ops.begin()) return;
    autocast_ends_ = static_cast<std::size_t>(backward - ops.begin()) - 1;
    for (const Op& op : std::span(ops).first(autocast_ends_)) {
      if (op.kind != OpKind::copy) continue;
      const Tensor &parameter = graph_.tensors()[graph_.inputs(op)[0]], &copy = graph_.tensors()[graph_.outputs(op)[0]];
      if (parameter.role != TensorRole::parameter || parameter.type != DataType::f32 || copy.type == DataType::f32)
        continue;
      std::size_t& last = lives_[copy.storage].last_use;
      if (last >= autocast_ends_) continue;
      last = autocast_ends_;
      cached_casts_.push_back(copy.storage);
    }
  }

  /// Notes that operator i names a tensor.
  void use(TensorId id, std::size_t i, bool recorded) {
    if (id == no_tensor) return;
    const TensorId storage = graph_.tensors()[id].storage;
    lives_[storage].first_use = std::min(lives_[storage].first_use, i);
    lives_[storage].last_use = i;
    if (graph_.ops()[i].phase != Phase::loss || recorded) return;
    const bool is_kept = graph_.tensors()[storage].role != TensorRole::temporary;
    lives_[storage].held = lives_[storage].held || (is_kept && is_result(graph_.ops()[i], storage, i));
  }

  void take_recorded_frees() {
    for (TensorId id = 0; id < graph_.tensors().size(); ++id) {
      lives_[id].last_use = never;
      lives_[id].held =
          !is_permanent(graph_.tensors()[id].role) && graph_.tensors()[id].role != TensorRole::optimizer_state;
    }
    for (const auto& [op, storage] : graph_.frees()) {
      lives_[storage].last_use = op;
      lives_[storage].held = false;
    }
  }

  /// Where a storage's memory may have to be made, and where it is given back, in the order in which this happens.
  void find_events() {
    made_.reserve(graph_.tensors().size());
    gone_.reserve(graph_.tensors().size());
    std::size_t next_free = 0;
    for (std::size_t i = 0; i < graph_.ops().size(); ++i) {
      const Op& op = graph_.ops()[i];
      for (const std::span<const TensorId> operands : {graph_.inputs(op), graph_.outputs(op)}) {
        for (const TensorId id : operands) {
          if (id == no_tensor) continue;
          const TensorId storage = graph_.tensors()[id].storage;
          if (lives_[storage].first_use == i || lives_[storage].last_use < i) made_.push_back(storage);
          if (lives_[storage].last_use == i) free_after(storage, i);
        }
      }
      if (is_second_factor(i)) free_after(first_factor(i), i);
      for (; next_free < graph_.frees().size() && graph_.frees()[next_free].first == i; ++next_free) {
        free_after(graph_.frees()[next_free].second, i);  // not an operand, as autograd's saved tensors
      }
      if (i == autocast_ends_) {
        for (const TensorId cast : cached_casts_) free_after(cast, i);
      }
      events_.push_back({made_.size(), gone_.size()});
    }
  }

  void free_after(TensorId storage, std::size_t op) {
    if (lives_[storage].last_use != op || lives_[storage].held) return;
    const TensorRole role = graph_.tensors()[storage].role;
    const bool recorded = role == TensorRole::gradient && !graph_.frees().empty();
    if (role == TensorRole::activation || role == TensorRole::temporary || recorded) gone_.push_back(storage);
  }

  void take_parts(MemoryEstimate& estimate) const {
    const auto at_peak = [this](TensorRole role) { return bytes_at_peak_[static_cast<std::size_t>(role)]; };
    estimate.parameters = at_peak(TensorRole::parameter) + at_peak(TensorRole::buffer);
    estimate.gradients = at_peak(TensorRole::gradient);
    estimate.optimizer = at_peak(TensorRole::optimizer_state);
    estimate.activations =
        at_peak(TensorRole::input) + at_peak(TensorRole::activation) + at_peak(TensorRole::temporary);
  }

  /// Expected values and upper bounds, from what was replayed.
  void bound(MemoryEstimate& estimate) const {
    const std::int64_t fixed = estimate.parameters + estimate.optimizer;
    const auto raise = [](MemoryBound& bound, const MemoryErrors& errors, std::int64_t bytes) {
      bound.p50 = plus_share(bound.p50, errors.expected, bytes);
      bound.upper = plus_share(bound.upper, errors.upper, bytes);
    };
    estimate.tensors = {peak_, peak_};
    const MemoryErrors& of_tensors = job_.compiled ? compiled_tensor_errors : tensor_errors;
    raise(estimate.tensors, caching_ ? of_tensors : cpu_errors, peak_ - fixed);
    estimate.context = job_.context_bytes;
    if (job_.other_allocator && job_.unpacks_nf4) raise(estimate.tensors, nf4_errors, peak_ - fixed);
    if (!caching_ || job_.other_allocator) {
      estimate.reserved = estimate.tensors;
    } else {
      const std::int64_t reserved = memory_.reserved();
      estimate.reserved = {reserved, reserved};
      raise(estimate.reserved, job_.compiled ? compiled_reserved_errors : reserved_errors, reserved - fixed);
      if (job_.unpacks_nf4) {
        raise(estimate.tensors, nf4_errors, peak_ - fixed);
        raise(estimate.reserved, nf4_errors, peak_ - fixed);
        raise(estimate.reserved, nf4_loading, packed_bytes());
      }
    }
    estimate.device = {estimate.reserved.p50 + estimate.context,
                       estimate.reserved.upper + std::max(estimate.context, caching_ ? context_upper_bytes : 0)};
    if (caching_ && !job_.other_allocator && job_.lengths_vary) keep_blocks(estimate);
    const std::int64_t held = fixed + estimate.gradients + estimate.activations + estimate.loader;
    estimate.workspace = estimate.reserved.p50 - held;
    estimate.peak_bytes = estimate.device.p50;
  }

  /// Of the weights that are packed, with their scales.
  [[nodiscard]] std::int64_t packed_bytes() const {
    std::int64_t bytes = 0;
    for (const Tensor& tensor : graph_.tensors()) {
      if (tensor.role == TensorRole::buffer && tensor.type == DataType::u8) bytes += tensor.bytes;
    }
    return bytes;
  }

  /// Adds the blocks of other sizes that the allocator keeps where lengths vary. Those that are expected fill the
  /// device at most.
  void keep_blocks(MemoryEstimate& estimate) const {
    const std::int64_t reused = peak_ - peak_before_update_;  // the update has what the passes left
    const std::int64_t device = job_.device_bytes > 0 ? job_.device_bytes : std::numeric_limits<std::int64_t>::max();
    const auto add = [](std::int64_t& bytes, std::int64_t kept, std::int64_t most) {
      bytes += std::clamp<std::int64_t>(most - bytes, 0, std::max<std::int64_t>(kept, 0));
    };
    std::int64_t expected = plus_share(-reused, varying_length_errors.expected, activations_at_peak_);
    const std::int64_t upper =
        std::max<std::int64_t>(plus_share(-reused, varying_length_errors.upper, activations_at_peak_), 0);
    if (job_.device_bytes > 0) expected = std::min(expected, plus_share(0, most_kept_blocks, job_.device_bytes));
    add(estimate.reserved.p50, expected, device - estimate.context);
    add(estimate.device.p50, expected, device);
    estimate.reserved.upper += upper;
    estimate.device.upper += upper;
    estimate.given_back = upper;
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
    return lives_[storage].first_use < i ? graph_.ops()[lives_[storage].first_use].phase == Phase::forward
                                         : op.kind == OpKind::nll_loss;
  }

  /// LibTorch has a handle for each thread that multiplies matrices: that of the forward pass and autograd's.
  void allocate_matrix_workspaces() {
    for (const Phase phase : {Phase::forward, Phase::backward}) {
      const bool multiplies = std::any_of(graph_.ops().begin(), graph_.ops().end(), [phase](const Op& op) {
        return op.phase == phase && is_conv_or_matmul(op.kind) && !is_convolution(op.kind);
      });
      if (!multiplies) continue;
      static_cast<void>(memory_.allocate(job_.matrix_workspace_bytes));
      now_ += job_.matrix_workspace_bytes;
    }
  }

  void allocate(TensorId storage) {
    const Tensor& tensor = graph_.tensors()[storage];
    lives_[storage].alive = true;
    if (caching_) lives_[storage].block = memory_.allocate(tensor.bytes);
    bytes_[static_cast<std::size_t>(tensor.role)] += tensor.bytes;
    now_ += tensor.bytes;
  }

  void free(TensorId storage) {
    const Tensor& tensor = graph_.tensors()[storage];
    lives_[storage].alive = false;
    if (caching_) memory_.free(lives_[storage].block);
    bytes_[static_cast<std::size_t>(tensor.role)] -= tensor.bytes;
    now_ -= tensor.bytes;
  }

  void note(std::int64_t workspace, Phase phase) {
    if (phase != Phase::optimizer) {
      const auto held = [this](TensorRole role) { return bytes_[static_cast<std::size_t>(role)]; };
      peak_before_update_ = std::max(peak_before_update_, now_ + workspace);
      activations_at_peak_ =
          std::max(activations_at_peak_, held(TensorRole::activation) + held(TensorRole::temporary) + workspace);
    }
    if (now_ + workspace <= peak_) return;
    peak_ = now_ + workspace;
    std::copy(bytes_, bytes_ + roles, bytes_at_peak_);
  }

  /// The bytes that a GPU's libraries take while an operator runs; they come from the allocator and go back to it.
  std::int64_t take_workspace(const Op& op) {
    const std::int64_t bytes = job_.cudnn ? cudnn_workspace(graph_, op, job_.tf32_convolutions) : 0;
    if (bytes > 0) memory_.free(memory_.allocate(bytes));
    return bytes;
  }

  void execute(std::size_t i) {
    const Op& op = graph_.ops()[i];
    if (!caching_) note(convolution_workspace(graph_, op, job_.threads, units_), op.phase);
    const Events before = i == 0 ? Events{} : events_[i - 1], after = events_[i];
    for (std::size_t k = before.made; k < after.made; ++k) {  // in place: its operator is the first to name it
      if (!lives_[made_[k]].alive) allocate(made_[k]);
    }
    note(caching_ ? take_workspace(op) : rnn_workspace(graph_, op), op.phase);
    for (std::size_t k = before.gone; k < after.gone; ++k) {
      if (lives_[gone_[k]].alive) free(gone_[k]);
    }
  }

  /// Gradients that no operator makes, of the step or the batches before: the step clears them or adds to them.
  void make_earlier_gradients() {
    for (TensorId id = 0; id < graph_.tensors().size(); ++id) {
      const Tensor& tensor = graph_.tensors()[id];
      if (tensor.role != TensorRole::gradient || tensor.storage != id || lives_[id].alive) continue;
      const auto names = [&](TensorId other) { return other != no_tensor && graph_.tensors()[other].storage == id; };
      const bool made = lives_[id].first_use != never &&
                        std::ranges::none_of(graph_.inputs(graph_.ops()[lives_[id].first_use]), names);
      if (!made) allocate(id);
    }
  }

  void free_after_step() {
    for (TensorId id = 0; id < graph_.tensors().size(); ++id) {
      const TensorRole role = graph_.tensors()[id].role;
      if (lives_[id].alive && (role == TensorRole::gradient || lives_[id].held)) free(id);
    }
  }

  const OpGraph& graph_;
  const TrainingJob& job_;
  const VectorUnits units_;
  const bool caching_;
  struct Life {
    std::size_t first_use = never, last_use = 0;  // operators that name it
    CachingAllocator::Block block = CachingAllocator::no_block;
    bool held = false, alive = false;
  };
  std::vector<Life> lives_;             // by storage
  std::size_t autocast_ends_ = never;   // behind this operator
  std::vector<TensorId> cached_casts_;  // storages that live until then
  struct Events {
    std::size_t made = 0, gone = 0;
  };
  std::vector<TensorId> made_, gone_;  // storages
  std::vector<Events> events_;         // by operator: the ends of its part of the two
  CachingAllocator memory_;
  std::int64_t bytes_[roles] = {};
  std::int64_t bytes_at_peak_[roles] = {};
  std::int64_t now_ = 0;
  std::int64_t peak_ = 0;
  std::int64_t peak_before_update_ = 0;   // of the passes
  std::int64_t activations_at_peak_ = 0;  // their most
};

/// A largest batch that a thread found: requests of one network ask for it again and again, whatever their batch.
struct FoundBatch {
  Workload workload;      // of one sample
  std::uint64_t version;  // of its program
  Device device;
  std::int64_t reserved_by_others;
  std::optional<std::int64_t> largest;
};
constexpr std::size_t max_found_batches = 64;

/// The last found last.
std::vector<FoundBatch>& found_batches() {
  thread_local std::vector<FoundBatch> found;
  return found;
}

/// largest_batch() by the bytes that a job needs at a batch size.
template <class Bytes>
std::optional<std::int64_t> largest_of(const Device& device, std::int64_t reserved_by_others, const Bytes& bytes) {
  const std::optional<std::int64_t> usable = device.usable_bytes();
  if (!usable) throw InputError(fmt::format("the memory size of device \"{}\" is unknown", device.name));
  const std::int64_t limit = *usable - reserved_by_others;
  std::int64_t low = 0, high = 1;  // the first fits, the second does not
  std::int64_t at_low = 0, at_high = bytes(high);
  for (; at_high <= limit; at_high = bytes(high)) {
    if (high > max_samples) throw InputError("the memory of the step does not grow with its batch size");
    // Memory is nearly a line over the batch: one step beyond where it would reach the limit, at most 64 times as far.
    const double slope = low > 0 ? static_cast<double>(at_high - at_low) / static_cast<double>(high - low) : 0;
    const double ahead = slope > 0 ? static_cast<double>(limit - at_high) / slope + 1 : static_cast<double>(high);
    low = high;
    at_low = at_high;
    high += static_cast<std::int64_t>(std::clamp(ahead, 1.0, 64.0 * static_cast<double>(high)));
  }
  while (high - low > 1) {
    const double share = static_cast<double>(limit - at_low) / static_cast<double>(at_high - at_low);
    const auto guess = low + static_cast<std::int64_t>(share * static_cast<double>(high - low));
    const std::int64_t next = low == 0 ? low + (high - low) / 2 : std::clamp(guess, low + 1, high - 1);
    const std::int64_t at_next = bytes(next);
    (at_next <= limit ? low : high) = next;
    (at_next <= limit ? at_low : at_high) = at_next;
  }
  return low > 0 ? std::optional(low) : std::nullopt;
}

}  // namespace

std::string_view to_string(MemoryVerdict verdict) { return enumerator_name_of<MemoryVerdict::does_not_fit>(verdict); }

std::optional<MemoryVerdict> MemoryEstimate::verdict(const Device& on, std::int64_t reserved_by_others) const {
  const std::optional<std::int64_t> usable = on.usable_bytes();
  if (!usable) return std::nullopt;
  const std::int64_t left = *usable - reserved_by_others;
  if (needed() <= left) return MemoryVerdict::fits;
  return tensors.p50 + context <= left ? MemoryVerdict::only_just : MemoryVerdict::does_not_fit;
}

std::optional<TrainingJob> TrainingJob::on(const Device& device, Precision precision) {
  TrainingJob job;
  switch (device.kind) {
    case DeviceKind::cpu:
      if (device.sms) job.threads = std::max(1, static_cast<int>(*device.sms));
      if (is_this_cpu(device)) job.vector_bits = this_cpu_vector_bits();
      return job;
    case DeviceKind::gpu:
      job.caching_allocator = true;
      job.context_bytes = usual_context_bytes;
      job.cudnn = device.vendor != "AMD";
      job.tf32_convolutions = device.tf32_tflops && precision != Precision::fp32;
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

std::optional<TrainingJob> TrainingJob::of(const Workload& workload, const Device& device) {
  std::optional<TrainingJob> job = on(device, workload.precision);
  if (!job) return job;
  job->threads = workload.threads.value_or(job->threads);
  job->lengths_vary = workload.padding == Padding::padded;
  job->other_allocator = device.kind == DeviceKind::gpu && workload.software != Software::pytorch;
  job->unpacks_nf4 = workload.weights == Weights::nf4;
  job->compiled = compiler_of(workload) == Compiler::inductor;
  job->device_bytes = device.usable_bytes().value_or(0);
  return job;
}

MemoryEstimate estimate_memory(const ExecutedStep& step, const TrainingJob& job) {
  if (job.threads < 1 || job.loader_batches < 1) throw InputError("a training job has at least one thread and batch");
  if (job.matrix_workspace_bytes < 0 || job.context_bytes < 0) throw InputError("a training job's bytes are negative");
  if (job.vector_bits != 0 && job.vector_bits != 256 && job.vector_bits != 512)
    throw InputError(fmt::format("a CPU's registers of {} bits are neither AVX2's nor AVX-512's", job.vector_bits));
  const auto with = [&](VectorUnits units) { return Replay(step.graph(), job, units).run(); };
  MemoryEstimate estimate = with(job.vector_bits == 256 ? VectorUnits::avx2 : VectorUnits::avx512);
  if (job.caching_allocator || job.vector_bits == 512) return estimate;
  const MemoryEstimate most = with(VectorUnits::avx2_most);
  for (MemoryBound MemoryEstimate::*bound :
       {&MemoryEstimate::tensors, &MemoryEstimate::reserved, &MemoryEstimate::device})
    (estimate.*bound).upper = std::max((estimate.*bound).upper, (most.*bound).upper);
  return estimate;
}

std::optional<std::int64_t> largest_batch(const std::function<OpGraph(std::int64_t batch)>& step,
                                          const TrainingJob& job, const Device& device,
                                          std::int64_t reserved_by_others) {
  if (!step) throw InputError("largest_batch: the function is empty");
  return largest_of(device, reserved_by_others, [&](std::int64_t batch) {
    return estimate_memory(execute(step(batch), device.kind), job).needed();
  });
}

std::optional<std::int64_t> largest_batch(Workload workload, const Device& device, std::int64_t reserved_by_others) {
  const std::optional<TrainingJob> job = TrainingJob::of(workload, device);
  if (!job) throw InputError(fmt::format("how device \"{}\" allocates memory is unknown", device.name));
  workload.batch_size = 1;
  workload.train_images = 1;
  const std::uint64_t version = Program::version(workload.network);
  std::vector<FoundBatch>& found = found_batches();
  const auto known = std::ranges::find_if(found, [&](const FoundBatch& one) {
    return one.version == version && one.workload == workload && one.device == device &&
           one.reserved_by_others == reserved_by_others;
  });
  if (known != found.end()) return known->largest;
  Workload tried = workload;
  const std::optional<std::int64_t> largest = largest_of(device, reserved_by_others, [&](std::int64_t batch) {
    tried.batch_size = batch;
    return estimate_memory(*executed_step(tried, device.kind), *job).needed();
  });
  if (found.size() == max_found_batches) found.erase(found.begin());
  found.push_back({std::move(workload), version, device, reserved_by_others, largest});
  return largest;
}

}  // namespace perfpred
