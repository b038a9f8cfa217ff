// SPDX-License-Identifier: Apache-2.0
#include "service/run_spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <mutex>
#include <utility>
#include <vector>

#include "runs/run_row.h"
#include "text/files.h"
#include "text/parse.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;

/// Of a file: some ten thousand rows. Any user may drop one.
constexpr std::size_t most_spool_bytes = std::size_t{4} << 20U;

/// The text of a file of others, who may have put a link, a pipe or anything there. @throws InputError
std::string text_of_regular(const std::string& path) {
  const int fd = ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
  if (fd < 0) throw InputError(fmt::format("cannot be read: {}", std::strerror(errno)));
  std::string text;
  struct stat found {};
  const bool regular = ::fstat(fd, &found) == 0 && S_ISREG(found.st_mode);
  if (regular && static_cast<std::size_t>(found.st_size) <= most_spool_bytes)
    read_at(fd, 0, most_spool_bytes, text, path);
  ::close(fd);
  if (!regular) throw InputError("is no regular file");
  if (static_cast<std::size_t>(found.st_size) > most_spool_bytes)
    throw InputError(fmt::format("has more than {} bytes", most_spool_bytes));
  return text;
}

}  // namespace

RunSpool::RunSpool(const ServedModels& models, const Service& service, std::string folder, std::string model, Say say)
    : models_(models), service_(service), folder_(std::move(folder)), model_(std::move(model)), say_(std::move(say)) {
  for (const auto& one : models_.all()) {
    if (model_.empty() && !one->file.path.empty()) model_ = one->file.name;
  }
  const auto found = models_.find(model_);
  if (model_.empty()) throw InputError("a spool needs --model NAME=model.json: the standard model has no file");
  if (!found || found->file.path.empty())
    throw InputError(fmt::format("spool: there is no model \"{}\" with a file", shown(model_)));
  for (const char* part : {"", "/done", "/refused"}) make_folder(folder_ + part);
}

void RunSpool::take() {
  std::vector<std::string> names;
  std::error_code error;
  for (fs::directory_iterator at(folder_, error), end; !error && at != end; at.increment(error)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with('.') && name.ends_with(".csv")) names.push_back(name);
  }
  if (error && complaint_ != error.message()) {
    complaint_ = error.message();
    say_(fmt::format("spool {}: {}", folder_, complaint_));
  }
  std::ranges::sort(names);
  for (const std::string& name : names) take(name);
}

void RunSpool::take(const std::string& name) {
  const std::string path = folder_ + "/" + name;
  const auto move_to = [&](const char* part) {
    std::error_code error;
    const std::string stamp = fmt::format("{}", std::time(nullptr));
    fs::rename(path, fmt::format("{}/{}/{}.{}", folder_, part, name, stamp), error);
    if (error) throw Error(fmt::format("cannot be moved to {}: {}", part, error.message()));
  };
  try {
    const auto model = models_.find(model_);
    if (::access(model->file.path.c_str(), W_OK) != 0)
      throw Error(fmt::format("{}: cannot be written: {}", model->file.path, std::strerror(errno)));
    try {
      const std::vector<Run> runs = read_runs_text(name, text_of_regular(path));
      if (runs.empty()) throw InputError("holds no run");
      const std::vector<RejectedRun> set_aside = service_.learn(*model, runs);
      move_to("done");
      say_(fmt::format("spool: {}: {} runs observed, {} set aside{}", printable(name), runs.size() - set_aside.size(),
                       set_aside.size(), set_aside.empty() ? "" : ": " + set_aside.front().reason));
    } catch (const InputError& error) {
      move_to("refused");
      say_(fmt::format("spool: {} is refused: {}", printable(name), error.what()));
    }
    complaint_.clear();
  } catch (const std::exception& error) {  // the disk, the model's file: it may go well the next time
    if (complaint_ == error.what()) return;
    complaint_ = error.what();
    say_(fmt::format("spool: {} stays: {}", printable(name), complaint_));
  }
}

RunSpoolWatch::RunSpoolWatch(RunSpool& spool)
    : thread_([&spool](const std::stop_token& stop) {
        constexpr auto pause = std::chrono::seconds(1);
        std::mutex mutex;
        std::condition_variable_any never;
        std::unique_lock lock(mutex);
        do spool.take();
        while (!never.wait_for(lock, stop, pause, [&] { return stop.stop_requested(); }));
      }) {}

}  // namespace perfpred
