// SPDX-License-Identifier: Apache-2.0
#include "torch/data/archive.h"

#include <fmt/format.h>
#include <perfpred/error.h>

#ifdef PERFPRED_WITH_ARCHIVE
#include <archive.h>
#include <archive_entry.h>
#endif

#include <cstddef>
#include <memory>
#include <string_view>

namespace perfpred {

#ifndef PERFPRED_WITH_ARCHIVE

std::map<std::string, std::string> read_archive(const std::string& path,
                                                const std::function<bool(const std::string&)>&) {
  throw InputError(fmt::format("{}: this build reads no archives (built without libarchive): unpack it", path));
}

#else

namespace {

constexpr std::size_t most_bytes = 512'000'000;

struct Closed {
  void operator()(archive* reader) const { archive_read_free(reader); }
};

class Reader {
 public:
  explicit Reader(const std::string& path) : path_(path), reader_(archive_read_new()) {
    if (!reader_) throw Error("libarchive cannot be started");
    archive_read_support_filter_all(reader_.get());
    archive_read_support_format_tar(reader_.get());
    archive_read_support_format_zip(reader_.get());
    constexpr std::size_t block = 1 << 16;
    check(archive_read_open_filename(reader_.get(), path.c_str(), block));
  }

  /// @return nothing at the end
  archive_entry* next() {
    archive_entry* entry = nullptr;
    const int state = archive_read_next_header(reader_.get(), &entry);
    if (state == ARCHIVE_EOF) return nullptr;
    check(state);
    return entry;
  }

  std::string content() {
    std::string bytes;
    std::string part(1 << 16, '\0');
    while (true) {
      const auto size = archive_read_data(reader_.get(), part.data(), part.size());
      if (size < 0) check(static_cast<int>(size));
      if (size == 0) return bytes;
      read_ += static_cast<std::size_t>(size);
      if (read_ > most_bytes) throw InputError(fmt::format("{}: holds more than {} MB", path_, most_bytes / 1'000'000));
      bytes.append(part, 0, static_cast<std::size_t>(size));
    }
  }

 private:
  void check(int state) const {
    if (state == ARCHIVE_OK || state == ARCHIVE_WARN) return;
    const char* reason = archive_error_string(reader_.get());
    throw InputError(fmt::format("{}: is no whole archive: {}", path_, reason != nullptr ? reason : "unknown reason"));
  }

  std::string path_;
  std::unique_ptr<archive, Closed> reader_;
  std::size_t read_ = 0;
};

}  // namespace

std::map<std::string, std::string> read_archive(const std::string& path,
                                                const std::function<bool(const std::string&)>& wanted) {
  Reader reader(path);
  std::map<std::string, std::string> files;
  while (archive_entry* entry = reader.next()) {
    const char* whole = archive_entry_pathname(entry);
    if (whole == nullptr || archive_entry_filetype(entry) != AE_IFREG) continue;
    const std::string name(std::string_view(whole).substr(std::string_view(whole).rfind('/') + 1));
    if (!wanted(name)) continue;
    if (!files.emplace(name, reader.content()).second) {
      throw InputError(fmt::format("{}: holds two files {}", path, name));
    }
  }
  return files;
}

#endif

}  // namespace perfpred
