// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace perfpred {

/// An output file that appears whole or not at all: written beside its name, synchronised, renamed by commit(). A name
/// that exists and is not a regular file (a pipe, /dev/stdout) is written directly.
class AtomicFile {
 public:
  /// @throws InputError if no file can be made there
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  ///< without commit() nothing stays

  void write(std::string_view text);  ///< @throws Error if the disk refuses
  void commit();                      ///< @throws Error if the disk refuses; call once, last

 private:
  void flush();

  std::string path_;
  std::string temporary_;  // empty when written directly
  std::string buffer_;
  int fd_ = -1;
};

/// Writes all of a text to an open file, however many calls the system needs.
/// @param path  names the file in the message
/// @throws Error if the disk refuses
void write_all(int fd, std::string_view text, const std::string& path);

/// Appends up to `size` bytes of an open regular file from `offset`, fewer only at its end.
/// @param path  names the file in the message
/// @throws InputError if it cannot be read
void read_at(int fd, std::size_t offset, std::size_t size, std::string& to, const std::string& path);

/// Waits until the disk has what was written to an open file. @throws Error, which names `path`, if it refuses
void synchronise(int fd, const std::string& path);

/// Writes one whole file. @throws as AtomicFile does
void write_file(const std::string& path, std::string_view text);

/// Creates a folder and its missing parents. @throws InputError if that fails
void make_folder(const std::string& path);

/// Reads one whole file. @throws InputError if it cannot be read
[[nodiscard]] std::string read_file(const std::string& path);

}  // namespace perfpred
