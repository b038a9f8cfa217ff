// SPDX-License-Identifier: Apache-2.0
#include "text/files.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <perfpred/error.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <filesystem>
#include <string>
#include <thread>

#include "child_process.h"
#include "temporary_folder.h"

namespace {

std::atomic<int> umask_calls = 0;

}  // namespace

/// In place of the C library's: the mask belongs to the whole process, so a library must not touch it.
extern "C" mode_t umask(mode_t mask) noexcept {
  ++umask_calls;
  return static_cast<mode_t>(::syscall(SYS_umask, mask));
}

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using testing::slurp;
using testing::TemporaryFolder;
using ::testing::ThrowsMessage;

mode_t mode_of(const std::string& path) {
  struct stat status {};
  EXPECT_EQ(::stat(path.c_str(), &status), 0);
  return status.st_mode & 07777U;
}

TEST(Files, ANewFileHasTheModeOfTheProcessAndLeavesItsMaskAlone) {
  const TemporaryFolder folder;
  const mode_t before = ::umask(027);
  umask_calls = 0;
  write_file(folder.file("new"), "text");
  EXPECT_EQ(umask_calls, 0);
  EXPECT_EQ(mode_of(folder.file("new")), 0640U);
  ::umask(before);
}

TEST(Files, AReplacedFileKeepsItsMode) {
  const TemporaryFolder folder;
  const std::string path = folder.write("old", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0604), 0);
  write_file(path, "new");
  EXPECT_EQ(mode_of(path), 0604U);
  EXPECT_EQ(slurp(path), "new");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(Files, WithoutCommitNothingStays) {
  const TemporaryFolder folder;
  {
    AtomicFile file(folder.file("new"));
    file.write("text");
    EXPECT_EQ(folder.entries(), 1U);
  }
  EXPECT_EQ(folder.entries(), 0U);
}

TEST(Files, AFileThatMayNotBeWrittenStays) {
  const TemporaryFolder folder;
  const std::string path = folder.write("old", "old");
  ASSERT_EQ(::chmod(path.c_str(), 0444), 0);
  EXPECT_THAT([&] { write_file(path, "new"); },
              ThrowsMessage<InputError>(path + ": cannot be written: Permission denied"));
  EXPECT_EQ(slurp(path), "old");
  EXPECT_EQ(folder.entries(), 1U);
}

TEST(Files, ALinkStaysAndLeadsToTheFileAlsoToANewOne) {
  const TemporaryFolder folder;
  std::filesystem::create_directory(folder.file("there"));
  std::filesystem::create_symlink("there/file", folder.file("second"));
  std::filesystem::create_symlink("second", folder.file("first"));
  for (const char* text : {"new", "newer"}) {
    write_file(folder.file("first"), text);
    EXPECT_TRUE(std::filesystem::is_symlink(folder.file("first")));
    EXPECT_TRUE(std::filesystem::is_symlink(folder.file("second")));
    EXPECT_EQ(slurp(folder.file("there/file")), text);
  }
  std::filesystem::create_symlink("loop", folder.file("loop"));
  EXPECT_THAT([&] { write_file(folder.file("loop"), "text"); },
              ThrowsMessage<InputError>(folder.file("loop") + ": Too many levels of symbolic links"));
}

TEST(Files, WhatAKilledWriterLeftGoesWithTheNextOfItsName) {
  const TemporaryFolder folder;
  const std::string path = folder.file("out");
  ASSERT_EQ(testing::exit_code_of([&] {
              AtomicFile* file = new AtomicFile(path);  // lives when the process ends
              file->write("half");
              return 0;
            }),
            0);
  ASSERT_EQ(folder.entries(), 1U);
  write_file(folder.file("other"), "text");
  EXPECT_EQ(folder.entries(), 2U);
  write_file(path, "whole");
  EXPECT_EQ(folder.entries(), 2U);
  EXPECT_EQ(slurp(path), "whole");
}

TEST(Files, WhatALivingWriterWritesAndFilesOfOtherNamesStay) {
  const TemporaryFolder folder;
  const std::string path = folder.file("out");
  AtomicFile file(path);
  file.write("late");
  for (const char* other :
       {"out.tmp", "out.notes.tmp", "out.2147483647-x.tmp", "out.2147483647-1.tmp.old", "out.-1.tmp"})
    folder.write(other, "mine");
  // A writer of another container: its number means nothing here, but it holds its lock.
  const std::string elsewhere = folder.write("out.2147483647-1.tmp", "theirs");
  const int fd = open_locked(elsewhere, O_RDWR);
  ASSERT_EQ(testing::exit_code_of([&] {
              write_file(path, "early");
              return 0;
            }),
            0);
  EXPECT_EQ(slurp(path), "early");
  EXPECT_EQ(folder.entries(), 8U);
  ::close(fd);
  file.commit();
  EXPECT_EQ(slurp(path), "late");
  write_file(path, "last");
  EXPECT_EQ(folder.entries(), 6U);
}

// A pipe takes 64 KB at a time.
TEST(Files, WriteAllWritesAll) {
  std::array<int, 2> ends{};
  ASSERT_EQ(::pipe(ends.data()), 0);
  const std::string text(1'000'000, 'x');
  std::string got;
  std::thread reader([&] {
    std::array<char, 1000> buffer{};
    for (ssize_t n = 0; (n = ::read(ends[0], buffer.data(), buffer.size())) > 0;) {
      got.append(buffer.data(), static_cast<std::size_t>(n));
    }
  });
  write_all(ends[1], text, "a pipe");
  ::close(ends[1]);
  reader.join();
  ::close(ends[0]);
  EXPECT_EQ(got, text);
  EXPECT_THAT([&] { write_all(ends[1], text, "closed"); },
              ThrowsMessage<Error>(HasSubstr("closed: cannot be written")));
}

}  // namespace
}  // namespace perfpred
