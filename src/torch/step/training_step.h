// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/Device.h>
#include <perfpred/vocabulary.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "torch/data/batch_loader.h"
#include "torch/device/named_tensors.h"
#include "torch/distributed/data_parallel.h"
#include "torch/network/trainable_network.h"
#include "torch/step/gradient_scaler.h"
#include "torch/step/loss.h"
#include "torch/step/parameter_update.h"

namespace perfpred {

struct StepOptions {
  double learning_rate = 0;
  double weight_decay = 0;
  Loss loss;
  std::uint64_t seed = 0;  ///< of the initial weights
  bool metrics = true;     ///< sum up loss and correct answers in every step; without, a GPU draws its initial weights
};

/// Mean loss and accuracy over the samples seen.
struct Metrics {
  double loss = 0;
  double accuracy = 0;
};

/// A batch's place among the batches whose gradients one update sums up.
struct UpdateShare {
  double weight = 1;  ///< of its loss in theirs
  bool first = true, last = true;
};

/// A network and its optimizer on a device, trained one batch at a time: forward, loss, backward, update, with the
/// workload's precision and layout. Nothing in a step waits for the device.
class TrainingStep {
 public:
  /// @param network  null: the workload's, of the zoo
  /// @param ranks    those that train it together, which have to outlive the step; null: this process alone
  /// @throws InputError for a network, input or precision that the device cannot run
  TrainingStep(const Workload& workload, c10::Device device, const StepOptions& options,
               std::unique_ptr<TrainableNetwork> network = nullptr, RankGroup* ranks = nullptr);
  ~TrainingStep();
  TrainingStep(const TrainingStep&) = delete;
  TrainingStep& operator=(const TrainingStep&) = delete;

  /// @param share  of an update of several batches; not with a CUDA graph, which holds a whole step
  /// @throws OutOfMemory, DeviceError
  void run(const Batch& batch, const UpdateShare& share = {});

  /// The same without replaying or capturing a CUDA graph; counts among the steps that precede the capture.
  void run_eagerly(const Batch& batch, const UpdateShare& share = {});

  /// @throws Error once a CUDA graph holds the rate
  void set_learning_rate(double rate);

  /// Called at the end of each phase of a step, on the thread that runs it.
  void on_phase(std::function<void(Phase)> callback) { on_phase_ = std::move(callback); }

  /// Called as backward begins (true) and ends (false) on the thread that launches its kernels: autograd's own on CUDA.
  void on_backward_thread(std::function<void(bool)> callback) { on_backward_thread_ = std::move(callback); }

  /// Of the training batches since the last call, zeros without StepOptions::metrics; waits for the device.
  [[nodiscard]] Metrics take_metrics();

  /// Forward only, in evaluation mode. Waits for the device.
  /// @param stop  asked before every batch; nothing is returned once it says true
  [[nodiscard]] std::optional<Metrics> evaluate(BatchLoader& loader, const ImageSource& images,
                                                const std::function<bool()>& stop);

  /// Whether the whole step is replayed from a CUDA graph by now.
  [[nodiscard]] bool captured() const;

  /// The parameters of each bucket of gradients that ranks average together, in order; none for one rank.
  [[nodiscard]] std::vector<std::vector<at::Tensor>> buckets() const;

  /// Everything that a later step depends on but random generators: parameters, buffers, optimizer and scaler.
  [[nodiscard]] NamedTensors state() const;

  /// The network's parameters and buffers under its own names.
  [[nodiscard]] NamedTensors network_state() const;

 private:
  struct Graph;

  void compute(const Batch& batch, const UpdateShare& share);
  void update();
  void end_phase(Phase phase) const;
  [[nodiscard]] at::Tensor loss(const at::Tensor& logits, const at::Tensor& targets, const Loss& taken) const;
  [[nodiscard]] Metrics metrics(const at::Tensor& loss_sum, const at::Tensor& correct, std::int64_t samples) const;

  Workload workload_;
  c10::Device device_;
  StepOptions options_;
  std::unique_ptr<TrainableNetwork> network_;
  std::unique_ptr<ParameterUpdate> update_;
  std::unique_ptr<DataParallel> data_parallel_;  // of several ranks
  std::function<void(Phase)> on_phase_;
  std::function<void(bool)> on_backward_thread_;
  at::Tensor loss_sum_, correct_;  // over the samples since the last take_metrics()
  std::int64_t samples_ = 0;
  std::optional<GradientScaler> scaler_;  // of fp16
  std::unique_ptr<Graph> graph_;
  int full_steps_ = 0;
};

/// @throws InputError for a network, precision or layout that one device of its kind cannot train
void check_trainable(const Workload& workload, c10::Device device);

/// Sets what holds for the whole process: where TF32 replaces fp32 (`tf32`: convolutions and matrix products,
/// `default`: convolutions), and that cuDNN chooses kernels by trial.
void apply_precision(Precision precision);

}  // namespace perfpred
