// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Allocator.h>
#include <caffe2/serialize/inline_container.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "torch/files/mapped_file.h"

namespace perfpred {

/// What is said of a file of torch.save() that cannot be read to its end.
inline constexpr const char* damaged_file = "is not a whole file of torch.save(): it is cut off or damaged";

/// Bytes as an unsigned number, the lowest first; at most 8.
[[nodiscard]] std::uint64_t little_endian(std::string_view bytes);

/// The zip file that torch.save() writes, read record by record. Checksums are compared, which LibTorch's reader leaves
/// out for records that are not compressed.
class TorchArchive {
 public:
  /// @throws InputError if the file cannot be read, c10::Error if it is not a whole zip file
  explicit TorchArchive(const std::string& path);

  [[nodiscard]] bool has(const std::string& record) { return reader_.hasRecord(record); }
  [[nodiscard]] std::size_t size(const std::string& record) { return reader_.getRecordSize(record); }  ///< bytes

  /// @throws InputError if the record's checksum is wrong, or all records read take several times the file's size;
  /// c10::Error if it cannot be read
  [[nodiscard]] at::DataPtr read(const std::string& record);
  [[nodiscard]] std::string text(const std::string& record);  ///< @copydoc read

  /// The same without a copy in memory, see MappedFile; a record that is compressed or not aligned is copied.
  [[nodiscard]] at::DataPtr map(const std::string& record);

 private:
  [[nodiscard]] std::string_view bytes(std::size_t at, std::size_t size) const;
  [[nodiscard]] bool is_stored(const std::string& record);
  void check(const std::string& record, std::string_view content);

  std::shared_ptr<const MappedFile> file_;
  caffe2::serialize::PyTorchStreamReader reader_;
  std::size_t read_ = 0;  // bytes, once they are inflated
};

}  // namespace perfpred
