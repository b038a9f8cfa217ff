// SPDX-License-Identifier: Apache-2.0
#include "torch/train/training_data.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <string_view>
#include <utility>

#include "network/layers.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::string_view cifar_prefix = "cifar10:";
constexpr std::string_view folder_prefix = "imagefolder:";
constexpr std::int64_t default_images = 50'000;
constexpr std::int64_t default_classes = 10;
constexpr std::int64_t dummy_images = 256;
const Augmentation cifar_augmentation{true, 4};

bool is_cifar(const TrainNetOptions& options) { return options.data.starts_with(cifar_prefix); }
bool is_folder(const TrainNetOptions& options) { return options.data.starts_with(folder_prefix); }

/// @throws InputError if an option is given that the kind of data does not use
void check_data_options(const TrainNetOptions& options) {
  const bool made = options.data == "generated" || options.data == "dummy";
  if (!made && !is_cifar(options) && !is_folder(options)) {
    throw InputError(
        fmt::format("data \"{}\" is not cifar10:DIR, imagefolder:DIR, generated or dummy", shown(options.data)));
  }
  const auto only = [](std::string_view option, std::string_view kinds) {
    throw InputError(fmt::format("{} is for {} data only", option, kinds));
  };
  if (!made && options.train_images) only("train-images", "generated and dummy");
  if (!made && options.classes) only("classes", "generated and dummy");
  if (!is_folder(options) && options.skip_corrupt) only("skip-corrupt", "imagefolder");
  if (!is_folder(options) && options.verify) only("verify", "imagefolder");
}

/// What follows the prefix. @throws InputError if nothing does
std::string folder_of(const std::string& data, std::string_view prefix) {
  if (data.size() == prefix.size()) throw InputError(fmt::format("data \"{}\" names no folder", data));
  return data.substr(prefix.size());
}

Workload workload_of(const TrainNetOptions& options) {
  Workload workload = Workload::zoo(options.network, options.batch_size);
  if (workload.input.size() != 3) throw InputError(fmt::format("network {} takes no images", workload.network));
  if (build_network(workload).boxes >= 0) {
    throw InputError(fmt::format("network {} learns boxes, which no data has", workload.network));
  }
  if (is_cifar(options)) workload.input = {3, 32, 32};
  if (!options.input.empty()) workload.input = parse_shape(options.input);
  workload.batch_size = options.batch_size;
  workload.optimizer = options.optimizer;
  workload.precision = options.precision;
  workload.layout = options.layout;
  return workload;
}

ImageData generated(const TrainNetOptions& options, const std::vector<std::int64_t>& shape) {
  GeneratedImages what;
  what.shape = shape;
  what.classes = options.classes.value_or(default_classes);
  what.seed = options.seed;
  const std::int64_t images = options.train_images.value_or(default_images);
  const bool dummy = options.data == "dummy";  // few images, shown again and again
  what.train = dummy ? std::min(dummy_images, images) : images;
  what.validation = dummy ? 1 : std::clamp<std::int64_t>(images / 10, 100, 5'000);
  what.test = dummy ? 1 : std::clamp<std::int64_t>(images / 5, 100, 10'000);
  return generate_images(what, dummy ? Augmentation{} : cifar_augmentation);
}

/// @return false if it was stopped
bool read_pictures(const TrainNetOptions& options, const std::function<void(const std::string&)>& message,
                   const std::function<bool()>& stop, TrainingData& data) {
  ImageFolderOptions reading;
  reading.threads = options.workers;
  reading.skip_corrupt = options.skip_corrupt;
  reading.verify = options.verify;
  reading.train = !options.evaluate;
  reading.stop = stop;
  reading.message = message;
  auto folder = read_image_folder(folder_of(options.data, folder_prefix), data.workload.input, reading);
  if (!folder) return false;
  if (!folder->ignored.empty()) {
    data.notes.push_back(fmt::format("files that are not pictures by their names are skipped: {}", folder->ignored));
  }
  if (!folder->skipped.empty()) {
    data.notes.push_back(
        fmt::format("corrupt pictures skipped: {} ({})", folder->skipped.size(), first_few(folder->skipped)));
  }
  data.images = std::move(folder->data);
  data.skipped = static_cast<std::int64_t>(folder->skipped.size());
  data.replaced = std::move(folder->replaced);
  return true;
}

}  // namespace

std::optional<TrainingData> training_data(const TrainNetOptions& options,
                                          const std::function<void(const std::string&)>& message,
                                          const std::function<bool()>& stop) {
  check_data_options(options);
  TrainingData data;
  Workload& workload = data.workload;
  workload = workload_of(options);
  if (is_cifar(options)) {
    data.images = read_cifar10(folder_of(options.data, cifar_prefix), cifar_augmentation);
    if (workload.input != data.images.shape) throw InputError("CIFAR-10 has images of 3x32x32");
  } else if (is_folder(options)) {
    if (!read_pictures(options, message, stop, data)) return std::nullopt;
  } else {
    data.images = generated(options, workload.input);
  }
  workload.classes = data.images.classes;
  workload.train_images =
      options.data == "dummy" ? options.train_images.value_or(default_images) : data.images.train->size();
  workload.validate();
  return data;
}

void check_last_batch(Workload workload) {
  const std::int64_t rest = workload.train_images % workload.batch_size;
  if (rest != 1 && workload.batch_size != 1) return;
  workload.batch_size = 1;
  for (const Layer& layer : build_network(workload).layers) {
    if (layer.kind == LayerKind::batch_norm && layer.output.numel() == layer.out_channels) {
      throw InputError(
          fmt::format("a batch of one image leaves batch normalisation {} one value a channel and no variance; choose "
                      "another batch size for {} images",
                      layer.name, std::int64_t{workload.train_images}));
    }
  }
}

}  // namespace perfpred
