// SPDX-License-Identifier: Apache-2.0
#include "torch/data/resample.h"

#include <algorithm>
#include <cmath>

namespace perfpred {
namespace {

constexpr std::size_t channels = 3;

/// The input pixels first .. first + weights.size() - 1 and their weights in one output pixel.
struct Taps {
  std::size_t first = 0;
  std::vector<float> weights;
};

/// @param begin, extent  the window on this axis
/// @param size           of the picture on this axis
std::vector<Taps> triangles(float begin, float extent, std::int64_t count, int size) {
  const float scale = extent / static_cast<float>(count);
  const float half_width = std::max(scale, 1.0F);
  std::vector<Taps> list(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < list.size(); ++i) {
    const float centre = begin + (static_cast<float>(i) + 0.5F) * scale;
    const int first = std::clamp(static_cast<int>(std::floor(centre - half_width + 0.5F)), 0, size - 1);
    const int last = std::clamp(static_cast<int>(std::floor(centre + half_width + 0.5F)), first + 1, size);
    list[i].first = static_cast<std::size_t>(first);
    float sum = 0;
    for (int pixel = first; pixel < last; ++pixel) {
      const float distance = std::abs(static_cast<float>(pixel) + 0.5F - centre);
      list[i].weights.push_back(std::max(0.0F, 1 - distance / half_width));
      sum += list[i].weights.back();
    }
    for (float& weight : list[i].weights) weight /= sum;
  }
  return list;
}

}  // namespace

void resample(const Picture& picture, const Window& window, std::int64_t height, std::int64_t width, bool mirrored,
              std::span<float> out) {
  const std::vector<Taps> columns = triangles(window.x, window.width, width, picture.width);
  const std::vector<Taps> rows = triangles(window.y, window.height, height, picture.height);
  const std::size_t row_size = columns.size() * channels;

  // First along the rows, of all rows that the second pass reads.
  const std::size_t top = rows.front().first;
  const std::size_t bottom = rows.back().first + rows.back().weights.size();
  thread_local std::vector<float> narrow;
  narrow.resize((bottom - top) * row_size);
  for (std::size_t y = top; y < bottom; ++y) {
    const std::uint8_t* from = picture.rgb.data() + y * static_cast<std::size_t>(picture.width) * channels;
    float* to = narrow.data() + (y - top) * row_size;
    for (const Taps& taps : columns) {
      const std::uint8_t* pixel = from + taps.first * channels;
      float red = 0;
      float green = 0;
      float blue = 0;
      for (const float weight : taps.weights) {
        red += weight * static_cast<float>(pixel[0]);
        green += weight * static_cast<float>(pixel[1]);
        blue += weight * static_cast<float>(pixel[2]);
        pixel += channels;
      }
      *to++ = red;
      *to++ = green;
      *to++ = blue;
    }
  }

  const std::size_t plane = rows.size() * columns.size();
  thread_local std::vector<float> sums;
  for (std::size_t y = 0; y < rows.size(); ++y) {
    sums.assign(row_size, 0);
    const float* from = narrow.data() + (rows[y].first - top) * row_size;
    for (const float weight : rows[y].weights) {
      for (std::size_t i = 0; i < row_size; ++i) sums[i] += weight * from[i];
      from += row_size;
    }
    for (std::size_t x = 0; x < columns.size(); ++x) {
      const std::size_t source = mirrored ? columns.size() - 1 - x : x;
      for (std::size_t c = 0; c < channels; ++c) {
        out[c * plane + y * columns.size() + x] = sums[source * channels + c];
      }
    }
  }
}

}  // namespace perfpred
