// SPDX-License-Identifier: Apache-2.0
#include "torch/train/training_session.h"

#include <optional>

#include "torch/data/random.h"
#include "torch/step/parameter_update.h"

namespace perfpred {

TrainingSession::TrainingSession(const Workload& workload, c10::Device device, const ImageData& data,
                                 std::uint64_t seed, bool metrics)
    : step_(workload, device, {default_learning_rate(workload.optimizer), 0, {}, seed, metrics}),
      loader_(data.shape, loader_options(workload, device, loader_threads(device))),
      images_(*data.train),
      epoch_images_(workload.train_images),
      full_images_(workload.train_images / workload.batch_size * workload.batch_size),
      seed_(seed) {
  if (full_images_ == 0) full_images_ = epoch_images_;
}

Batch TrainingSession::next() {
  std::optional<Batch> batch;
  if (passes_ > 0) batch = loader_.next();
  if (!batch) {
    loader_.start(images_, full_images_, mix(seed_, ++passes_));
    batch = loader_.next();
  }
  return *std::move(batch);
}

}  // namespace perfpred
