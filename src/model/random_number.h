// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <fmt/format.h>

#include <cstdint>
#include <string_view>

#include "text/hash.h"

namespace perfpred {

/// Random number of a workload, which depends on the seed and its key alone: the n workloads with the smallest numbers
/// are a random sample of any table.
[[nodiscard]] inline std::uint64_t random_number_of(std::string_view key, std::uint64_t seed) {
  std::uint64_t number = fnv1a(key, fnv1a(fmt::format("{} ", seed)));
  // Keys that differ in few characters have similar hashes: mixed as by splitmix64 (Steele, Lea, Flood, OOPSLA 2014).
  number = (number ^ (number >> 30)) * 0xbf58476d1ce4e5b9U;
  number = (number ^ (number >> 27)) * 0x94d049bb133111ebU;
  return number ^ (number >> 31);
}

}  // namespace perfpred
