// SPDX-License-Identifier: Apache-2.0
#include "torch/files/mapped_file.h"

#include <fcntl.h>
#include <perfpred/error.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

namespace perfpred {

std::shared_ptr<const MappedFile> MappedFile::open(const std::string& path) {
  const int file = ::open(path.c_str(), O_RDONLY | O_CLOEXEC);
  struct stat status {};
  if (file < 0 || ::fstat(file, &status) != 0 || !S_ISREG(status.st_mode)) {
    if (file >= 0) ::close(file);
    throw InputError("cannot be read");
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = size == 0 ? nullptr : ::mmap(nullptr, size, PROT_READ | PROT_WRITE, MAP_PRIVATE, file, 0);
  ::close(file);
  if (data == MAP_FAILED) throw InputError("cannot be read");
  return std::shared_ptr<const MappedFile>(new MappedFile(static_cast<char*>(data), size));
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) ::munmap(data_, size_);
}

at::DataPtr MappedFile::part(std::size_t offset) const {
  using Owner = std::shared_ptr<const MappedFile>;
  const auto release = [](void* owner) { delete static_cast<Owner*>(owner); };
  return {data_ + offset, new Owner(shared_from_this()), release, at::kCPU};
}

}  // namespace perfpred
