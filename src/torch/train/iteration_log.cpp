// SPDX-License-Identifier: Apache-2.0
#include "torch/train/iteration_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <string_view>
#include <utility>
#include <vector>

#include "text/csv.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::string_view header =
    "env,device,network,batch_size,iter_idx,iter_time_ms,imgs_per_sec,timestamp,epoch,input,classes,optimizer,"
    "precision,layout,threads,accumulate";
constexpr std::size_t columns = 16;

}  // namespace

IterationLog::IterationLog(std::string path, std::optional<std::int64_t> go_on_at, std::string env, Workload workload,
                           std::int64_t accumulate)
    : path_(std::move(path)), env_(std::move(env)), workload_(std::move(workload)), accumulate_(accumulate) {
  if (path_.empty()) return;
  if (go_on_at && std::filesystem::is_regular_file(path_) && std::filesystem::file_size(path_) > 0) {
    drop_rows(*go_on_at);
  }
  fd_ = ::open(path_.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | (go_on_at ? 0 : O_TRUNC), 0666);
  struct stat status {};
  if (fd_ < 0 || ::fstat(fd_, &status) != 0) {
    throw InputError(fmt::format("{}: cannot be written: {}", path_, std::strerror(errno)));
  }
  if (status.st_size == 0) {
    buffer_ = fmt::format("{}\n", header);
    flush();
  }
}

/// A killed training may have logged more than its last checkpoint knows of, the last row in part.
void IterationLog::drop_rows(std::int64_t from) const {
  LineReader lines(path_);
  AtomicFile kept(path_);
  if (const char* first = lines.next(); first == nullptr || header != first) {
    throw InputError(fmt::format("{}: is not an iteration log to go on with: its first line is not {}", path_, header));
  }
  kept.write(fmt::format("{}\n", header));
  while (const char* line = lines.next()) {
    const std::vector<std::string> fields = split_csv_line(line, fmt::format("{}:{}: ", path_, lines.line()));
    if (fields.size() != columns) continue;
    const bool ours = fields[1] == workload_.device && fields[2] == workload_.network &&
                      fields[3] == std::to_string(workload_.batch_size);
    if (!ours || parse_integer(fields[4], {path_, lines.line(), "iter_idx"}) < from) {
      kept.write(fmt::format("{}\n", line));
    }
  }
  kept.commit();
}

IterationLog::~IterationLog() {
  if (fd_ >= 0) ::close(fd_);
}

void IterationLog::add(const Row& row) {
  if (fd_ < 0) return;
  std::vector<std::string> fields = {env_,
                                     workload_.device,
                                     workload_.network,
                                     std::to_string(workload_.batch_size),
                                     std::to_string(row.index),
                                     number_text(row.sec * 1e3),
                                     number_text(static_cast<double>(row.images) / row.sec),
                                     fmt::format("{:.6f}", row.ended),
                                     std::to_string(row.epoch)};
  for (const char* field : {"input", "classes", "optimizer", "precision", "layout", "threads"}) {
    fields.push_back(field_text(workload_, field));
  }
  fields.push_back(std::to_string(accumulate_));
  buffer_ += csv_line(fields);
}

void IterationLog::flush() {
  write_all(fd_, buffer_, path_);
  buffer_.clear();
}

}  // namespace perfpred
