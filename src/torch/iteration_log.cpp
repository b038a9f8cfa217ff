#include "iteration_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>
#include <utility>

#include "csv.h"
#include "parse.h"

namespace perfpred {

IterationLog::IterationLog(std::string path, bool append, Names names)
    : path_(std::move(path)), names_(std::move(names)) {
  if (path_.empty()) return;
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (append ? 0 : O_TRUNC), 0666);
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
    throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
  }
  if (status.st_size == 0) {
    buffer_ = "env,device,network,batch_size,iter_idx,iter_time_ms,imgs_per_sec,timestamp,epoch\n";
    flush();
  }
}

IterationLog::~IterationLog() {
  if (fd_ >= 0) ::close(fd_);
}

void IterationLog::add(const Row& row) {
  if (fd_ < 0) return;
  const std::array<std::string, 9> fields = {names_.env,
                                             names_.device,
                                             names_.network,
                                             std::to_string(names_.batch_size),
                                             std::to_string(row.index),
                                             number_text(row.sec * 1e3),
                                             number_text(static_cast<double>(row.images) / row.sec),
                                             fmt::format("{:.6f}", row.ended),
                                             std::to_string(row.epoch)};
  buffer_ += csv_line(fields);
}

void IterationLog::flush() {
  std::string_view rest = buffer_;
  while (!rest.empty()) {
    const auto written = ::write(fd_, rest.data(), rest.size());
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) throw Error(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
    rest.remove_prefix(static_cast<std::size_t>(written));
  }
  buffer_.clear();
}

}  // namespace perfpred
