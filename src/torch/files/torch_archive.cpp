// SPDX-License-Identifier: Apache-2.0
#include "torch/files/torch_archive.h"

#include <caffe2/serialize/crc_alt.h>
#include <perfpred/error.h>

#include <array>
#include <utility>

namespace perfpred {
namespace {

constexpr std::uint32_t no_checksum = 0;  // as torch.serialization.set_crc32_options(False) writes it

}  // namespace

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

TorchArchive::TorchArchive(const std::string& path)
    : file_(std::make_shared<caffe2::serialize::FileAdapter>(path)), reader_(file_) {}

at::DataPtr TorchArchive::read(const std::string& record) {
  auto [data, size] = reader_.getRecord(record);
  const std::uint32_t stated = checksum(record, size);
  if (stated != no_checksum && stated != crc32_fast(data.get(), size)) throw InputError(damaged_file);
  return std::move(data);
}

std::uint64_t TorchArchive::number(std::size_t at, std::size_t size) const {
  std::array<char, 8> bytes{};
  if (at + size > file_->size() || file_->read(at, bytes.data(), size) != size) throw InputError(damaged_file);
  return little_endian({bytes.data(), size});
}

/// CRC-32: behind the data if bit 3 of the header's flags is set, else in the header (APPNOTE.TXT of PKWARE, 4.3).
std::uint32_t TorchArchive::checksum(const std::string& record, std::size_t size) {
  const std::size_t header = reader_.getRecordHeaderOffset(record);
  const bool stored = number(header + 8, 2) == 0;
  if (!stored || size == 0) return no_checksum;
  const bool behind = (number(header + 6, 2) & 8U) != 0;
  const std::size_t at = behind ? reader_.getRecordOffset(record) + size + 4 : header + 14;
  return static_cast<std::uint32_t>(number(at, 4));
}

}  // namespace perfpred
