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
  /// @param ranks    as of TrainingStep; each trains on its share of the images
  TrainingSession(const Workload& workload, c10::Device device, const ImageData& data, std::uint64_t seed, bool metrics,
                  RankGroup* ranks = nullptr);

  [[nodiscard]] TrainingStep& step() { return step_; }
  [[nodiscard]] BatchLoader& loader() { return loader_; }

  [[nodiscard]] RankGroup* ranks() { return ranks_; }  ///< null: this process alone

  /// Begins an epoch, whose updates train_next() does. @param seed  of the order of its images
  void begin_epoch(std::uint64_t seed);

  /// Does the epoch's next update, of `accumulate` batches, or of those that are left. @returns whether there was one
  bool train_next();

  /// Ends the loader's threads, so that the images may go before the session.
  void abandon() { loader_.stop(); }

  /// Batches without end, epoch after epoch; all are full unless an epoch is smaller than an update.
  [[nodiscard]] Batch next();

  /// Does an update of `accumulate` batches: this one and those that next() has then.
  void train(const Batch& first);

 private:
  TrainingStep step_;
  BatchLoader loader_;
  const ImageSource& images_;
  RankGroup* ranks_;
  RankShare share_;
  std::int64_t batch_size_, accumulate_;
  std::int64_t epoch_images_;  // of all ranks
  std::int64_t full_images_;   // of an epoch's full updates
  std::int64_t trained_ = 0;   // images of this rank in this epoch
  std::uint64_t seed_;
  std::uint64_t passes_ = 0;
};

}  // namespace perfpred
