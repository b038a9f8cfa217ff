// SPDX-License-Identifier: Apache-2.0
#include "text/text_hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <sha2.h>
#include <sys/types.h>

#include <array>
#include <span>

namespace perfpred {

std::string text_hash(std::string_view text) {
  constexpr std::size_t bytes_named = 6;
  SHA2_CTX digest;
  SHA256Init(&digest);
  SHA256Update(&digest, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  SHA256Final(hash.data(), &digest);
  return fmt::format("{:02x}", fmt::join(std::span(hash).first(bytes_named), ""));
}

}  // namespace perfpred
