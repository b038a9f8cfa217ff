// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/torch/image_data.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <functional>
#include <numbers>
#include <numeric>
#include <utility>

#include "network/layers.h"
#include "torch/data/image_sets.h"
#include "torch/data/random.h"

namespace perfpred {
namespace {

constexpr std::int64_t max_pool_bytes = 512'000'000;

std::int64_t elements(const std::vector<std::int64_t>& shape) {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

void check_index(std::int64_t index, std::int64_t size) {
  if (index < 0 || index >= size) throw InputError(fmt::format("there is no image {} among {}", index, size));
}

/// Colour axes along which stripes of a class swing; channels beyond the third repeat.
constexpr std::array<std::array<float, 3>, 2> axes = {{{1.0F, -1.0F, 0.0F}, {-0.6F, -0.6F, 1.0F}}};
constexpr int directions = 5;

/// A plane wave over the image; kept as a phasor so that a pixel costs a complex product and no sine.
struct Stripes {
  float angle, period, phase, amplitude;

  template <class Use>
  void each_pixel(std::int64_t height, std::int64_t width, const Use& use) const {
    const float k = 2 * std::numbers::pi_v<float> / period;
    const float kx = k * std::cos(angle);
    const float ky = k * std::sin(angle);
    const float step_re = std::cos(kx);
    const float step_im = std::sin(kx);
    for (std::int64_t y = 0; y < height; ++y) {
      float re = amplitude * std::cos(phase + ky * static_cast<float>(y));
      float im = amplitude * std::sin(phase + ky * static_cast<float>(y));
      for (std::int64_t x = 0; x < width; ++x) {
        use(y * width + x, re);
        const float next = re * step_re - im * step_im;
        im = re * step_im + im * step_re;
        re = next;
      }
    }
  }
};

class ImageGenerator {
 public:
  explicit ImageGenerator(const GeneratedImages& what)
      : shape_(what.shape), classes_(what.classes), seed_(what.seed), swing_(plane()), other_(plane()) {}

  void draw(std::int64_t index, std::int64_t label, std::uint8_t* out) {
    constexpr float pi = std::numbers::pi_v<float>;
    Random random(mix(seed_, static_cast<std::uint64_t>(index)));
    const auto direction = static_cast<float>(label % directions);
    const auto level = static_cast<float>(label / (directions * 2));  // longer stripes for every ten classes more
    const auto& axis = axes[static_cast<std::size_t>(label / directions % 2)];
    const auto& other_axis = axes[static_cast<std::size_t>(random.below(2))];
    const Stripes stripes{pi * (direction + random.uniform(-0.35F, 0.35F)) / directions,
                          4.5F * std::pow(1.15F, level) * random.uniform(0.85F, 1.15F), random.uniform(0, 2 * pi),
                          random.uniform(14, 44)};
    const Stripes other{random.uniform(0, pi), random.uniform(3.5F, 12), random.uniform(0, 2 * pi),
                        random.uniform(0, 20)};
    stripes.each_pixel(shape_[1], shape_[2],
                       [this](std::int64_t p, float v) { swing_[static_cast<std::size_t>(p)] = v; });
    other.each_pixel(shape_[1], shape_[2],
                     [this](std::int64_t p, float v) { other_[static_cast<std::size_t>(p)] = v; });
    const float hue = 2 * pi * static_cast<float>(label) / static_cast<float>(classes_);
    for (std::int64_t channel = 0; channel < shape_[0]; ++channel) {
      const auto c = static_cast<std::size_t>(channel % 3);
      const float tint = 128 + 9 * std::cos(hue + 2 * pi * static_cast<float>(c) / 3) + 26 * random.noise();
      for (std::size_t pixel = 0; pixel < plane(); ++pixel) {
        const float value = tint + axis[c] * swing_[pixel] + other_axis[c] * other_[pixel] + 42 * random.noise();
        *out++ = static_cast<std::uint8_t>(std::clamp(value, 0.0F, 255.0F));
      }
    }
  }

 private:
  [[nodiscard]] std::size_t plane() const { return static_cast<std::size_t>(shape_[1] * shape_[2]); }

  std::vector<std::int64_t> shape_;
  std::int64_t classes_;
  std::uint64_t seed_;
  std::vector<float> swing_, other_;
};

/// Random words. How long a network of tokens computes does not depend on them.
class RandomWords final : public ImageSource {
 public:
  RandomWords(std::int64_t size, std::vector<std::int64_t> shape, std::int64_t words, std::uint64_t seed)
      : size_(size), shape_(std::move(shape)), words_(words), seed_(seed) {}
  [[nodiscard]] std::int64_t size() const override { return size_; }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return check_index(index, size_), 0; }
  void read(std::int64_t index, std::uint64_t, Layout, std::span<float> out) const override {
    check_read(index, size_, out, shape_);
    Random random(mix(seed_, static_cast<std::uint64_t>(index)));
    for (float& word : out) word = static_cast<float>(random.below(words_));
  }

 private:
  std::int64_t size_;
  std::vector<std::int64_t> shape_;
  std::int64_t words_;
  std::uint64_t seed_;
};

ImageData random_words(const Workload& workload, std::uint64_t seed) {
  const std::int64_t words = build_network(workload).classes;
  const auto part = [&](std::int64_t size, std::uint64_t stream) {
    return std::make_shared<RandomWords>(size, workload.input, words, mix(seed, stream));
  };
  constexpr std::int64_t held_out = 64;
  return {"generated", workload.input, words, part(workload.train_images, 1), part(held_out, 2), part(held_out, 3)};
}

/// How an image is shown: mirrored, and moved by so many pixels.
struct Variation {
  bool mirrored = false;
  std::int64_t down = 0, right = 0;
};

Variation drawn(const Augmentation& augmentation, std::uint64_t draw) {
  Random random(draw);
  Variation variation;
  variation.mirrored = augmentation.flip && (random.bits() & 1U) != 0;
  if (augmentation.crop == 0) return variation;
  variation.down = random.below(2 * augmentation.crop + 1) - augmentation.crop;
  variation.right = random.below(2 * augmentation.crop + 1) - augmentation.crop;
  return variation;
}

bool is_below(std::int64_t index, std::int64_t size) { return index >= 0 && index < size; }

}  // namespace

void check_read(std::int64_t index, std::int64_t size, std::span<const float> out,
                const std::vector<std::int64_t>& shape) {
  check_index(index, size);
  if (static_cast<std::int64_t>(out.size()) != elements(shape)) {
    throw InputError(
        fmt::format("an image of {} has {} values, not {}", shape_text(shape), elements(shape), out.size()));
  }
}

ImageSet::ImageSet(std::shared_ptr<const std::vector<std::uint8_t>> pixels, std::vector<std::int32_t> labels,
                   std::vector<std::int64_t> shape, std::vector<float> mean, std::vector<float> deviation)
    : pixels_(std::move(pixels)), labels_(std::move(labels)), shape_(std::move(shape)) {
  const bool has_shape = shape_.size() == 3 && *std::min_element(shape_.begin(), shape_.end()) > 0;
  if (!has_shape || mean.size() != static_cast<std::size_t>(shape_[0]) || deviation.size() != mean.size()) {
    throw InputError("a set of images needs channels, height and width, and a mean and a deviation of each channel");
  }
  if (!pixels_ || static_cast<std::int64_t>(pixels_->size()) != size() * elements(shape_)) {
    throw InputError(fmt::format("{} images of {} need as many bytes", size(), shape_text(shape_)));
  }
  for (std::size_t c = 0; c < mean.size(); ++c) {
    scale_.push_back(1 / (255 * deviation[c]));
    offset_.push_back(-mean[c] / deviation[c]);
  }
}

std::int64_t ImageSet::label(std::int64_t index) const {
  check_index(index, size());
  return labels_[static_cast<std::size_t>(index)];
}

void ImageSet::read(std::int64_t index, std::uint64_t draw, Layout layout, std::span<float> out) const {
  check_read(index, size(), out, shape_);
  const auto channels = static_cast<std::size_t>(shape_[0]);
  const std::int64_t height = shape_[1];
  const std::int64_t width = shape_[2];
  const std::int64_t plane = height * width;
  const auto [mirrored, down, right] = drawn(augmentation_, draw);
  const std::uint8_t* from = pixels_->data() + (first_ + index) * elements(shape_);
  float* to = out.data();
  /// The value of a channel that is shown at a pixel.
  const auto shown = [&](std::size_t channel, std::int64_t y, std::int64_t x) {
    const std::int64_t source_y = y + down;
    const std::int64_t source_x = (mirrored ? width - 1 - x : x) + right;
    const bool inside = is_below(source_y, height) && is_below(source_x, width);
    const auto at = static_cast<std::int64_t>(channel) * plane + source_y * width + source_x;
    return (inside ? static_cast<float>(from[at]) : 0) * scale_[channel] + offset_[channel];
  };
  if (layout == Layout::nhwc) {
    for (std::int64_t y = 0; y < height; ++y) {
      for (std::int64_t x = 0; x < width; ++x) {
        for (std::size_t c = 0; c < channels; ++c) *to++ = shown(c, y, x);
      }
    }
    return;
  }
  for (std::size_t c = 0; c < channels; ++c) {
    if (!mirrored && down == 0 && right == 0) {
      const std::uint8_t* values = from + static_cast<std::int64_t>(c) * plane;
      for (std::int64_t i = 0; i < plane; ++i) *to++ = static_cast<float>(values[i]) * scale_[c] + offset_[c];
    } else {
      for (std::int64_t y = 0; y < height; ++y) {
        for (std::int64_t x = 0; x < width; ++x) *to++ = shown(c, y, x);
      }
    }
  }
}

ImageSet ImageSet::part(std::int64_t first, std::int64_t count) const {
  if (first < 0 || count < 0 || first > size() || count > size() - first) {
    throw InputError(fmt::format("there are no {} images from image {} on among {}", count, first, size()));
  }
  ImageSet set = *this;
  set.first_ = first_ + first;
  set.labels_.assign(labels_.begin() + first, labels_.begin() + first + count);
  return set;
}

ImageData split_images(std::string name, const ImageSet& training, std::int64_t validation, const ImageSet& test,
                       const std::vector<std::int64_t>& shape, std::int64_t classes, const Augmentation& augmentation) {
  const auto part = [](const ImageSet& set) { return set.size() > 0 ? std::make_shared<ImageSet>(set) : nullptr; };
  ImageSet train = training.part(0, training.size() - validation);
  train.augment(augmentation);
  return {std::move(name), shape, classes, part(train), part(training.part(training.size() - validation, validation)),
          part(test)};
}

ImageData generate_images(const GeneratedImages& what, const Augmentation& augmentation) {
  if (what.shape.size() != 3 || *std::min_element(what.shape.begin(), what.shape.end()) < 1) {
    throw InputError(fmt::format("input {} is not channels x height x width", shape_text(what.shape)));
  }
  if (what.classes < 2 || what.train < 1 || what.validation < 0 || what.test < 0) {
    throw InputError("generated images need at least two classes and one image to train on");
  }
  ImageGenerator generator(what);
  std::int64_t index = 0;
  const auto make = [&](std::int64_t count) {
    const std::int64_t bytes = elements(what.shape);
    auto pixels = std::make_shared<std::vector<std::uint8_t>>(static_cast<std::size_t>(count * bytes));
    std::vector<std::int32_t> labels;
    for (std::int64_t i = 0; i < count; ++i, ++index) {
      const std::int64_t label = Random(mix(~what.seed, static_cast<std::uint64_t>(index))).below(what.classes);
      labels.push_back(static_cast<std::int32_t>(label));
      generator.draw(index, label, pixels->data() + i * bytes);
    }
    const auto channels = static_cast<std::size_t>(what.shape[0]);
    return ImageSet(std::move(pixels), std::move(labels), what.shape, std::vector<float>(channels, 0.5F),
                    std::vector<float>(channels, 0.25F));
  };
  const ImageSet training = make(what.train + what.validation);
  return split_images("generated", training, what.validation, make(what.test), what.shape, what.classes, augmentation);
}

ImageData images_for(const Workload& workload, const std::string& cifar10, std::uint64_t seed, ImageParts parts) {
  if (!cifar10.empty()) {
    ImageData data = read_cifar10(cifar10);
    if (workload.input != data.shape || workload.classes != data.classes) {
      throw InputError(fmt::format("{}: CIFAR-10 has {} images of {} classes, not {} of {}", cifar10,
                                   shape_text(data.shape), data.classes, shape_text(workload.input), workload.classes));
    }
    return data;
  }
  if (workload.input.size() == 1) return random_words(workload, seed);
  GeneratedImages what;
  what.shape = workload.input;
  what.classes = workload.classes;
  what.seed = seed;
  const std::int64_t most =
      std::max<std::int64_t>(max_pool_bytes / std::max<std::int64_t>(elements(what.shape), 1), 64);
  what.train = std::min<std::int64_t>(workload.train_images, most);
  what.validation = what.test = 0;
  if (parts == ImageParts::all) {
    what.validation = std::clamp<std::int64_t>(what.train / 10, std::min<std::int64_t>(500, most), 5'000);
    what.test = std::clamp<std::int64_t>(what.train / 5, std::min<std::int64_t>(1'000, most), 10'000);
  }
  return generate_images(what);
}

}  // namespace perfpred
