// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/torch/image_data.h>
#include <perfpred/torch/net_trainer.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "torch/data/image_folder.h"

namespace perfpred {

/// Whether the options ask for training, not only for an evaluation or a profile.
[[nodiscard]] inline bool trains(const TrainNetOptions& options) {
  return !options.evaluate && !options.profile_one_step;
}

/// What a training reads, and the workload except for its device.
struct TrainingData {
  Workload workload;
  ImageData images;
  std::int64_t skipped = 0;                   ///< corrupt pictures that were left out
  std::shared_ptr<CorruptPictures> replaced;  ///< of a folder of pictures that skips corrupt ones; else null
  std::vector<std::string> notes;             ///< for the user
};

/// Reads or generates the data that `options` name.
/// @return nothing if `stop` returned true while pictures were checked
/// @throws InputError for data or a network that cannot be used
[[nodiscard]] std::optional<TrainingData> training_data(const TrainNetOptions& options,
                                                        const std::function<void(const std::string&)>& message,
                                                        const std::function<bool()>& stop);

/// @throws InputError if the last batch of an epoch has one image and a batch normalisation of the zoo's network gets a
/// single value per channel from it, which has no variance
void check_last_batch(Workload workload);

}  // namespace perfpred
