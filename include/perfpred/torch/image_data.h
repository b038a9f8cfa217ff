// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// Labelled images that are read one by one. Safe to read from several threads.
class PERFPRED_API ImageSource {
 public:
  virtual ~ImageSource() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual std::int64_t label(std::int64_t index) const = 0;  ///< 0 .. classes - 1

  /// Writes an image, normalised, channels x height x width.
  /// @param draw  decides random augmentation: equal draws, equal images
  /// @param out   as many floats as an image has
  virtual void read(std::int64_t index, std::uint64_t draw, std::span<float> out) const = 0;
};

/// How images are varied while training.
struct Augmentation {
  bool flip = false;  ///< horizontally, every other time
  int crop = 0;       ///< pixels of zero padding on each side, out of which the image's size is cut; 0 for none
};

/// Images as bytes in memory.
class PERFPRED_API ImageSet final : public ImageSource {
 public:
  /// @param pixels  size x channels x height x width
  /// @param shape   channels, height, width
  /// @param mean, deviation  of each channel, of values 0..1
  ImageSet(std::shared_ptr<const std::vector<std::uint8_t>> pixels, std::vector<std::int32_t> labels,
           std::vector<std::int64_t> shape, std::vector<float> mean, std::vector<float> deviation);

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(labels_.size()); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override;
  void read(std::int64_t index, std::uint64_t draw, std::span<float> out) const override;

  /// The images from `first` on, sharing memory.
  [[nodiscard]] ImageSet part(std::int64_t first, std::int64_t count) const;
  void augment(const Augmentation& augmentation) { augmentation_ = augmentation; }

 private:
  std::shared_ptr<const std::vector<std::uint8_t>> pixels_;
  std::int64_t first_ = 0;
  std::vector<std::int32_t> labels_;
  std::vector<std::int64_t> shape_;
  std::vector<float> scale_, offset_;  // of each channel: byte * scale + offset
  Augmentation augmentation_;
};

/// A data set in three parts that share no image, but that validation and test may be one and the same.
struct ImageData {
  std::string name;  ///< where it came from: `generated`, or a folder
  std::vector<std::int64_t> shape;
  std::int64_t classes = 0;
  std::shared_ptr<const ImageSource> train, validation, test;
};

/// CIFAR-10 from its binary files (data_batch_1.bin .. data_batch_5.bin, test_batch.bin), read into memory and verified
/// (sizes, labels). The last 5,000 training images are the validation part.
/// @throws InputError naming the file that is missing, too short, too long, or has a label above 9
[[nodiscard]] PERFPRED_API ImageData read_cifar10(const std::string& folder, const Augmentation& augmentation = {});

/// How many images to generate, and of what kind.
struct GeneratedImages {
  std::vector<std::int64_t> shape = {3, 32, 32};
  std::int64_t classes = 10;
  std::int64_t train = 50'000, validation = 5'000, test = 10'000;
  std::uint64_t seed = 0;
};

/// Images whose classes differ in the direction and the colours of a striped texture of random phase, under noise,
/// other stripes and a random tint: a linear classifier sees little more than the tint, a CNN learns the rest.
/// @throws InputError if a size is not positive or the shape is not channels x height x width
[[nodiscard]] PERFPRED_API ImageData generate_images(const GeneratedImages& what,
                                                     const Augmentation& augmentation = {});

/// The data that a workload is measured on: CIFAR-10 from `folder`, or generated images where that is empty, as many as
/// an epoch has but at most 512 MB of them (an epoch then goes round). Networks of tokens get random words: a sample is
/// then as many word numbers as the input is long.
/// @throws InputError if the folder's images are not what the workload takes
[[nodiscard]] PERFPRED_API ImageData images_for(const Workload& workload, const std::string& folder,
                                                std::uint64_t seed);

}  // namespace perfpred
