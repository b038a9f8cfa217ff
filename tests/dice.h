// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <random>

namespace perfpred::testing {

/// Random whole numbers, the same for the same seed on every machine.
class Dice {
 public:
  explicit Dice(std::uint64_t seed) : random_(seed) {}
  std::int64_t below(std::int64_t limit) {
    return static_cast<std::int64_t>(random_() % static_cast<std::uint64_t>(limit));
  }

 private:
  std::mt19937_64 random_;
};

}  // namespace perfpred::testing
