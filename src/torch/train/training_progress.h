// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/torch/net_trainer.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <string>

#include "torch/files/checkpoint.h"

namespace perfpred {

/// How far a training is.
struct TrainingProgress {
  int epochs = 0;          ///< finished and validated
  double best = -1;        ///< highest validation accuracy so far, or exp(-loss) of a network that returns its
                           ///< loss; -1 before the first
  std::int64_t steps = 0;  ///< of the epoch that is under way
  double loss_sum = 0, correct = 0;  ///< over the images of these steps
};

/// Updates in an epoch; the last one may have fewer batches than the others.
[[nodiscard]] std::int64_t steps_per_epoch(const TrainNetOptions& options, const Workload& workload);

/// A JSON object with all that decides what a step computes.
[[nodiscard]] std::string settings_text(const TrainNetOptions& options, const Workload& workload);

/// The texts of a checkpoint; its tensors are left to the caller.
[[nodiscard]] Checkpoint checkpoint_of(const TrainNetOptions& options, const Workload& workload,
                                       const TrainingProgress& progress);

/// A checkpoint's place in the training that it was made by.
struct Resumption {
  TrainingProgress progress;
  int planned_epochs = 0;  ///< of that training: at most those of `options`
};

/// @throws InputError, `path: ...`, if the checkpoint was made with other settings (fewer epochs apart) or does not say
/// how far it is
[[nodiscard]] Resumption read_progress(const Checkpoint& checkpoint, const TrainNetOptions& options,
                                       const Workload& workload, const std::string& path);

}  // namespace perfpred
