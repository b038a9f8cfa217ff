// SPDX-License-Identifier: Apache-2.0
// read_cifar10(): every form in which CIFAR-10 is at hand becomes bytes and labels.
#include <fmt/format.h>
#include <perfpred/error.h>
#include <perfpred/torch/image_data.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <filesystem>
#include <functional>
#include <map>
#include <optional>
#include <string_view>
#include <utility>

#include "statistics/parallel.h"
#include "text/files.h"
#include "torch/data/archive.h"
#include "torch/data/image_folder.h"
#include "torch/data/image_sets.h"
#include "torch/data/picture_file.h"
#include "torch/data/random.h"
#include "torch/files/pickle.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;

constexpr std::int64_t picture_side = 32;
constexpr std::size_t image_bytes = 3 * picture_side * picture_side;
constexpr std::size_t file_images = 10'000;
constexpr std::int64_t classes = 10;
constexpr std::int64_t most_validation_images = 5'000;
constexpr std::array<std::string_view, 6> batches = {"data_batch_1", "data_batch_2", "data_batch_3",
                                                     "data_batch_4", "data_batch_5", "test_batch"};
constexpr std::array<std::string_view, 2> archives = {"cifar-10-python.tar.gz", "cifar-10-binary.tar.gz"};
constexpr std::array<std::string_view, 2> unpacked = {"cifar-10-batches-py", "cifar-10-batches-bin"};

/// What is said where no CIFAR-10 is found; checksums from the page itself.
constexpr std::string_view where_to_get_it =
    "CIFAR-10 is at https://www.cs.toronto.edu/~kriz/cifar.html: cifar-10-python.tar.gz (MD5 "
    "c58f30108f718f92721af3b95e74349a) or cifar-10-binary.tar.gz (MD5 c32a1d4ab5d03f1284b67883e8d87530). Name such an "
    "archive, its unpacked folder, the folder that holds either, or a folder of pictures train/<class>/*.png and "
    "test/<class>/*.png";

[[noreturn]] void refuse(const std::string& path, std::string_view reason) {
  throw InputError(fmt::format("{}: {}", path, reason));
}

/// Images of one part: 3 x 32 x 32 bytes each.
struct Images {
  std::vector<std::uint8_t> pixels;
  std::vector<std::int32_t> labels;

  /// @param number  of the image in its file
  void add(std::string_view image, std::int64_t label, std::size_t number, const std::string& path) {
    if (label < 0 || label >= classes) {
      refuse(path, fmt::format("image {} has label {}; CIFAR-10 has 0 to 9", number, label));
    }
    labels.push_back(static_cast<std::int32_t>(label));
    pixels.insert(pixels.end(), image.begin(), image.end());
  }

  [[nodiscard]] ImageSet set() && {
    return {std::make_shared<std::vector<std::uint8_t>>(std::move(pixels)),
            std::move(labels),
            {3, picture_side, picture_side},
            {0.4914F, 0.4822F, 0.4465F},
            {0.2470F, 0.2435F, 0.2616F}};
  }
};

/// A file of the binary form: 10,000 records of a label byte and an image.
void add_records(const std::string& path, std::string_view bytes, Images& images) {
  constexpr std::size_t record = 1 + image_bytes;
  if (bytes.size() != record * file_images) {
    refuse(path, fmt::format("{} bytes where a CIFAR-10 file has {}", bytes.size(), record * file_images));
  }
  for (std::size_t i = 0; i < file_images; ++i, bytes.remove_prefix(record)) {
    images.add(bytes.substr(1, image_bytes), static_cast<unsigned char>(bytes.front()), i, path);
  }
}

// ---- Files of Python's pickle: {"data": array of n x 3072 bytes, "labels": list of n numbers} ----

const PickleValue* part(const PickleValue* tuple, std::size_t index) {
  const bool has = tuple != nullptr && tuple->kind == PickleValue::sequence && index < tuple->parts.size();
  return has ? tuple->parts[index] : nullptr;
}

/// Bytes as Python 3 writes them in protocol 2: a call of `encode` on a text that has a character for each byte.
std::string from_latin1(std::string_view utf8) {
  std::string bytes;
  for (std::size_t i = 0; i < utf8.size(); ++i) {
    const auto first = static_cast<unsigned char>(utf8[i]);
    const bool two = (first & 0xe0U) == 0xc0U && i + 1 < utf8.size();
    bytes += two ? static_cast<char>((first & 3U) << 6U | (static_cast<unsigned char>(utf8[++i]) & 0x3fU)) : utf8[i];
  }
  return bytes;
}

std::optional<std::string> bytes_of(const PickleValue* value) {
  if (value == nullptr) return std::nullopt;
  if (value->kind == PickleValue::text) return std::string(value->bytes);
  if (value->kind != PickleValue::call) return std::nullopt;
  const PickleValue* text = part(value->parts.front(), 0);
  if (text == nullptr || text->kind != PickleValue::text) return std::nullopt;
  if (value->name == "_codecs.encode") return from_latin1(text->bytes);
  return value->name.ends_with(".bytearray") || value->name.ends_with(".bytes")
             ? std::optional(std::string(text->bytes))
             : std::nullopt;
}

/// The bytes of an array of numpy, in C's order.
std::optional<std::string> array_bytes(const PickleValue* value) {
  if (value == nullptr || value->kind != PickleValue::call) return std::nullopt;
  if (value->name.ends_with("multiarray._reconstruct") && value->parts.size() == 2) {
    const PickleValue* in_columns = part(value->parts[1], 3);  // of (version, shape, type, in Fortran's order, bytes)
    if (in_columns == nullptr || in_columns->integer != 0) return std::nullopt;
    return bytes_of(part(value->parts[1], 4));
  }
  if (value->name.ends_with("numeric._frombuffer")) {  // of protocol 5: (bytes, type, shape, order)
    const PickleValue* order = part(value->parts.front(), 3);
    if (order == nullptr || order->bytes != "C") return std::nullopt;
    return bytes_of(part(value->parts.front(), 0));
  }
  return std::nullopt;
}

void add_pickle(const std::string& path, std::string_view bytes, Images& images) {
  try {
    const Pickle pickle(bytes);
    const auto pixels = array_bytes(pickle.value().find("data"));
    const PickleValue* labels = pickle.value().find("labels");
    if (!pixels || labels == nullptr || labels->kind != PickleValue::sequence) {
      throw InputError(pickle.value().find("fine_labels") != nullptr
                           ? "is of CIFAR-100"
                           : "is no batch of CIFAR-10: a dictionary of \"data\" (an array) and \"labels\" (a list)");
    }
    if (pixels->size() != labels->parts.size() * image_bytes || pixels->empty()) {
      throw InputError(fmt::format("has {} bytes of images for {} labels; an image has {}", pixels->size(),
                                   labels->parts.size(), image_bytes));
    }
    for (std::size_t i = 0; i < labels->parts.size(); ++i) {
      if (labels->parts[i]->kind != PickleValue::number) throw InputError(fmt::format("label {} is no number", i));
    }
    for (std::size_t i = 0; i < labels->parts.size(); ++i) {
      images.add(std::string_view(*pixels).substr(i * image_bytes, image_bytes), labels->parts[i]->integer, i, path);
    }
  } catch (const InputError& error) {
    if (std::string_view(error.what()).starts_with(path)) throw;
    refuse(path, error.what());
  }
}

// ---- Where the files are ----

struct Parts {
  Images training, test;
};

/// Both forms have six files: the binary one as `data_batch_1.bin`.
Parts parts_of(const std::string& place, bool binary, const std::function<std::string(const std::string&)>& read) {
  Parts parts;
  for (const std::string_view batch : batches) {
    const std::string name = std::string(batch) + (binary ? ".bin" : "");
    const std::string bytes = read(name);
    Images& images = batch == batches.back() ? parts.test : parts.training;
    (binary ? add_records : add_pickle)(place + "/" + name, bytes, images);
  }
  return parts;
}

Parts of_archive(const std::string& path) {
  const auto is_batch = [](const std::string& name) {
    return std::any_of(batches.begin(), batches.end(),
                       [&](std::string_view batch) { return name == batch || name == std::string(batch) + ".bin"; });
  };
  const std::map<std::string, std::string> files = read_archive(path, is_batch);
  const bool binary = files.contains("test_batch.bin");
  return parts_of(path, binary, [&](const std::string& name) -> std::string {
    const auto found = files.find(name);
    if (found == files.end()) refuse(path, fmt::format("holds no {}. {}", name, where_to_get_it));
    return found->second;
  });
}

Parts of_folder(const std::string& folder, bool binary) {
  return parts_of(folder, binary, [&](const std::string& name) {
    const std::string path = folder + "/" + name;
    if (!fs::exists(path)) refuse(path, fmt::format("is missing. {}", where_to_get_it));
    return read_file(path);
  });
}

/// Pictures of 32 x 32 in a folder for each class. Classes in the order of their names have CIFAR-10's numbers.
Images of_pictures(const fs::path& folder, const std::vector<std::string>& names) {
  Extensions ignored;
  std::vector<PictureEntry> entries = picture_entries(folder.string(), names, ignored);
  Random random(0);
  random.shuffle(entries);  // the last ones become the validation part
  std::vector<std::string> images(entries.size());
  parallel_for(entries.size(), 0, [&](std::size_t i, std::size_t) {
    const PictureFile file(entries[i].path);
    if (file.width() != picture_side || file.height() != picture_side) {
      refuse(entries[i].path,
             fmt::format("has {} x {} pixels where CIFAR-10 has 32 x 32", file.width(), file.height()));
    }
    const Picture picture = file.decode();
    for (std::size_t c = 0; c < 3; ++c) {
      for (std::size_t p = c; p < picture.rgb.size(); p += 3) images[i] += static_cast<char>(picture.rgb[p]);
    }
  });
  Images part;
  for (std::size_t i = 0; i < entries.size(); ++i) part.add(images[i], entries[i].label, 0, entries[i].path);
  return part;
}

/// A folder with `train/` and `test/`, or `val/` in its place.
Parts of_picture_folders(const fs::path& folder) {
  const fs::path test = folder / (fs::is_directory(folder / "test") ? "test" : "val");
  const std::vector<std::string> names = class_folders((folder / "train").string());
  if (static_cast<std::int64_t>(names.size()) != classes) {
    refuse(folder.string(), fmt::format("has {} folders of classes in train/; CIFAR-10 has 10", names.size()));
  }
  if (class_folders(test.string()) != names) refuse(test.string(), "has other classes than train/");
  return {of_pictures(folder / "train", names), of_pictures(test, names)};
}

Parts read_parts(const std::string& path) {
  if (fs::is_regular_file(path)) return of_archive(path);
  std::vector<fs::path> folders = {path};
  for (const std::string_view name : unpacked) folders.push_back(fs::path(path) / name);
  for (const fs::path& folder : folders) {
    for (const bool binary : {true, false}) {
      const auto is_there = [&](std::string_view batch) {
        return fs::is_regular_file(folder / (std::string(batch) + (binary ? ".bin" : "")));
      };
      if (std::any_of(batches.begin(), batches.end(), is_there)) return of_folder(folder.string(), binary);
    }
  }
  for (const std::string_view name : archives) {
    if (fs::is_regular_file(fs::path(path) / name)) return of_archive((fs::path(path) / name).string());
  }
  const fs::path folder = path;
  if (fs::is_directory(folder / "train") && (fs::is_directory(folder / "test") || fs::is_directory(folder / "val"))) {
    return of_picture_folders(folder);
  }
  refuse(path, fmt::format("{}. {}", fs::is_directory(folder) ? "holds no CIFAR-10" : "is no file and no folder",
                           where_to_get_it));
}

}  // namespace

ImageData read_cifar10(const std::string& path, const Augmentation& augmentation) {
  Parts parts = [&] {
    try {
      return read_parts(path);
    } catch (const fs::filesystem_error& error) {
      refuse(path, error.code().message());
    }
  }();
  const ImageSet training = std::move(parts.training).set();
  const std::int64_t validation = std::min(most_validation_images, training.size() / 10);
  if (validation == 0) refuse(path, "has fewer than 10 images to train on");
  return split_images(path, training, validation, std::move(parts.test).set(), {3, picture_side, picture_side}, classes,
                      augmentation);
}

}  // namespace perfpred
