// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "torch/data/resample.h"

namespace perfpred {

/// What a file of a picture is, by its first bytes.
enum class PictureFormat : std::uint8_t { jpeg, png, webp };

/// Whether this build has the library that decodes the format.
[[nodiscard]] bool reads(PictureFormat format);

/// Whether a file is a picture by its name, in any case: .jpg, .jpeg, .png, .webp.
[[nodiscard]] bool is_picture_name(std::string_view name);

/// A picture in memory as its file has it, the header read.
class PictureFile {
 public:
  /// @throws Error, `path: reason`, if the file cannot be read, is no such picture, has more than 178,956,970 pixels
  /// (Pillow's limit), or if this build lacks the library
  explicit PictureFile(const std::string& path);

  [[nodiscard]] int width() const { return width_; }    ///< in pixels
  [[nodiscard]] int height() const { return height_; }  ///< in pixels

  /// Whether decode() can make the picture smaller: JPEG only.
  [[nodiscard]] bool scales() const { return format_ == PictureFormat::jpeg; }

  /// Decodes to RGB. CMYK becomes RGB by Adobe's convention; transparency is dropped, as by Pillow's convert("RGB").
  /// @param divisor  1, 2, 4 or 8 if scales(), else 1: libjpeg-turbo decodes to this fraction of the size, which costs
  /// less
  /// @throws Error, `path: reason`, if the data are damaged
  [[nodiscard]] Picture decode(int divisor = 1) const;

 private:
  std::string path_, bytes_;
  PictureFormat format_ = PictureFormat::jpeg;
  int width_ = 0, height_ = 0;
};

/// Whether a file begins with a picture's header and ends as such a file does: true of nearly every whole picture,
/// false of one that was cut off. Reads the ends of the file only. Some whole pictures have bytes behind the end.
[[nodiscard]] bool looks_whole(const std::string& path);

}  // namespace perfpred
