// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <string>

#include "torch/data/resample.h"

namespace perfpred {

/// Whether this build has libjpeg-turbo. Without it the constructor of JpegFile throws.
[[nodiscard]] bool reads_jpeg();

/// A JPEG file in memory, its header read.
class JpegFile {
 public:
  /// @throws Error, `path: reason`, if the file cannot be read or its header is damaged
  explicit JpegFile(const std::string& path);

  [[nodiscard]] int width() const { return width_; }    ///< in pixels
  [[nodiscard]] int height() const { return height_; }  ///< in pixels

  /// Decodes to RGB. CMYK becomes RGB by Adobe's convention.
  /// @param divisor  1, 2, 4 or 8: libjpeg-turbo decodes to this fraction of the size, which costs less
  /// @throws Error, `path: reason`, if the data are damaged
  [[nodiscard]] Picture decode(int divisor = 1) const;

 private:
  std::string path_, bytes_;
  int width_ = 0, height_ = 0;
  bool cmyk_ = false;
};

/// Whether a file begins with a JPEG header and ends with the end marker (EOI): true of nearly every whole picture,
/// false of one that was cut off. Reads the ends of the file only. Some whole pictures have bytes after the marker.
/// @throws Error if the file cannot be read
[[nodiscard]] bool looks_whole(const std::string& path);

}  // namespace perfpred
