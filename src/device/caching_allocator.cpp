// SPDX-License-Identifier: Apache-2.0
#include "device/caching_allocator.h"

#include <algorithm>

namespace perfpred {
namespace {

// The constants of c10/cuda/CUDACachingAllocator.
constexpr std::int64_t min_block = 512;
constexpr std::int64_t max_small = mebibyte;
constexpr std::int64_t small_segment = 2 * mebibyte;
constexpr std::int64_t min_own_segment = 10 * mebibyte;
constexpr std::int64_t large_segment = 20 * mebibyte;
constexpr std::int64_t segment_step = 2 * mebibyte;

std::int64_t round_up(std::int64_t bytes, std::int64_t step) { return (bytes + step - 1) / step * step; }

}  // namespace

CachingAllocator::Block CachingAllocator::allocate(std::int64_t bytes) {
  const std::int64_t rounded = std::max(min_block, round_up(bytes, min_block));
  const bool small = rounded <= max_small;
  Pool& pool = small ? small_ : large_;
  Block block = take(pool, rounded);
  if (block == no_block) {
    const std::int64_t segment = small                       ? small_segment
                                 : rounded < min_own_segment ? large_segment
                                                             : round_up(rounded, segment_step);
    reserved_ += segment;
    block = pieces_.size();
    pieces_.push_back({segment, no_block, no_block, small, false});
  }
  const std::int64_t rest = pieces_[block].bytes - rounded;
  if (small ? rest >= min_block : rest > max_small) {
    const Block tail = pieces_.size();
    pieces_.push_back({rest, block, pieces_[block].after, small, false});
    if (pieces_[tail].after != no_block) pieces_[pieces_[tail].after].before = tail;
    pieces_[block].after = tail;
    pieces_[block].bytes = rounded;
    add(pool, {rest, tail});
  }
  pieces_[block].used = true;
  return block;
}

void CachingAllocator::add(Pool& pool, FreePiece piece) {
  pool.insert(std::lower_bound(pool.begin(), pool.end(), piece), piece);
}

void CachingAllocator::remove(Pool& pool, FreePiece piece) {
  pool.erase(std::lower_bound(pool.begin(), pool.end(), piece));
}

CachingAllocator::Block CachingAllocator::take(Pool& pool, std::int64_t bytes) {
  const auto found = std::lower_bound(pool.begin(), pool.end(), FreePiece{bytes, 0});
  if (found == pool.end()) return no_block;
  const Block block = found->block;
  pool.erase(found);
  return block;
}

void CachingAllocator::free(Block block) {
  Pool& pool = pieces_[block].small ? small_ : large_;
  pieces_[block].used = false;
  if (const Block next = pieces_[block].after; next != no_block && !pieces_[next].used) {
    remove(pool, {pieces_[next].bytes, next});
    join(block, next);
  }
  if (const Block previous = pieces_[block].before; previous != no_block && !pieces_[previous].used) {
    remove(pool, {pieces_[previous].bytes, previous});
    join(previous, block);
    block = previous;
  }
  add(pool, {pieces_[block].bytes, block});
}

void CachingAllocator::join(Block into, Block next) {
  pieces_[into].bytes += pieces_[next].bytes;
  pieces_[into].after = pieces_[next].after;
  if (pieces_[into].after != no_block) pieces_[pieces_[into].after].before = into;
}

}  // namespace perfpred
