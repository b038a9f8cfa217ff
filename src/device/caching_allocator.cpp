// SPDX-License-Identifier: Apache-2.0
#include "device/caching_allocator.h"

#include <algorithm>
#include <functional>
#include <utility>

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
  Block block = pool.take(rounded);
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
    pool.add(rest, tail);
  }
  pieces_[block].used = true;
  return block;
}

CachingAllocator::Pool::Place CachingAllocator::Pool::place_of(std::int64_t bytes) {
  return std::partition_point(sizes_.begin(), sizes_.end(), [=](const OfOneSize& size) { return size.bytes < bytes; });
}

void CachingAllocator::Pool::add(std::int64_t bytes, Block block) {
  auto place = place_of(bytes);
  if (place == sizes_.end() || place->bytes != bytes) {
    place = sizes_.insert(place, OfOneSize{bytes, {}});
    if (!unused_.empty()) {
      place->blocks = std::move(unused_.back());
      unused_.pop_back();
    }
  }
  place->blocks.insert(std::ranges::lower_bound(place->blocks, block, std::greater()), block);
}

void CachingAllocator::Pool::remove(std::int64_t bytes, Block block) {
  const auto place = place_of(bytes);
  remove(place, std::ranges::lower_bound(place->blocks, block, std::greater()));
}

void CachingAllocator::Pool::remove(Place place, std::vector<Block>::iterator block) {
  place->blocks.erase(block);
  if (!place->blocks.empty()) return;
  unused_.push_back(std::move(place->blocks));
  sizes_.erase(place);
}

CachingAllocator::Block CachingAllocator::Pool::take(std::int64_t bytes) {
  const auto place = place_of(bytes);
  if (place == sizes_.end()) return no_block;
  const Block block = place->blocks.back();
  remove(place, place->blocks.end() - 1);
  return block;
}

void CachingAllocator::free(Block block) {
  Pool& pool = pieces_[block].small ? small_ : large_;
  pieces_[block].used = false;
  if (const Block next = pieces_[block].after; next != no_block && !pieces_[next].used) {
    pool.remove(pieces_[next].bytes, next);
    join(block, next);
  }
  if (const Block previous = pieces_[block].before; previous != no_block && !pieces_[previous].used) {
    pool.remove(pieces_[previous].bytes, previous);
    join(previous, block);
    block = previous;
  }
  pool.add(pieces_[block].bytes, block);
}

void CachingAllocator::join(Block into, Block next) {
  pieces_[into].bytes += pieces_[next].bytes;
  pieces_[into].after = pieces_[next].after;
  if (pieces_[into].after != no_block) pieces_[pieces_[into].after].before = into;
}

}  // namespace perfpred
