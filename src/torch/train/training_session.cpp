// SPDX-License-Identifier: Apache-2.0
#include "torch/train/training_session.h"

#include <algorithm>
#include <optional>

#include "step/epoch_steps.h"
#include "torch/data/random.h"
#include "torch/step/parameter_update.h"

namespace perfpred {

TrainingSession::TrainingSession(const Workload& workload, c10::Device device, const ImageData& data,
                                 std::uint64_t seed, bool metrics, RankGroup* ranks)
    : step_(workload, device, {default_learning_rate(workload.optimizer), 0, {}, seed, metrics}, nullptr, ranks),
      loader_(data.shape, loader_options(workload, device, loader_threads(device))),
      images_(*data.train),
      ranks_(ranks),
      batch_size_(workload.batch_size),
      accumulate_(workload.accumulate),
      epoch_images_(workload.train_images),
      seed_(seed) {
  if (ranks != nullptr) share_ = {ranks->rank(), ranks->size()};
  const std::int64_t of_update = batch_size_ * accumulate_ * share_.size;
  full_images_ = epoch_images_ < of_update ? epoch_images_ : epoch_images_ / of_update * of_update;
}

void TrainingSession::begin_epoch(std::uint64_t seed) {
  trained_ = 0;
  loader_.start(images_, epoch_images_, seed, 0, share_);
}

bool TrainingSession::train_next() {
  const std::int64_t of_update = std::min(batch_size_ * accumulate_, share_.of(epoch_images_) - trained_);
  for (std::int64_t before = 0; before < of_update;) {
    const std::optional<Batch> batch = loader_.next();
    if (!batch) return false;
    const std::int64_t images = batch->targets.size(0);
    const double weight = static_cast<double>(images) / static_cast<double>(of_update);
    step_.run(*batch, {weight, before == 0, before + images == of_update});
    before += images;
    trained_ += images;
  }
  return of_update > 0;
}

Batch TrainingSession::next() {
  std::optional<Batch> batch;
  if (passes_ > 0) batch = loader_.next();
  if (!batch) {
    loader_.start(images_, full_images_, mix(seed_, ++passes_), 0, share_);
    batch = loader_.next();
  }
  return *std::move(batch);
}

void TrainingSession::train(const Batch& first) {
  const double weight = 1 / static_cast<double>(accumulate_);
  step_.run(first, {weight, true, accumulate_ == 1});
  for (std::int64_t i = 1; i < accumulate_; ++i) step_.run(next(), {weight, false, i + 1 == accumulate_});
}

}  // namespace perfpred
