// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Allocator.h>

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

namespace perfpred {

/// A file seen as memory. The system reads a page when it is first used and may drop it again, so that a large file of
/// weights takes no memory of the process.
class MappedFile : public std::enable_shared_from_this<MappedFile> {
 public:
  /// @throws InputError if the file cannot be read; the message does not name it
  [[nodiscard]] static std::shared_ptr<const MappedFile> open(const std::string& path);

  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  [[nodiscard]] std::string_view bytes() const { return {data_, size_}; }

  /// Memory for a tensor, from this offset on; it keeps the file mapped. Who writes to it changes a copy, not the file.
  [[nodiscard]] at::DataPtr part(std::size_t offset) const;

 private:
  MappedFile(char* data, std::size_t size) : data_(data), size_(size) {}

  char* data_;
  std::size_t size_;
};

}  // namespace perfpred
