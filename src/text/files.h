// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace perfpred {

/// The one name of the file that a path leads to, which need not exist: absolute, links followed.
/// @throws InputError for a loop of links
[[nodiscard]] std::string file_behind(const std::string& path);

/// Removes what killed writers of a file left beside it, `NAME.PID-N.tmp`. A process that writes one lives here, or
/// holds its lock: in another container, on another machine, or this one, which may have the number of a killed one.
void remove_leftovers(const std::string& path);

/// An output file that appears whole or not at all: written beside its name as `NAME.PID-N.tmp`, synchronised, renamed
/// by commit(), which waits until the disk has the name, too. A link stays, and the file that it leads to is replaced.
/// What writers of this name left that were killed is removed. A name that exists and is not a regular file (a pipe,
/// /dev/stdout) is written directly.
class AtomicFile {
 public:
  /// @throws InputError if no file can be made there, or if there is one that may not be written
  explicit AtomicFile(std::string path);
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  ///< without commit() nothing stays

  void write(std::string_view text);  ///< @throws Error if the disk refuses
  void commit();                      ///< @throws Error if the disk refuses; call once, last

 private:
  void flush();

  std::string path_;       // as it was given
  std::string target_;     // what commit() replaces
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

/// A regular file that others may have replaced by a link, a pipe or anything.
class RegularFile {
 public:
  /// @param flags  of open(), but for O_CLOEXEC and those that keep it from following links and waiting
  /// @throws InputError "cannot be read: ..." or "is no regular file", without the path
  RegularFile(const std::string& path, int flags);
  RegularFile(const RegularFile&) = delete;
  RegularFile& operator=(const RegularFile&) = delete;
  ~RegularFile();

  [[nodiscard]] std::size_t size() const { return size_; }  ///< when it was opened
  [[nodiscard]] std::string text(std::size_t most) const;   ///< its first bytes, as many. @throws InputError
  void clear();                                             ///< @throws Error if the disk refuses

 private:
  std::string path_;
  int fd_ = -1;
  std::size_t size_ = 0;
};

/// Opens a file and waits until nobody else holds its lock (flock), which goes when the file is closed: the file that
/// has this name once the lock is held, not one that was replaced meanwhile.
/// @param flags  of open(), O_CLOEXEC apart
/// @returns the open file
/// @throws InputError if it cannot be opened, Error if it cannot be locked
[[nodiscard]] int open_locked(const std::string& path, int flags);

/// Keeps others from correcting a file while it is read, changed and replaced: open_locked() of a regular file.
class FileLock {
 public:
  explicit FileLock(const std::string& path);  ///< @throws as open_locked(), for a file that may not be written, too
  FileLock(const FileLock&) = delete;
  FileLock& operator=(const FileLock&) = delete;
  ~FileLock();

 private:
  int fd_ = -1;
};

/// Waits until the disk has what was written to an open file. @throws Error, which names `path`, if it refuses
void synchronise(int fd, const std::string& path);

/// Writes one whole file. @throws as AtomicFile does
void write_file(const std::string& path, std::string_view text);

/// Creates a folder and its missing parents. @throws InputError if that fails
void make_folder(const std::string& path);

/// Reads one whole file. @throws InputError if it cannot be read
[[nodiscard]] std::string read_file(const std::string& path);

}  // namespace perfpred
