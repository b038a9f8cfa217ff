// SPDX-License-Identifier: Apache-2.0
#include "torch/train/training_session.h"

#include <memory>
#include <optional>
#include <utility>

#include "torch/data/random.h"
#include "torch/device/torch_errors.h"
#include "torch/train/parameter_update.h"

namespace perfpred {

TrainingSession::TrainingSession(const Workload& workload, c10::Device device, const ImageData& data,
                                 std::uint64_t seed)
    : step_(workload, device, {default_learning_rate(workload.optimizer), 0, 0, seed}),
      shape_(data.shape),
      loading_(loader_options(workload, device, loader_threads(device))),
      loader_(*data.train, shape_, loading_),
      images_(workload.train_images / workload.batch_size * workload.batch_size),
      seed_(seed) {
  if (images_ == 0) images_ = workload.train_images;
}

std::optional<Metrics> TrainingSession::evaluate(const ImageSource& images, const std::function<bool()>& stop) {
  struct Evaluation {
    BatchLoader loader;
    void abandon() { loader.stop(); }
  };
  return use_until_device_fails(
      std::unique_ptr<Evaluation>(new Evaluation{{images, shape_, loading_}}),
      [&](Evaluation& evaluation) { return step_.evaluate(evaluation.loader, images.size(), stop); });
}

Batch TrainingSession::next() {
  std::optional<Batch> batch;
  if (passes_ > 0) batch = loader_.next();
  if (!batch) {
    loader_.start(images_, mix(seed_, ++passes_));
    batch = loader_.next();
  }
  return *std::move(batch);
}

}  // namespace perfpred
