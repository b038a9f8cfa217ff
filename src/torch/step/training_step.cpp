// SPDX-License-Identifier: Apache-2.0
#include "torch/step/training_step.h"

#include <ATen/Context.h>
#include <ATen/TensorOperators.h>
#include <ATen/core/grad_mode.h>
#include <ATen/ops/zeros.h>
#include <perfpred/error.h>

#include <fmt/format.h>
#include <torch/csrc/autograd/engine.h>

#include "torch/device/autocast.h"
#include "torch/device/scalar_types.h"
#include "torch/device/torch_errors.h"
#include "torch/files/checkpoint.h"
#include "torch/step/cuda_graph.h"
#include "workload/workload_columns.h"
#include "workload/world.h"

namespace perfpred {
namespace {

/// Kernels are chosen and memory is laid out in the first steps; none of that may happen inside a graph.
constexpr int steps_before_capture = 11;

}  // namespace

struct TrainingStep::Graph {
  explicit Graph(c10::Device device) : cuda(device) {}
  CudaGraph cuda;
  Batch input;  // where the graph reads
};

void apply_precision(Precision precision) {
  at::globalContext().setAllowTF32CuBLAS(precision == Precision::tf32);
  at::globalContext().setAllowTF32CuDNN(precision == Precision::tf32 || precision == Precision::default_);
  at::globalContext().setBenchmarkCuDNN(true);
}

void check_trainable(const Workload& workload, c10::Device device) {
  if (workload.precision == Precision::unknown) throw InputError("precision unknown cannot be trained with");
  if (device.is_cpu() && workload.precision == Precision::tf32) {
    throw InputError("precision tf32 needs a CUDA device");
  }
  for (const WorkloadColumn& column : workload_columns()) {
    if (!column.only_predicted || column.get(workload) == column.usual) continue;
    throw InputError(fmt::format("{} {} can be predicted, not trained", column.name, column.get(workload)));
  }
  if (workload.optimizer > Optimizer::rmsprop) {
    throw InputError(fmt::format("optimizer {} can be predicted, not trained with", to_string(workload.optimizer)));
  }
  if (device.is_cpu() && workload.cuda_graph) throw InputError("cuda_graph needs a CUDA device");
  if (workload.cuda_graph && workload.accumulate > 1) throw InputError("cuda_graph goes with accumulate 1");
}

TrainingStep::TrainingStep(const Workload& workload, c10::Device device, const StepOptions& options,
                           std::unique_ptr<TrainableNetwork> network, RankGroup* ranks)
    : workload_(workload), device_(device), options_(options), network_(std::move(network)) {
  check_trainable(on_one_device(workload), device);
  if (!network_) {
    network_ = guard_torch([&] { return make_zoo_network(workload, device, options.seed, !options.metrics); });
  }
  apply_precision(workload.precision);
  guard_torch([&] {
    at::manual_seed(options.seed);  // dropout
    std::vector<at::Tensor> learned;
    for (const auto& [name, parameter] : network_->parameters()) {
      if (parameter.requires_grad()) learned.push_back(parameter);
    }
    if (ranks != nullptr) {
      std::vector<at::Tensor> buffers;
      for (const auto& [name, buffer] : network_->buffers()) buffers.push_back(buffer);
      data_parallel_ = std::make_unique<DataParallel>(*ranks, learned, std::move(buffers));
    }
    update_ = std::make_unique<ParameterUpdate>(workload.optimizer, std::move(learned), options.weight_decay);
    const auto scalar = at::TensorOptions().device(device).dtype(at::kFloat);
    loss_sum_ = at::zeros({}, scalar);
    correct_ = at::zeros({}, scalar.dtype(at::kLong));
    if (workload.precision == Precision::fp16) scaler_.emplace(device);
    if (workload.cuda_graph) graph_ = std::make_unique<Graph>(device);
  });
}

TrainingStep::~TrainingStep() = default;

void TrainingStep::end_phase(Phase phase) const {
  if (on_phase_) on_phase_(phase);
}

at::Tensor TrainingStep::loss(const at::Tensor& outputs, const at::Tensor& targets, const Loss& taken) const {
  return network_->loss(outputs, [&](const at::Tensor& logits) { return loss_of(taken, logits, targets); });
}

Metrics TrainingStep::metrics(const at::Tensor& loss_sum, const at::Tensor& correct, std::int64_t samples) const {
  const auto n = static_cast<double>(samples);
  return {loss_sum.item<double>() / n, static_cast<double>(correct.item<std::int64_t>()) / n};
}

void TrainingStep::compute(const Batch& batch, const UpdateShare& share) {
  if (share.first) update_->clear_gradients();
  at::Tensor logits;
  at::Tensor loss;
  if (data_parallel_) data_parallel_->begin_forward(share.last);
  {
    const Autocast autocast(device_.type(), half_type(workload_.precision));
    logits = network_->forward(batch.inputs);
    end_phase(Phase::forward);
    loss = this->loss(logits, batch.targets, options_.loss);
    end_phase(Phase::loss);
  }
  if (on_backward_thread_) {
    loss.register_hook([this](const at::Tensor&) {
      on_backward_thread_(true);
      torch::autograd::Engine::get_default_engine().queue_callback([this] { on_backward_thread_(false); });
    });
  }
  const at::Tensor weighted = share.weight == 1 ? loss : loss * share.weight;
  const at::Tensor scaled = scaler_ ? scaler_->scaled(weighted) : weighted;
  if (data_parallel_) {
    data_parallel_->begin_backward(share.last);
    guard_ranks([&] { scaled.backward(); });
  } else {
    scaled.backward();
  }
  share.last ? update() : end_phase(Phase::backward);
  if (options_.metrics) {
    const at::NoGradGuard no_grad;
    loss_sum_.add_(loss.detach(), options_.loss.sum ? 1 : static_cast<double>(batch.targets.numel()));
    correct_.add_(logits.argmax(-1).eq(batch.targets).sum());
  }
  end_phase(Phase::optimizer);
}

void TrainingStep::update() {
  std::optional<at::Tensor> found_inf;
  if (scaler_) found_inf = scaler_->unscale(update_->gradients());
  end_phase(Phase::backward);
  update_->step(options_.learning_rate, found_inf);
  if (scaler_) scaler_->update();
}

void TrainingStep::set_learning_rate(double rate) {
  if (captured()) throw Error("a CUDA graph holds the learning rate: it cannot change any more");
  options_.learning_rate = rate;
}

void TrainingStep::run_eagerly(const Batch& batch, const UpdateShare& share) {
  guard_torch([&] {
    samples_ += batch.targets.numel();
    if (!graph_) {
      compute(batch, share);
      return;
    }
    graph_->cuda.run([&] { compute(batch, share); });
    full_steps_ += batch.targets.size(0) == workload_.batch_size ? 1 : 0;
  });
}

void TrainingStep::run(const Batch& batch, const UpdateShare& share) {
  if (!graph_ || !share.first || !share.last || batch.targets.size(0) != workload_.batch_size ||
      full_steps_ < steps_before_capture) {
    run_eagerly(batch, share);
    return;
  }
  guard_torch([&] {
    samples_ += batch.targets.numel();
    if (!graph_->cuda.captured()) {
      graph_->input = {batch.inputs.clone(), batch.targets.clone()};
      update_->clear_gradients();
      graph_->cuda.capture([&] { compute(graph_->input, share); });
    }
    graph_->input.inputs.copy_(batch.inputs, /*non_blocking=*/true);
    graph_->input.targets.copy_(batch.targets, /*non_blocking=*/true);
    graph_->cuda.replay();
  });
}

bool TrainingStep::captured() const { return graph_ && graph_->cuda.captured(); }

Metrics TrainingStep::take_metrics() {
  return guard_torch([&] {
    const Metrics taken = metrics(loss_sum_, correct_, samples_);
    loss_sum_.zero_();
    correct_.zero_();
    samples_ = 0;
    return taken;
  });
}

std::optional<Metrics> TrainingStep::evaluate(BatchLoader& loader, const ImageSource& images,
                                              const std::function<bool()>& stop) {
  return guard_torch([&]() -> std::optional<Metrics> {
    const at::NoGradGuard no_grad;
    const Autocast autocast(device_.type(), half_type(workload_.precision));
    network_->train(false);
    at::Tensor loss_sum = at::zeros_like(loss_sum_);
    at::Tensor correct = at::zeros_like(correct_);
    std::int64_t samples = 0;
    loader.start(images, images.size(), std::nullopt);
    while (const auto batch = loader.next()) {
      if (stop()) {
        network_->train(true);
        return std::nullopt;
      }
      const at::Tensor logits = network_->forward(batch->inputs);
      const Loss without_smoothing = {options_.loss.kind, false, 0};
      loss_sum.add_(loss(logits, batch->targets, without_smoothing), static_cast<double>(batch->targets.numel()));
      correct.add_(logits.argmax(-1).eq(batch->targets).sum());
      samples += batch->targets.numel();
    }
    network_->train(true);
    return metrics(loss_sum, correct, samples);
  });
}

std::vector<std::vector<at::Tensor>> TrainingStep::buckets() const {
  return data_parallel_ ? data_parallel_->buckets() : std::vector<std::vector<at::Tensor>>();
}

NamedTensors TrainingStep::network_state() const {
  NamedTensors state = network_->parameters();
  for (auto& buffer : network_->buffers()) state.push_back(std::move(buffer));
  return state;
}

NamedTensors TrainingStep::state() const {
  NamedTensors state;
  for (const auto& [name, tensor] : network_state()) state.emplace_back(std::string(network_prefix) + name, tensor);
  for (const auto& [name, tensor] : update_->state()) state.emplace_back("optimizer." + name, tensor);
  if (scaler_) {
    for (const auto& [name, tensor] : scaler_->state()) state.emplace_back("scaler." + name, tensor);
  }
  return state;
}

}  // namespace perfpred
