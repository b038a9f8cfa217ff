// SPDX-License-Identifier: Apache-2.0
#include "torch/data/image_folder.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <chrono>
#include <cmath>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "statistics/parallel.h"
#include "torch/data/image_sets.h"
#include "torch/data/picture_file.h"
#include "torch/data/random.h"
#include "torch/data/resample.h"

namespace perfpred {

std::string first_few(const std::vector<std::string>& lines) {
  constexpr std::size_t few = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(few, lines.size()); ++i) text += (i > 0 ? "; " : "") + lines[i];
  if (lines.size() > few) text += fmt::format("; and {} more", lines.size() - few);
  return text;
}

void CorruptPictures::add(std::string line) {
  const std::lock_guard lock(mutex_);
  lines_.push_back(std::move(line));
}

std::vector<std::string> CorruptPictures::take() {
  const std::lock_guard lock(mutex_);
  return std::exchange(lines_, {});
}

namespace {

namespace fs = std::filesystem;
using SteadyClock = std::chrono::steady_clock;

constexpr std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};
constexpr std::array<float, 3> deviation = {0.229F, 0.224F, 0.225F};

/// torchvision's RandomResizedCrop with its defaults.
Window random_window(const PictureFile& file, Random& random) {
  const auto width = static_cast<float>(file.width());
  const auto height = static_cast<float>(file.height());
  for (int attempt = 0; attempt < 10; ++attempt) {
    const float area = width * height * random.uniform(0.08F, 1);
    const float ratio = std::exp(random.uniform(std::log(3.0F / 4), std::log(4.0F / 3)));
    const float w = std::sqrt(area * ratio);
    const float h = std::sqrt(area / ratio);
    if (w <= width && h <= height) return {random.uniform(0, width - w), random.uniform(0, height - h), w, h};
  }
  const float side = std::min(width, height);
  return {(width - side) / 2, (height - side) / 2, side, side};
}

Window middle_window(const PictureFile& file, std::int64_t height, std::int64_t width) {
  const auto whole_width = static_cast<float>(file.width());
  const auto whole_height = static_cast<float>(file.height());
  const float ratio = static_cast<float>(width) / static_cast<float>(height);
  const float h = 0.875F * std::min(whole_height, whole_width / ratio);
  const float w = h * ratio;
  return {(whole_width - w) / 2, (whole_height - h) / 2, w, h};
}

/// How much smaller a picture may be decoded: the window keeps at least twice the pixels that are wanted on each axis,
/// as with Pillow's `reducing_gap=2.0`, so that the result hardly differs.
int divisor_for(const Window& window, std::int64_t height, std::int64_t width) {
  constexpr float gap = 2;
  const float spare =
      std::min(window.width / static_cast<float>(width), window.height / static_cast<float>(height)) / gap;
  return spare >= 8 ? 8 : spare >= 4 ? 4 : spare >= 2 ? 2 : 1;
}

class PictureImages final : public ImageSource {
 public:
  /// @param entries   by ascending labels
  /// @param replaced  gets the corrupt pictures that others take the place of; null: they are errors
  PictureImages(std::vector<PictureEntry> entries, std::vector<std::int64_t> shape, bool random,
                std::shared_ptr<CorruptPictures> replaced)
      : entries_(std::move(entries)), shape_(std::move(shape)), random_(random), replaced_(std::move(replaced)) {}

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(entries_.size()); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return entry(index).label; }

  void read(std::int64_t index, std::uint64_t draw, Layout layout, std::span<float> out) const override {
    check_read(index, size(), out, shape_);
    if (!replaced_) {
      read_file(entry(index).path, draw, layout, out);
      return;
    }
    const auto by_label = [](const PictureEntry& a, const PictureEntry& b) { return a.label < b.label; };
    const auto [first, last] = std::equal_range(entries_.begin(), entries_.end(), entry(index), by_label);
    const std::int64_t begin = first - entries_.begin();
    const std::int64_t count = last - first;
    for (std::int64_t i = 0; i < count; ++i) {
      const std::int64_t candidate = begin + (index - begin + i) % count;
      if (is_corrupt(candidate)) continue;
      try {
        read_file(entry(candidate).path, draw, layout, out);
        return;
      } catch (const Error& error) {
        note(candidate, error.what());
      }
    }
    throw Error(fmt::format("{}: no picture decodes", fs::path(entry(index).path).parent_path().string()));
  }

 private:
  [[nodiscard]] const PictureEntry& entry(std::int64_t index) const {
    if (index < 0 || index >= size()) throw InputError(fmt::format("there is no picture {} among {}", index, size()));
    return entries_[static_cast<std::size_t>(index)];
  }

  void read_file(const std::string& path, std::uint64_t draw, Layout layout, std::span<float> out) const {
    const std::int64_t height = shape_[1];
    const std::int64_t width = shape_[2];
    const PictureFile file(path);
    Random random(draw);
    const bool mirrored = random_ && (random.bits() & 1U) != 0;
    Window window = random_ ? random_window(file, random) : middle_window(file, height, width);
    const int divisor = file.scales() ? divisor_for(window, height, width) : 1;
    for (float* number : {&window.x, &window.y, &window.width, &window.height}) {
      *number /= static_cast<float>(divisor);
    }
    thread_local std::vector<float> planes;
    planes.resize(out.size());
    resample(file.decode(divisor), window, height, width, mirrored, planes);
    const auto plane = static_cast<std::size_t>(height * width);
    const std::size_t channels = mean.size();
    for (std::size_t i = 0; i < planes.size(); ++i) {
      const std::size_t c = i / plane;
      const std::size_t place = layout == Layout::nhwc ? i % plane * channels + c : i;
      out[place] = (planes[i] / 255 - mean.at(c)) / deviation.at(c);
    }
  }

  [[nodiscard]] bool is_corrupt(std::int64_t index) const {
    const std::lock_guard lock(mutex_);
    return corrupt_.contains(index);
  }

  void note(std::int64_t index, const std::string& line) const {
    const std::lock_guard lock(mutex_);
    if (corrupt_.insert(index).second) replaced_->add(line);
  }

  std::vector<PictureEntry> entries_;
  std::vector<std::int64_t> shape_;
  bool random_;
  std::shared_ptr<CorruptPictures> replaced_;
  mutable std::mutex mutex_;
  mutable std::set<std::int64_t> corrupt_;  // guarded by mutex_
};

std::string extension_of(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension;
}

std::string listed(const Extensions& extensions) {
  std::vector<std::string> parts;
  for (const auto& [extension, count] : extensions) {
    parts.push_back(fmt::format("{} {}", count, extension.empty() ? "without extension" : extension));
  }
  return fmt::format("{}", fmt::join(parts, ", "));
}

/// A test part without labels (ImageNet's) has none.
bool has_folders(const fs::path& folder) {
  return fs::is_directory(folder) &&
         std::any_of(fs::directory_iterator(folder), {}, [](const auto& item) { return item.is_directory(); });
}

/// Why a picture cannot be used; empty if it can.
std::string damage(const std::string& path, bool decode) {
  try {
    if (decode || !looks_whole(path)) static_cast<void>(PictureFile(path).decode());
    return {};
  } catch (const Error& error) {
    return error.what();
  }
}

/// @return the damage of each picture; nothing if options.stop returned true
std::optional<std::vector<std::string>> check(const std::vector<PictureEntry>& entries, const fs::path& part,
                                              const ImageFolderOptions& options) {
  constexpr auto message_every = std::chrono::seconds(5);
  std::vector<std::string> wrong(entries.size());
  std::atomic<std::size_t> checked = 0;
  std::atomic<bool> stopped = false;
  auto told = SteadyClock::now();
  parallel_for(entries.size(), options.threads, [&](std::size_t at, std::size_t thread) {
    if (stopped) return;
    wrong[at] = damage(entries[at].path, options.verify);
    ++checked;
    if (thread != 0) return;  // the calling thread alone calls back
    stopped = options.stop();
    if (SteadyClock::now() - told < message_every) return;
    told = SteadyClock::now();
    options.message(fmt::format("{}: checked {} of {} pictures", part.string(), checked.load(), entries.size()));
  });
  return stopped || options.stop() ? std::nullopt : std::optional(std::move(wrong));
}

/// The entries that nothing is wrong with; the others are added to result.skipped.
/// @throws InputError if they may not be skipped, or none of a class is left
std::vector<PictureEntry> without(std::vector<PictureEntry> entries, const std::vector<std::string>& wrong,
                                  const fs::path& part, bool may_skip, ImageFolder& result) {
  std::vector<PictureEntry> kept;
  std::vector<std::string> refused;
  std::vector<std::size_t> left(result.classes.size());
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (!wrong[i].empty()) {
      refused.push_back(wrong[i]);
      continue;
    }
    ++left[static_cast<std::size_t>(entries[i].label)];
    kept.push_back(std::move(entries[i]));
  }
  if (!may_skip && !refused.empty()) throw InputError(first_few(refused));
  for (std::size_t label = 0; label < left.size(); ++label) {
    if (left[label] == 0)
      throw InputError(fmt::format("{}: no picture decodes", (part / result.classes[label]).string()));
  }
  result.skipped.insert(result.skipped.end(), refused.begin(), refused.end());
  return kept;
}

}  // namespace

std::vector<std::string> class_folders(const std::string& folder) {
  if (!fs::is_directory(folder)) throw InputError(fmt::format("{}: is not a folder", folder));
  std::set<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) {
    const std::string name = item.path().filename().string();
    if (item.is_directory() && !name.starts_with('.')) names.insert(name);  // Jupyter makes .ipynb_checkpoints
  }
  if (names.size() < 2) {
    throw InputError(fmt::format("{}: has {} folders; one for each class is wanted", folder, names.size()));
  }
  return {names.begin(), names.end()};
}

std::vector<PictureEntry> picture_entries(const std::string& folder, const std::vector<std::string>& classes,
                                          Extensions& ignored) {
  std::vector<PictureEntry> entries;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::vector<std::string> paths;
    Extensions others;
    for (const auto& item : fs::directory_iterator(fs::path(folder) / classes[label])) {
      if (!item.is_regular_file()) continue;
      if (is_picture_name(item.path().filename().string())) {
        paths.push_back(item.path().string());
      } else {
        ++others[extension_of(item.path())];
      }
    }
    if (paths.empty()) {
      throw InputError(fmt::format("{}: has no picture (JPEG, PNG or WebP){}",
                                   (fs::path(folder) / classes[label]).string(),
                                   others.empty() ? "" : ", only " + listed(others)));
    }
    for (const auto& [extension, count] : others) ignored[extension] += count;
    std::sort(paths.begin(), paths.end());
    for (std::string& path : paths) entries.push_back({std::move(path), static_cast<std::int64_t>(label)});
  }
  return entries;
}

std::optional<ImageFolder> read_image_folder(const std::string& folder, const std::vector<std::int64_t>& shape,
                                             const ImageFolderOptions& options) {
  if (shape.size() != 3 || shape[0] != 3) {
    throw InputError(fmt::format("{}: pictures have 3 channels, the input is {}", folder, shape_text(shape)));
  }
  const fs::path train = fs::path(folder) / "train";
  if (!fs::is_directory(train)) {
    throw InputError(
        fmt::format("{}: is not a folder; wanted are pictures in {}/train/<class>/ and {}/val/<class>/, as Imagenette "
                    "(https://github.com/fastai/imagenette) and ImageNet have them",
                    train.string(), folder, folder));
  }
  std::vector<fs::path> held_out = {fs::path(folder) / "val"};
  if (const fs::path test = fs::path(folder) / "test"; has_folders(test)) held_out.push_back(test);
  ImageFolder result;
  result.classes = class_folders(train.string());
  for (const fs::path& part : held_out) {
    if (class_folders(part.string()) == result.classes) continue;
    throw InputError(fmt::format("{}: has other classes than {}", part.string(), train.string()));
  }
  if (options.skip_corrupt) result.replaced = std::make_shared<CorruptPictures>();
  Extensions ignored;
  bool stopped = false;
  const auto images = [&](const fs::path& part, bool is_train) -> std::shared_ptr<PictureImages> {
    if (stopped) return nullptr;
    std::vector<PictureEntry> entries = picture_entries(part.string(), result.classes, ignored);
    if (!is_train || options.train) {
      const auto wrong = check(entries, part, options);
      if (!wrong) {
        stopped = true;
        return nullptr;
      }
      entries = without(std::move(entries), *wrong, part, options.skip_corrupt, result);
    }
    return std::make_shared<PictureImages>(std::move(entries), shape, is_train, result.replaced);
  };
  const auto validation = images(held_out.front(), false);
  const auto training = images(train, true);
  const auto test = held_out.size() > 1 ? images(held_out.back(), false) : validation;
  if (stopped) return std::nullopt;
  result.ignored = listed(ignored);
  result.data = {folder, shape, static_cast<std::int64_t>(result.classes.size()), training, validation, test};
  return result;
}

}  // namespace perfpred
