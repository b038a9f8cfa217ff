// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <utility>
#include <vector>

namespace perfpred {

/// SplitMix64 (Steele, Lea, Flood 2014): the same numbers with every compiler and library, cheap to seed by position.
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = (state_ += 0x9e3779b97f4a7c15U);
    z = (z ^ (z >> 30U)) * 0xbf58476d1ce4e5b9U;
    z = (z ^ (z >> 27U)) * 0x94d049bb133111ebU;
    return z ^ (z >> 31U);
  }

  /// Uniform in [low, high).
  float uniform(float low, float high) { return low + (high - low) * static_cast<float>(bits() >> 40U) * 0x1p-24F; }

  /// Mean 0, deviation 1: the sum of four uniform numbers, close enough to a normal one for noise.
  float noise() {
    const std::uint64_t b = bits();
    const auto sum = static_cast<float>((b & 0xffffU) + (b >> 16U & 0xffffU) + (b >> 32U & 0xffffU) + (b >> 48U));
    return (sum - 131'070.0F) * (1.0F / 37'837.2F);
  }

  /// 0 .. count - 1; the bias of the remainder is below 2^-40 for any count used here.
  std::int64_t below(std::int64_t count) {
    return static_cast<std::int64_t>(bits() % static_cast<std::uint64_t>(count));
  }

  template <class T>
  void shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) {
      std::swap(items[i - 1], items[static_cast<std::size_t>(below(static_cast<std::int64_t>(i)))]);
    }
  }

 private:
  std::uint64_t state_;
};

/// A seed for one of many independent streams.
[[nodiscard]] inline std::uint64_t mix(std::uint64_t seed, std::uint64_t stream) {
  return Random(seed ^ Random(stream + 1).bits()).bits();
}

}  // namespace perfpred
