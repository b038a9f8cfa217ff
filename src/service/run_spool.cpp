// SPDX-License-Identifier: Apache-2.0
#include "service/run_spool.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <perfpred/error.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <ctime>
#include <filesystem>
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

/// @throws InputError
std::string text_of_dropped(const std::string& path) {
  const RegularFile file(path, O_RDONLY);
  if (file.size() > most_spool_bytes) throw InputError(fmt::format("has more than {} bytes", most_spool_bytes));
  return file.text(most_spool_bytes);
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
      const std::vector<Run> runs = read_runs_text(name, text_of_dropped(path));
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

}  // namespace perfpred
