// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/torch/image_data.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <optional>
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

  /// Judges the network on other images. Their batches are in memory only meanwhile.
  /// @param stop  asked before every batch; nothing is returned once it says true
  [[nodiscard]] std::optional<Metrics> evaluate(const ImageSource& images, const std::function<bool()>& stop);

  /// Ends the loader's threads, so that the images may go before the session.
  void abandon() { loader_.stop(); }

  /// Batches without end, epoch after epoch; all are full unless an epoch is smaller than a batch.
  [[nodiscard]] Batch next();

 private:
  TrainingStep step_;
  std::vector<std::int64_t> shape_;
  LoaderOptions loading_;
  BatchLoader loader_;
  std::int64_t images_;  // of a pass of next()
  std::uint64_t seed_;
  std::uint64_t passes_ = 0;
};

}  // namespace perfpred
