// SPDX-License-Identifier: Apache-2.0
#include "torch/data/image_folder.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#ifdef PERFPRED_WITH_TURBOJPEG
#include <turbojpeg.h>
#endif

#include <algorithm>
#include <array>
#include <atomic>
#include <cctype>
#include <cmath>
#include <filesystem>
#include <memory>
#include <set>
#include <thread>
#include <utility>

#include "text/files.h"
#include "torch/data/random.h"

namespace perfpred {

std::string first_few(const std::vector<std::string>& lines) {
  constexpr std::size_t few = 5;
  std::string text;
  for (std::size_t i = 0; i < std::min(few, lines.size()); ++i) text += (i > 0 ? "; " : "") + lines[i];
  if (lines.size() > few) text += fmt::format("; and {} more", lines.size() - few);
  return text;
}

#ifndef PERFPRED_WITH_TURBOJPEG

ImageFolder read_image_folder(const std::string& folder, const std::vector<std::int64_t>&, int, CorruptImages) {
  throw InputError(fmt::format("{}: this build reads no JPEG files (libjpeg-turbo was not there)", folder));
}

#else

namespace {

namespace fs = std::filesystem;

constexpr std::array<float, 3> mean = {0.485F, 0.456F, 0.406F};
constexpr std::array<float, 3> deviation = {0.229F, 0.224F, 0.225F};

struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

/// @throws Error saying what is wrong with the file
Picture decode(const std::string& path) {
  const std::unique_ptr<void, int (*)(void*)> handle(tjInitDecompress(), tjDestroy);
  const std::string bytes = read_file(path);
  if (bytes.empty()) throw Error(fmt::format("{}: is empty", path));
  const auto* data = reinterpret_cast<const unsigned char*>(bytes.data());
  Picture picture;
  int subsampling = 0;
  int colours = 0;
  if (tjDecompressHeader3(handle.get(), data, bytes.size(), &picture.width, &picture.height, &subsampling, &colours) !=
      0) {
    throw Error(fmt::format("{}: {}", path, tjGetErrorStr2(handle.get())));
  }
  const bool cmyk = colours == TJCS_CMYK || colours == TJCS_YCCK;
  const auto pixels = static_cast<std::size_t>(picture.width) * static_cast<std::size_t>(picture.height);
  picture.rgb.resize(pixels * (cmyk ? 4 : 3));
  if (tjDecompress2(handle.get(), data, bytes.size(), picture.rgb.data(), picture.width, 0, picture.height,
                    cmyk ? TJPF_CMYK : TJPF_RGB, 0) != 0) {
    throw Error(fmt::format("{}: {}", path, tjGetErrorStr2(handle.get())));
  }
  if (cmyk) {  // stored inverted: 255 is no ink
    for (std::size_t i = 0; i < pixels; ++i) {
      const int black = picture.rgb[4 * i + 3];
      for (std::size_t c = 0; c < 3; ++c) {
        picture.rgb[3 * i + c] = static_cast<std::uint8_t>((picture.rgb[4 * i + c] * black + 127) / 255);
      }
    }
    picture.rgb.resize(pixels * 3);
  }
  return picture;
}

/// A part of a picture, in pixels.
struct Window {
  float x, y, width, height;
};

/// torchvision's RandomResizedCrop with its defaults.
Window random_window(const Picture& picture, Random& random) {
  const auto width = static_cast<float>(picture.width);
  const auto height = static_cast<float>(picture.height);
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

Window middle_window(const Picture& picture, std::int64_t height, std::int64_t width) {
  const float ratio = static_cast<float>(width) / static_cast<float>(height);
  const float h = 0.875F * std::min(static_cast<float>(picture.height), static_cast<float>(picture.width) / ratio);
  const float w = h * ratio;
  return {(static_cast<float>(picture.width) - w) / 2, (static_cast<float>(picture.height) - h) / 2, w, h};
}

/// Where output pixel i of n takes its values: two neighbours and the weight of the second.
struct Tap {
  std::size_t low, high;
  float weight;
};

std::vector<Tap> taps(float begin, float extent, std::int64_t n, int limit) {
  std::vector<Tap> list;
  for (std::int64_t i = 0; i < n; ++i) {
    const float at = begin + (static_cast<float>(i) + 0.5F) * extent / static_cast<float>(n) - 0.5F;
    const float clamped = std::clamp(at, 0.0F, static_cast<float>(limit - 1));
    const auto low = static_cast<std::size_t>(clamped);
    list.push_back({low, std::min(low + 1, static_cast<std::size_t>(limit - 1)), clamped - static_cast<float>(low)});
  }
  return list;
}

/// Bilinear, normalised, planes of red, green and blue.
void scale(const Picture& picture, const Window& window, std::int64_t height, std::int64_t width, bool mirrored,
           std::span<float> out) {
  const std::vector<Tap> rows = taps(window.y, window.height, height, picture.height);
  const std::vector<Tap> columns = taps(window.x, window.width, width, picture.width);
  const auto pitch = static_cast<std::size_t>(picture.width) * 3;
  const std::size_t plane = rows.size() * columns.size();
  for (std::size_t y = 0; y < rows.size(); ++y) {
    const std::uint8_t* upper = picture.rgb.data() + rows[y].low * pitch;
    const std::uint8_t* lower = picture.rgb.data() + rows[y].high * pitch;
    for (std::size_t x = 0; x < columns.size(); ++x) {
      const Tap& tap = columns[mirrored ? columns.size() - 1 - x : x];
      for (std::size_t c = 0; c < 3; ++c) {
        const auto mixed = [&](const std::uint8_t* row) {
          const float left = row[tap.low * 3 + c];
          return left + tap.weight * (static_cast<float>(row[tap.high * 3 + c]) - left);
        };
        const float top = mixed(upper);
        const float value = (top + rows[y].weight * (mixed(lower) - top)) / 255;
        out[c * plane + y * columns.size() + x] = (value - mean.at(c)) / deviation.at(c);
      }
    }
  }
}

struct Entry {
  std::string path;
  std::int64_t label;
};

class JpegImages final : public ImageSource {
 public:
  JpegImages(std::vector<Entry> entries, std::vector<std::int64_t> shape, bool random)
      : entries_(std::move(entries)), shape_(std::move(shape)), random_(random) {}

  [[nodiscard]] std::int64_t size() const override { return static_cast<std::int64_t>(entries_.size()); }
  [[nodiscard]] std::int64_t label(std::int64_t index) const override { return entry(index).label; }

  void read(std::int64_t index, std::uint64_t draw, std::span<float> out) const override {
    const Picture picture = decode(entry(index).path);
    Random random(draw);
    const bool mirrored = random_ && (random.bits() & 1U) != 0;
    const Window window = random_ ? random_window(picture, random) : middle_window(picture, shape_[1], shape_[2]);
    scale(picture, window, shape_[1], shape_[2], mirrored, out);
  }

 private:
  [[nodiscard]] const Entry& entry(std::int64_t index) const { return entries_.at(static_cast<std::size_t>(index)); }

  std::vector<Entry> entries_;
  std::vector<std::int64_t> shape_;
  bool random_;
};

bool is_jpeg_name(const fs::path& path) {
  std::string extension = path.extension().string();
  std::transform(extension.begin(), extension.end(), extension.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return extension == ".jpg" || extension == ".jpeg";
}

/// A test part without labels (ImageNet's) has none.
bool has_folders(const fs::path& folder) {
  return fs::is_directory(folder) &&
         std::any_of(fs::directory_iterator(folder), {}, [](const auto& item) { return item.is_directory(); });
}

std::vector<std::string> class_names(const fs::path& folder) {
  if (!fs::is_directory(folder)) throw InputError(fmt::format("{}: is not a folder", folder.string()));
  std::set<std::string> names;
  for (const auto& item : fs::directory_iterator(folder)) {
    if (item.is_directory()) names.insert(item.path().filename().string());
  }
  if (names.size() < 2) {
    throw InputError(fmt::format("{}: has {} folders; one for each class is wanted", folder.string(), names.size()));
  }
  return {names.begin(), names.end()};
}

std::vector<Entry> entries_of(const fs::path& folder, const std::vector<std::string>& classes) {
  std::vector<Entry> entries;
  for (std::size_t label = 0; label < classes.size(); ++label) {
    std::vector<std::string> paths;
    for (const auto& item : fs::directory_iterator(folder / classes[label])) {
      if (item.is_regular_file() && is_jpeg_name(item.path())) paths.push_back(item.path().string());
    }
    if (paths.empty()) throw InputError(fmt::format("{}: has no JPEG file", (folder / classes[label]).string()));
    std::sort(paths.begin(), paths.end());
    for (std::string& path : paths) entries.push_back({std::move(path), static_cast<std::int64_t>(label)});
  }
  return entries;
}

/// Decodes every picture once. @returns what is wrong with each; empty for the good ones
std::vector<std::string> verify(const std::vector<Entry>& entries, int threads) {
  std::vector<std::string> wrong(entries.size());
  std::atomic<std::size_t> next = 0;
  std::vector<std::thread> team;
  for (int i = 0; i < std::max(threads, 1); ++i) {
    team.emplace_back([&] {
      for (std::size_t at = next++; at < entries.size(); at = next++) {
        try {
          static_cast<void>(decode(entries[at].path));
        } catch (const Error& error) {
          wrong[at] = error.what();
        }
      }
    });
  }
  for (std::thread& thread : team) thread.join();
  return wrong;
}

}  // namespace

ImageFolder read_image_folder(const std::string& folder, const std::vector<std::int64_t>& shape, int threads,
                              CorruptImages corrupt) {
  if (shape.size() != 3 || shape[0] != 3) {
    throw InputError(fmt::format("{}: pictures have 3 channels, the input is {}", folder, shape_text(shape)));
  }
  const fs::path train = fs::path(folder) / "train";
  std::vector<fs::path> held_out = {fs::path(folder) / "val"};
  if (const fs::path test = fs::path(folder) / "test"; has_folders(test)) held_out.push_back(test);
  ImageFolder result;
  result.classes = class_names(train);
  for (const fs::path& part : held_out) {
    if (class_names(part) == result.classes) continue;
    throw InputError(fmt::format("{}: has other classes than {}", part.string(), train.string()));
  }
  const auto good = [&](const fs::path& part) {
    std::vector<Entry> entries = entries_of(part, result.classes);
    const std::vector<std::string> wrong = verify(entries, threads);
    std::vector<Entry> kept;
    std::vector<std::string> refused;
    std::vector<std::size_t> left(result.classes.size());
    for (std::size_t i = 0; i < entries.size(); ++i) {
      if (wrong[i].empty()) {
        ++left[static_cast<std::size_t>(entries[i].label)];
        kept.push_back(std::move(entries[i]));
      } else {
        refused.push_back(wrong[i]);
      }
    }
    if (corrupt == CorruptImages::refuse && !refused.empty()) throw InputError(first_few(refused));
    for (std::size_t label = 0; label < left.size(); ++label) {
      if (left[label] == 0) {
        throw InputError(fmt::format("{}: no picture decodes", (part / result.classes[label]).string()));
      }
    }
    result.skipped.insert(result.skipped.end(), refused.begin(), refused.end());
    return kept;
  };
  const auto validation = std::make_shared<JpegImages>(good(held_out.front()), shape, false);
  result.data = {folder,
                 shape,
                 static_cast<std::int64_t>(result.classes.size()),
                 std::make_shared<JpegImages>(good(train), shape, true),
                 validation,
                 held_out.size() > 1 ? std::make_shared<JpegImages>(good(held_out.back()), shape, false) : validation};
  return result;
}

#endif

}  // namespace perfpred
