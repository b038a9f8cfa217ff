#include "iteration_log.h"

#include <fcntl.h>
#include <fmt/chrono.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <chrono>
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
    buffer_ = "env,device,network,batch_size,iter_idx,iter_time_ms,imgs_per_sec,timestamp\n";
    flush();
  }
}

IterationLog::~IterationLog() {
  if (fd_ >= 0) ::close(fd_);
}

void IterationLog::row(std::int64_t index, std::int64_t batch_size, double sec) {
  if (fd_ < 0) return;
  const auto now = std::chrono::system_clock::now();
  const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(now.time_since_epoch()).count() % 1000;
  const std::array<std::string, 8> fields = {
      names_.env,
      names_.device,
      names_.network,
      std::to_string(batch_size),
      std::to_string(index),
      number_text(sec * 1e3),
      number_text(static_cast<double>(batch_size) / sec),
      fmt::format("{:%Y-%m-%dT%H:%M:%S}.{:03}Z", fmt::gmtime(std::chrono::system_clock::to_time_t(now)), ms)};
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
