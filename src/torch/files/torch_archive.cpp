// SPDX-License-Identifier: Apache-2.0
#include "torch/files/torch_archive.h"

#include <caffe2/serialize/crc_alt.h>
#include <caffe2/serialize/read_adapter_interface.h>
#include <perfpred/error.h>

#include <cstddef>
#include <utility>

namespace perfpred {
namespace {

constexpr std::uint32_t no_checksum = 0;  // as torch.serialization.set_crc32_options(False) writes it

/// torch.save() does not compress, and weights that somebody else compressed do not shrink by much.
constexpr std::size_t most_inflation = 4;

class MappedAdapter final : public caffe2::serialize::ReadAdapterInterface {
 public:
  explicit MappedAdapter(std::shared_ptr<const MappedFile> file) : file_(std::move(file)) {}

  size_t size() const override { return file_->bytes().size(); }
  size_t read(uint64_t at, void* to, size_t count, const char* /*what*/) const override {
    return at < size() ? file_->bytes().copy(static_cast<char*>(to), count, at) : 0;
  }

 private:
  std::shared_ptr<const MappedFile> file_;
};

}  // namespace

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8U | static_cast<unsigned char>(bytes[i]);
  return value;
}

TorchArchive::TorchArchive(const std::string& path)
    : file_(MappedFile::open(path)), reader_(std::make_shared<MappedAdapter>(file_)) {}

at::DataPtr TorchArchive::read(const std::string& record) {
  read_ += size(record);
  if (read_ > most_inflation * file_->bytes().size()) throw InputError(damaged_file);
  auto [data, size] = reader_.getRecord(record);
  check(record, {static_cast<const char*>(data.get()), size});
  return std::move(data);
}

std::string TorchArchive::text(const std::string& record) {
  const at::DataPtr bytes = read(record);
  return {static_cast<const char*>(bytes.get()), size(record)};
}

at::DataPtr TorchArchive::map(const std::string& record) {
  const std::size_t at = reader_.getRecordOffset(record);
  if (!is_stored(record) || at % alignof(std::max_align_t) != 0) return read(record);
  check(record, bytes(at, size(record)));
  return file_->part(at);
}

std::string_view TorchArchive::bytes(std::size_t at, std::size_t size) const {
  const std::string_view all = file_->bytes();
  if (at > all.size() || size > all.size() - at) throw InputError(damaged_file);
  return all.substr(at, size);
}

bool TorchArchive::is_stored(const std::string& record) {
  return little_endian(bytes(reader_.getRecordHeaderOffset(record) + 8, 2)) == 0;
}

/// CRC-32: behind the data if bit 3 of the header's flags is set, else in the header (APPNOTE.TXT of PKWARE, 4.3).
void TorchArchive::check(const std::string& record, std::string_view content) {
  if (content.empty() || !is_stored(record)) return;
  const std::size_t header = reader_.getRecordHeaderOffset(record);
  const bool behind = (little_endian(bytes(header + 6, 2)) & 8U) != 0;
  const std::size_t at = behind ? reader_.getRecordOffset(record) + content.size() + 4 : header + 14;
  const std::uint64_t stated = little_endian(bytes(at, 4));
  if (stated != no_checksum && stated != crc32_fast(content.data(), content.size())) throw InputError(damaged_file);
}

}  // namespace perfpred
