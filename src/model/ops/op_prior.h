// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/executed_step.h>
#include <perfpred/op_time_model.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <Eigen/Core>

#include <memory>
#include <optional>
#include <vector>

#include "optime/timed_kernel.h"
#include "statistics/estimate.h"
#include "step/job.h"
#include "workload/workload_hash.h"

namespace perfpred {

/// Features of any network's training step, for the residual process. Each is divided by its length scale: the distance
/// over which errors of the op model were found to be similar.
struct OpFeature {
  enum : int {
    log_batch,
    log_flops,      ///< a sample
    log_intensity,  ///< FLOPs a byte
    log_op_flops,   ///< FLOPs a kernel
    convolution,    ///< share of the bytes, as are those that follow
    depthwise,
    batch_norm,
    elementwise,
    count,
  };
};
using OpFeatures = Eigen::Matrix<double, OpFeature::count, 1>;

/// By a machine's effects: computing, memory, host.
using ByEffect = Eigen::Vector3d;

/// A step or an epoch as an op model expects it.
struct OpStep {
  Estimate time;
  OpFeatures features = OpFeatures::Zero();
  ByEffect slopes = ByEffect::Zero();  ///< of the logarithm of its time, by a standard deviation of each effect
};

/// What one op model was asked for on one device: workloads whose steps are the same kernels share an entry.
struct PredictedSteps {
  ByWorkload<OpStep> steps;        ///< of the workload that stands for them
  ByWorkload<double> word_shares;  ///< of ranks that share their words (placed_prediction.cpp)
};

/// Whether the device is a row of the catalogue that has the rates of the workload's precision.
[[nodiscard]] bool knows_rates(const Workload& workload, const ResolvedDevice& device);

/// @throws InputError for threads of a known device that is not a CPU, or a CUDA graph of a CPU
void check_device(const Workload& workload, const ResolvedDevice& device);

/// An op model that predicts what no runs tell.
class OpPrior {
 public:
  /// @param model  null: the standard model, which is read when it is first needed
  explicit OpPrior(std::shared_ptr<const OpTimeModel> model) : model_(std::move(model)) {}

  [[nodiscard]] bool is_standard() const { return model_ == nullptr; }
  [[nodiscard]] const OpTimeModel& model() const { return model_ ? *model_ : OpTimeModel::standard(); }

  /// These devices and those of the model that they lack.
  [[nodiscard]] DeviceCatalogue with_own_devices(DeviceCatalogue devices) const;

  /// @param known  steps that need not be predicted again, and where new ones go
  /// @throws InputError as Workload::graph(), ResolvedDevice::rated(), OpTimeModel::predict() and check_device()
  [[nodiscard]] OpStep epoch(const Job& job, PredictedSteps& known) const;

  /// The kernels of a step, of which a compiled one has what its compiler makes. @throws InputError as epoch()
  [[nodiscard]] std::vector<TimedKernel> kernels(const Job& job) const;

 private:
  [[nodiscard]] OpStep answer(const Workload& workload, const Device& device, PredictedSteps& known) const;
  /// Full steps of an epoch: a last one of fewer samples counts by its time.
  [[nodiscard]] double steps_of(const Job& job, const Device& device, double step_sec, PredictedSteps& known) const;

  std::shared_ptr<const OpTimeModel> model_;  // null: the standard model
};

}  // namespace perfpred
