// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <span>
#include <string>
#include <string_view>

namespace perfpred {

/// Sizes of a tensor, outermost first; rank 0 is a scalar. A value without heap memory.
class PERFPRED_API Shape {
 public:
  static constexpr std::size_t max_rank = 8;
  static constexpr std::int64_t max_numel = std::int64_t{1} << 56;  ///< their bytes still fit 63 bits

  Shape() = default;
  Shape(std::initializer_list<std::int64_t> sizes) : Shape(std::span(sizes.begin(), sizes.size())) {}
  /// @throws InputError for a negative size or more than max_rank of them
  explicit Shape(std::span<const std::int64_t> sizes);

  [[nodiscard]] std::size_t rank() const { return rank_; }
  [[nodiscard]] std::int64_t operator[](std::size_t axis) const { return sizes_[axis]; }  ///< axis < rank()
  [[nodiscard]] std::int64_t back() const { return sizes_[rank_ - 1]; }                   ///< rank() > 0
  [[nodiscard]] const std::int64_t* begin() const { return sizes_.data(); }
  [[nodiscard]] const std::int64_t* end() const { return sizes_.data() + rank_; }

  /// Product of the sizes. @throws InputError above max_numel: too large for any device
  [[nodiscard]] std::int64_t numel() const {
    const std::int64_t elements = product(std::span(begin(), rank()));
    if (elements > max_numel) refuse();
    return elements;
  }

  /// Product of sizes >= 0, of any number of axes; above max_numel, some number above it.
  [[nodiscard]] static std::int64_t product(std::span<const std::int64_t> sizes) {
    std::int64_t product = 1;
    for (const std::int64_t size : sizes) {
      if (size == 0) return 0;
      if (product > max_numel || __builtin_mul_overflow(product, size, &product)) product = max_numel + 1;
    }
    return product;
  }

  /// The same shape with another size, >= 0, on one axis, < rank().
  [[nodiscard]] Shape with(std::size_t axis, std::int64_t size) const;

  [[nodiscard]] std::string text() const;  ///< "32x64x7x7"; empty for a scalar

  friend bool operator==(const Shape& a, const Shape& b) { return std::equal(a.begin(), a.end(), b.begin(), b.end()); }

 private:
  [[noreturn]] void refuse() const;

  std::array<std::int64_t, max_rank> sizes_{};
  std::uint8_t rank_ = 0;
};

/// The one spelling of a network's name: of the zoo, matched by letters and digits alone (`ViT-L/16`, `ResNet-50`) or
/// by what it is commonly called (`vit-large`); of others, in lower case.
[[nodiscard]] PERFPRED_API std::string canonical_network(std::string_view name);

/// Every network of the zoo with fixed hyper-parameters, in alphabetical order.
[[nodiscard]] PERFPRED_API std::span<const std::string_view> zoo_networks();

/// Every further network whose name says what it is like: transformers of the Hugging Face Hub. Sorted.
[[nodiscard]] PERFPRED_API std::span<const std::string_view> known_transformers();

/// Makes the network of a config.json of Hugging Face's transformers known. @returns its name, `config:` and the first
/// 12 hexadecimal digits of the file's SHA-256. @throws InputError for another file, an architecture that is not known
/// (with the nearest), a size that is missing or wrong
PERFPRED_API std::string add_config(const std::string& path);

/// The same of a file's text. The last 10,000 of them stay known. @throws InputError as add_config()
PERFPRED_API std::string add_config_text(std::string_view text);

}  // namespace perfpred
