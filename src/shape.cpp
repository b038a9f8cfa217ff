#include <perfpred/error.h>
#include <perfpred/shape.h>

#include <fmt/format.h>

namespace perfpred {
namespace {

constexpr std::int64_t largest_numel = std::int64_t{1} << 56;  // bytes of it still fit 63 bits

}  // namespace

Shape::Shape(std::span<const std::int64_t> sizes) {
  if (sizes.size() > max_rank) throw InputError(fmt::format("a tensor of rank {} is not supported", sizes.size()));
  for (const std::int64_t size : sizes) {
    if (size < 0) throw InputError(fmt::format("a tensor cannot have the size {}", size));
    sizes_[rank_++] = size;
  }
}

std::int64_t Shape::numel() const {
  std::int64_t product = 1;
  for (const std::int64_t size : *this) {
    if (__builtin_mul_overflow(product, size, &product) || product > largest_numel) {
      throw InputError(fmt::format("a tensor of shape {} is too large for any device", text()));
    }
  }
  return product;
}

Shape Shape::with(std::size_t axis, std::int64_t size) const {
  Shape changed = *this;
  changed.sizes_[axis] = size;
  return changed;
}

std::string Shape::text() const {
  std::string text;
  for (const std::int64_t size : *this) {
    if (!text.empty()) text += 'x';
    text += std::to_string(size);
  }
  return text;
}

}  // namespace perfpred
