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

/// Labelled images, read one at a time. Several threads may read at once.
class PERFPRED_API ImageSource {
 public:
  virtual ~ImageSource() = default;
  [[nodiscard]] virtual std::int64_t size() const = 0;
  [[nodiscard]] virtual std::int64_t label(std::int64_t index) const = 0;  ///< 0 .. classes - 1

  /// Writes a normalised image.
  /// @param draw    seed of the random augmentation
  /// @param layout  order of the values: channels x height x width (nchw) or height x width x channels (nhwc)
  /// @param out     has as many values as the image's shape
  /// @throws InputError if there is no such image, or `out` has another size
  virtual void read(std::int64_t index, std::uint64_t draw, Layout layout, std::span<float> out) const = 0;
};

/// How images are varied while training.
struct Augmentation {
  bool flip = false;  ///< mirror half of them
  int crop = 0;       ///< shift them by up to this many pixels each way; zeros move in
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
  void read(std::int64_t index, std::uint64_t draw, Layout layout, std::span<float> out) const override;

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

/// A data set in three parts that share no image. Validation and test may be one object; a part that was not asked for
/// is null.
struct ImageData {
  std::string name;                 ///< `generated`, or the folder
  std::vector<std::int64_t> shape;  ///< of one sample: channels, height, width; or the length of a sequence
  std::int64_t classes = 0;
  std::shared_ptr<const ImageSource> train, validation, test;
};

/// CIFAR-10, read into memory and verified (sizes, labels). The last 5,000 training images (a tenth, if there are fewer
/// than 50,000) are the validation part.
/// @param path  an archive (cifar-10-python.tar.gz, cifar-10-binary.tar.gz), its unpacked folder, a folder that holds
///              either, or a folder of pictures of 32 x 32 pixels: `train/CLASS/` and `test/CLASS/` (or `val/CLASS/)`
/// @throws InputError naming the file that is missing, damaged, too short, too long, or has a label above 9; where
/// nothing is found, also where to get it
[[nodiscard]] PERFPRED_API ImageData read_cifar10(const std::string& path, const Augmentation& augmentation = {});

/// What generate_images() makes.
struct GeneratedImages {
  std::vector<std::int64_t> shape = {3, 32, 32};   ///< channels, height, width
  std::int64_t classes = 10;                       ///< at least 2
  std::int64_t train = 50'000;                     ///< images, at least 1
  std::int64_t validation = 5'000, test = 10'000;  ///< images; 0: the part is null
  std::uint64_t seed = 0;
};

/// Images whose classes differ in the direction and the colours of a striped texture of random phase, under noise,
/// other stripes and a random tint. A linear classifier learns little more than the tint, a CNN learns the rest. The
/// training images do not depend on the number of test images.
/// @throws InputError if a size is out of range or the shape is not channels x height x width
[[nodiscard]] PERFPRED_API ImageData generate_images(const GeneratedImages& what,
                                                     const Augmentation& augmentation = {});

enum class ImageParts { all, train };

/// The data that a workload is measured on: CIFAR-10, or generated images if no path is given, as many as an epoch has
/// but at most 512 MB of them (an epoch then repeats them). Networks of tokens get sequences of random words.
/// @param cifar10  path for read_cifar10()
/// @param parts  `train` saves the time that generating validation and test images takes
/// @throws InputError if the images do not fit the workload
[[nodiscard]] PERFPRED_API ImageData images_for(const Workload& workload, const std::string& cifar10,
                                                std::uint64_t seed, ImageParts parts = ImageParts::all);

}  // namespace perfpred
