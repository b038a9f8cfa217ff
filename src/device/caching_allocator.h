// SPDX-License-Identifier: Apache-2.0
#pragma once

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
  /// Free pieces by their size, of which there are few, those of one size in the order in which they were cut.
  class Pool {
   public:
    void add(std::int64_t bytes, Block block);
    void remove(std::int64_t bytes, Block block);
    /// Removes the first of the smallest that have so many bytes; no_block if none has.
    [[nodiscard]] Block take(std::int64_t bytes);

   private:
    struct OfOneSize {
      std::int64_t bytes;
      std::vector<Block> blocks;  // the first one last; not empty
    };
    using Place = std::vector<OfOneSize>::iterator;
    [[nodiscard]] Place place_of(std::int64_t bytes);
    void remove(Place place, std::vector<Block>::iterator block);

    std::vector<OfOneSize> sizes_;            // the smallest first
    std::vector<std::vector<Block>> unused_;  // memory of sizes that are gone
  };

  void join(Block into, Block next);

  std::vector<Piece> pieces_;
  Pool small_, large_;
  std::int64_t reserved_ = 0;
};

}  // namespace perfpred
