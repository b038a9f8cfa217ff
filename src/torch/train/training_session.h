// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <memory>
#include <vector>

#include "torch/data/batch_loader.h"
#include "torch/train/training_step.h"

namespace perfpred {

/// A network in training: its step and its batches.
class TrainingSession {
 public:
  /// @param data  has to outlive the session
  /// @param seed  of the initial weights and the order of the images
  TrainingSession(const Workload& workload, c10::Device device, const ImageData& data, std::uint64_t seed);

  [[nodiscard]] TrainingStep& step() { return step_; }
  [[nodiscard]] BatchLoader& loader() { return loader_; }

  /// A loader of other images in batches of the same size, which lives as long as the session.
  /// @param images  have to outlive the session
  [[nodiscard]] BatchLoader& add_loader(const ImageSource& images);

  /// Ends the loaders' threads, so that the images may go before the session.
  void abandon();

  /// Batches without end, epoch after epoch; all are full unless an epoch is smaller than a batch.
  [[nodiscard]] Batch next();

 private:
  TrainingStep step_;
  std::vector<std::int64_t> shape_;
  LoaderOptions loading_;
  BatchLoader loader_;
  std::vector<std::unique_ptr<BatchLoader>> added_;
  std::int64_t images_;  // of a pass of next()
  std::uint64_t seed_;
  std::uint64_t passes_ = 0;
};

}  // namespace perfpred
