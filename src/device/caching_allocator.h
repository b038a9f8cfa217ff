// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace perfpred {

inline constexpr std::int64_t mebibyte = std::int64_t{1} << 20;

/// LibTorch's CUDA caching allocator, without the memory: small and large blocks come from pools of segments, a request
/// takes the smallest free block that holds it and leaves the rest, neighbours that are free are joined, segments stay.
class CachingAllocator {
 public:
  using Block = std::size_t;
  static constexpr Block no_block = static_cast<Block>(-1);

  [[nodiscard]] Block allocate(std::int64_t bytes);  ///< @param bytes  >= 0
  void free(Block block);
  [[nodiscard]] std::int64_t reserved() const { return reserved_; }  ///< bytes of all segments

 private:
  struct Piece {
    std::int64_t bytes = 0;
    Block before = no_block;  // neighbours in the same segment
    Block after = no_block;
    bool small = false;
    bool used = false;
  };
  struct FreePiece {
    std::int64_t bytes;
    Block block;
    friend auto operator<=>(const FreePiece&, const FreePiece&) = default;
  };
  using Pool = std::vector<FreePiece>;  // sorted; some hundreds, which move faster than a tree is walked

  static void add(Pool& pool, FreePiece piece);
  static void remove(Pool& pool, FreePiece piece);
  static Block take(Pool& pool, std::int64_t bytes);
  void join(Block into, Block next);

  std::vector<Piece> pieces_;
  Pool small_, large_;
  std::int64_t reserved_ = 0;
};

}  // namespace perfpred
