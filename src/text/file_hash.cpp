// SPDX-License-Identifier: Apache-2.0
#include "text/file_hash.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <openssl/evp.h>
#include <perfpred/error.h>

#include <array>
#include <cstdio>
#include <memory>
#include <span>

namespace perfpred {

std::string file_hash(const std::string& path) {
  constexpr std::size_t bytes_named = 6;
  const std::unique_ptr<std::FILE, int (*)(std::FILE*)> file(std::fopen(path.c_str(), "rb"), &std::fclose);
  if (!file) throw InputError(fmt::format("{}: cannot be read", path));
  const std::unique_ptr<EVP_MD_CTX, void (*)(EVP_MD_CTX*)> digest(EVP_MD_CTX_new(), &EVP_MD_CTX_free);
  bool good = digest && EVP_DigestInit_ex(digest.get(), EVP_sha256(), nullptr) == 1;
  std::array<unsigned char, 65'536> buffer{};
  std::size_t count = 0;
  while (good && (count = std::fread(buffer.data(), 1, buffer.size(), file.get())) > 0) {
    good = EVP_DigestUpdate(digest.get(), buffer.data(), count) == 1;
  }
  if (std::ferror(file.get()) != 0) throw InputError(fmt::format("{}: cannot be read", path));
  std::array<unsigned char, EVP_MAX_MD_SIZE> hash{};
  if (!good || EVP_DigestFinal_ex(digest.get(), hash.data(), nullptr) != 1) throw Error("libcrypto has no SHA-256");
  return fmt::format("{:02x}", fmt::join(std::span(hash).first(bytes_named), ""));
}

}  // namespace perfpred
