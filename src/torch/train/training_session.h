// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <memory>

#include "torch/data/batch_loader.h"
#include "torch/step/training_step.h"

namespace perfpred {

/// A network in training: its step and its batches.
class TrainingSession {
 public:
  /// @param data     has to outlive the session
  /// @param seed     of the initial weights and the order of the images
  /// @param metrics  see StepOptions
  TrainingSession(const Workload& workload, c10::Device device, const ImageData& data, std::uint64_t seed,
                  bool metrics);

  [[nodiscard]] TrainingStep& step() { return step_; }
  [[nodiscard]] BatchLoader& loader() { return loader_; }

  /// Begins an epoch, whose batches loader() hands out. @param seed  of the order of its images
  void begin_epoch(std::uint64_t seed) { loader_.start(images_, epoch_images_, seed); }

  /// Ends the loader's threads, so that the images may go before the session.
  void abandon() { loader_.stop(); }

  /// Batches without end, epoch after epoch; all are full unless an epoch is smaller than a batch.
  [[nodiscard]] Batch next();

 private:
  TrainingStep step_;
  BatchLoader loader_;
  const ImageSource& images_;
  std::int64_t epoch_images_;
  std::int64_t full_images_;  // of an epoch's full batches
  std::uint64_t seed_;
  std::uint64_t passes_ = 0;
};

}  // namespace perfpred
