// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/network.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace perfpred {
Shape::Shape(std::span<const std::int64_t> sizes) {
  if (sizes.size() > max_rank) throw InputError(fmt::format("a tensor of rank {} is not supported", sizes.size()));
  for (const std::int64_t size : sizes) {
    if (size < 0) throw InputError(fmt::format("a tensor cannot have the size {}", size));
    sizes_[rank_++] = size;
  }
}

void Shape::refuse() const {
  throw InputError(fmt::format("a tensor of shape {} is too large for any device", text()));
}

Shape Shape::with(std::size_t axis, std::int64_t size) const {
  Shape changed = *this;
  changed.sizes_[axis] = size;
  return changed;
}

std::string Shape::text() const { return fmt::format("{}", fmt::join(begin(), end(), "x")); }

}  // namespace perfpred
