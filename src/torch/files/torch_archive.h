// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Allocator.h>
#include <caffe2/serialize/file_adapter.h>
#include <caffe2/serialize/inline_container.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

namespace perfpred {

/// What is said of a file of torch.save() that cannot be read to its end.
inline constexpr const char* damaged_file = "is not a whole file of torch.save(): it is cut off or damaged";

/// Bytes as an unsigned number, the lowest first; at most 8.
[[nodiscard]] std::uint64_t little_endian(std::string_view bytes);

/// The zip file that torch.save() writes, read record by record. Checksums are compared, which LibTorch's reader leaves
/// out for records that are not compressed.
class TorchArchive {
 public:
  /// @throws c10::Error if the file is not a whole zip file
  explicit TorchArchive(const std::string& path);

  [[nodiscard]] bool has(const std::string& record) { return reader_.hasRecord(record); }
  [[nodiscard]] std::size_t size(const std::string& record) { return reader_.getRecordSize(record); }  ///< bytes
  [[nodiscard]] std::size_t file_size() const { return file_->size(); }                                ///< bytes

  /// @throws InputError if the record's checksum is wrong, c10::Error if it cannot be read
  [[nodiscard]] at::DataPtr read(const std::string& record);

 private:
  std::uint64_t number(std::size_t at, std::size_t size) const;
  std::uint32_t checksum(const std::string& record, std::size_t size);

  std::shared_ptr<caffe2::serialize::FileAdapter> file_;
  caffe2::serialize::PyTorchStreamReader reader_;
};

}  // namespace perfpred
