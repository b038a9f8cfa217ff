// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <span>
#include <vector>

namespace perfpred {

/// A picture in memory: height x width x 3 bytes, red, green and blue.
struct Picture {
  int width = 0, height = 0;
  std::vector<std::uint8_t> rgb;
};

/// A part of a picture, in pixels from the upper left corner. Its edges may lie inside pixels.
struct Window {
  float x = 0, y = 0, width = 0, height = 0;
};

/// Scales a window of a picture to height x width pixels, as Pillow's `resize(..., BILINEAR, box=window)` and
/// torchvision's `resize(..., antialias=True)` do: along each axis, an output pixel is the weighted mean of input
/// pixels. The weights are a triangle around the output pixel's centre; its half width is one output pixel when
/// shrinking and one input pixel when enlarging. Pixels outside the picture have no weight.
/// @param mirrored  swaps left and right
/// @param out       3 x height x width, values 0..255
void resample(const Picture& picture, const Window& window, std::int64_t height, std::int64_t width, bool mirrored,
              std::span<float> out);

}  // namespace perfpred
