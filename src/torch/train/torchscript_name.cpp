// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/torch/trace.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdio>
#include <memory>

namespace perfpred {
namespace {

/// SHA-256 (FIPS 180-4) of what it is given.
class Sha256 {
 public:
  void add(const unsigned char* bytes, std::size_t count) {
    length_ += count;
    while (count > 0) {
      if (used_ == 0 && count >= block_.size()) {
        take_block(bytes);
        bytes += block_.size();
        count -= block_.size();
        continue;
      }
      const std::size_t part = std::min(count, block_.size() - used_);
      std::copy_n(bytes, part, block_.data() + used_);
      used_ = (used_ + part) % block_.size();
      if (used_ == 0) take_block(block_.data());
      bytes += part;
      count -= part;
    }
  }

  /// The first six bytes of the digest.
  std::uint64_t first_48_bits() {
    const std::uint64_t bits = length_ * 8;
    const unsigned char one = 0x80;
    const unsigned char zero = 0;
    add(&one, 1);
    while (used_ != 56) add(&zero, 1);
    for (int shift = 56; shift >= 0; shift -= 8) {
      const auto byte = static_cast<unsigned char>(bits >> shift);
      add(&byte, 1);
    }
    return std::uint64_t{state_[0]} << 16 | state_[1] >> 16;
  }

 private:
  void take_block(const unsigned char* block);

  std::array<std::uint32_t, 8> state_ = {0x6a09e667, 0xbb67ae85, 0x3c6ef372, 0xa54ff53a,
                                         0x510e527f, 0x9b05688c, 0x1f83d9ab, 0x5be0cd19};
  std::array<unsigned char, 64> block_{};
  std::size_t used_ = 0;
  std::uint64_t length_ = 0;
};

constexpr std::array<std::uint32_t, 64> round_constants = {
    0x428a2f98, 0x71374491, 0xb5c0fbcf, 0xe9b5dba5, 0x3956c25b, 0x59f111f1, 0x923f82a4, 0xab1c5ed5,
    0xd807aa98, 0x12835b01, 0x243185be, 0x550c7dc3, 0x72be5d74, 0x80deb1fe, 0x9bdc06a7, 0xc19bf174,
    0xe49b69c1, 0xefbe4786, 0x0fc19dc6, 0x240ca1cc, 0x2de92c6f, 0x4a7484aa, 0x5cb0a9dc, 0x76f988da,
    0x983e5152, 0xa831c66d, 0xb00327c8, 0xbf597fc7, 0xc6e00bf3, 0xd5a79147, 0x06ca6351, 0x14292967,
    0x27b70a85, 0x2e1b2138, 0x4d2c6dfc, 0x53380d13, 0x650a7354, 0x766a0abb, 0x81c2c92e, 0x92722c85,
    0xa2bfe8a1, 0xa81a664b, 0xc24b8b70, 0xc76c51a3, 0xd192e819, 0xd6990624, 0xf40e3585, 0x106aa070,
    0x19a4c116, 0x1e376c08, 0x2748774c, 0x34b0bcb5, 0x391c0cb3, 0x4ed8aa4a, 0x5b9cca4f, 0x682e6ff3,
    0x748f82ee, 0x78a5636f, 0x84c87814, 0x8cc70208, 0x90befffa, 0xa4506ceb, 0xbef9a3f7, 0xc67178f2};

[[gnu::always_inline]] inline void round(std::uint32_t a, std::uint32_t b, std::uint32_t c, std::uint32_t& d,
                                         std::uint32_t e, std::uint32_t f, std::uint32_t g, std::uint32_t& h,
                                         std::uint32_t word) {
  const std::uint32_t s1 = std::rotr(e, 6) ^ std::rotr(e, 11) ^ std::rotr(e, 25);
  const std::uint32_t s0 = std::rotr(a, 2) ^ std::rotr(a, 13) ^ std::rotr(a, 22);
  const std::uint32_t t1 = h + s1 + ((e & f) ^ (~e & g)) + word;
  d += t1;
  h = t1 + s0 + ((a & b) ^ (a & c) ^ (b & c));
}

void Sha256::take_block(const unsigned char* block) {
  std::array<std::uint32_t, 64> w{};
  for (std::size_t i = 0; i < 16; ++i) {
    w[i] = std::uint32_t{block[4 * i]} << 24 | std::uint32_t{block[4 * i + 1]} << 16 |
           std::uint32_t{block[4 * i + 2]} << 8 | std::uint32_t{block[4 * i + 3]};
  }
  for (std::size_t i = 16; i < 64; ++i) {
    const std::uint32_t s0 = std::rotr(w[i - 15], 7) ^ std::rotr(w[i - 15], 18) ^ w[i - 15] >> 3;
    const std::uint32_t s1 = std::rotr(w[i - 2], 17) ^ std::rotr(w[i - 2], 19) ^ w[i - 2] >> 10;
    w[i] = w[i - 16] + s0 + w[i - 7] + s1;
  }
  auto [a, b, c, d, e, f, g, h] = state_;
  const auto word = [&w](std::size_t i) { return round_constants[i] + w[i]; };
  for (std::size_t i = 0; i < 64; i += 8) {  // the variables change places, which costs no move when written out
    round(a, b, c, d, e, f, g, h, word(i));
    round(h, a, b, c, d, e, f, g, word(i + 1));
    round(g, h, a, b, c, d, e, f, word(i + 2));
    round(f, g, h, a, b, c, d, e, word(i + 3));
    round(e, f, g, h, a, b, c, d, word(i + 4));
    round(d, e, f, g, h, a, b, c, word(i + 5));
    round(c, d, e, f, g, h, a, b, word(i + 6));
    round(b, c, d, e, f, g, h, a, word(i + 7));
  }
  const std::array<std::uint32_t, 8> added = {a, b, c, d, e, f, g, h};
  for (std::size_t i = 0; i < 8; ++i) state_[i] += added[i];
}

}  // namespace

std::string torchscript_name(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw InputError(fmt::format("{}: cannot be read", path));
  Sha256 digest;
  std::array<unsigned char, 65'536> buffer{};
  std::size_t count = 0;
  while ((count = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0) digest.add(buffer.data(), count);
  if (std::ferror(file.get()) != 0) throw InputError(fmt::format("{}: cannot be read", path));
  return fmt::format("torchscript:{:012x}", digest.first_48_bits());
}

}  // namespace perfpred
