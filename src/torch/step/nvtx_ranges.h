// SPDX-License-Identifier: Apache-2.0
#pragma once
#include "torch/step/training_step.h"

namespace perfpred {

/// Runs one step under NVTX ranges: train_step around forward, loss, backward and optimizer_step. Profilers attribute a
/// kernel to the ranges of the thread that launches it, and autograd has threads of its own: there train_step and
/// backward are opened again, so that a filter by either holds the backward kernels.
void run_with_ranges(TrainingStep& step, const Batch& batch);

}  // namespace perfpred
