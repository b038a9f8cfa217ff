// SPDX-License-Identifier: Apache-2.0
#include "text/file_hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <perfpred/error.h>
#include <sha2.h>
#include <sys/types.h>

#include <array>
#include <cstdio>
#include <memory>
#include <span>

namespace perfpred {
namespace {

std::string first_digits(SHA2_CTX& digest) {
  constexpr std::size_t bytes_named = 6;
  std::array<unsigned char, SHA256_DIGEST_LENGTH> hash{};
  SHA256Final(hash.data(), &digest);
  return fmt::format("{:02x}", fmt::join(std::span(hash).first(bytes_named), ""));
}

}  // namespace

std::string file_hash(const std::string& path) {
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw InputError(fmt::format("{}: cannot be read", path));
  SHA2_CTX digest;
  SHA256Init(&digest);
  std::array<unsigned char, 65'536> buffer{};
  while (const std::size_t count = std::fread(buffer.data(), 1, buffer.size(), file.get())) {
    SHA256Update(&digest, buffer.data(), count);
  }
  if (std::ferror(file.get()) != 0) throw InputError(fmt::format("{}: cannot be read", path));
  return first_digits(digest);
}

std::string text_hash(std::string_view text) {
  SHA2_CTX digest;
  SHA256Init(&digest);
  SHA256Update(&digest, reinterpret_cast<const unsigned char*>(text.data()), text.size());
  return first_digits(digest);
}

}  // namespace perfpred
