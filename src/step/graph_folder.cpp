// SPDX-License-Identifier: Apache-2.0
#include "step/graph_folder.h"

#include <perfpred/error.h>
#include <perfpred/step_file.h>

#include <fmt/format.h>

#include <cstdint>
#include <filesystem>
#include <map>
#include <mutex>
#include <string_view>
#include <utility>
#include <vector>

#include "text/files.h"
#include "text/text_hash.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

namespace fs = std::filesystem;

std::mutex graphs_mutex;
std::vector<fs::path>& folders() {
  static std::vector<fs::path> all;
  return all;
}

/// The step files that the process named: all their paths, and of those that it used last what they hold. Of those
/// that it gave as texts the ones that it used last.
class FilesRead {
 public:
  /// @param under  the name by which it is found
  void keep(const std::string& under, const StepFile& file, const std::string& path) {
    std::error_code error;
    const std::uintmax_t bytes = fs::file_size(path, error);
    keep(under, file, fs::absolute(path).string(), error ? 0 : bytes);
  }

  /// One that is held in memory.
  [[nodiscard]] std::optional<StepFile> held(const std::string& name) const {
    const auto known = files_.find(name);
    return known != files_.end() ? known->second.file : std::nullopt;
  }

  void keep_text(const StepFile& file, std::uintmax_t bytes) {
    const auto known = files_.find(file.name());
    keep(file.name(), file, known == files_.end() ? std::string() : known->second.path, bytes);
  }

  /// @throws InputError for one that is read again and is not what it was
  [[nodiscard]] std::optional<StepFile> find(const std::string& under) {
    const auto found = files_.find(under);
    if (found == files_.end()) return std::nullopt;
    Known& known = found->second;
    known.used = ++uses_;
    if (known.file) return known.file;
    const StepFile again(known.path);
    if (again.name() != known.name) {
      throw InputError(fmt::format("{}: is {}, no longer {}", known.path, again.name(), known.name));
    }
    keep(under, again, std::string(known.path));
    return again;
  }

 private:
  struct Known {
    std::string name, path;  // of a text no path
    std::optional<StepFile> file;
    std::uintmax_t bytes = 0;
    std::uint64_t used = 0;
  };
  using Files = std::map<std::string, Known>;

  void keep(const std::string& under, const StepFile& file, std::string path, std::uintmax_t bytes) {
    Known& known = files_[under];
    if (known.file) bytes_ -= known.bytes;
    known = {file.name(), std::move(path), file, bytes, ++uses_};
    bytes_ += known.bytes;
    drop_beyond();
  }

  void drop_beyond() {
    constexpr std::uintmax_t most = 100'000'000;  // of files; what they hold takes about as much
    while (bytes_ > most) {
      auto oldest = files_.end();
      for (auto one = files_.begin(); one != files_.end(); ++one) {
        const Known& known = one->second;
        if (known.file && known.used != uses_ && (oldest == files_.end() || known.used < oldest->second.used))
          oldest = one;
      }
      if (oldest == files_.end()) return;
      bytes_ -= oldest->second.bytes;
      oldest->second.file.reset();
      if (oldest->second.path.empty()) files_.erase(oldest);
    }
  }

  Files files_;
  std::uintmax_t bytes_ = 0;  // of those that are held
  std::uint64_t uses_ = 0;
};

FilesRead& files_read() {
  static FilesRead files;
  return files;
}

/// One that was read before, and need not be parsed again.
std::optional<StepFile> held(const std::string& name) {
  const std::lock_guard lock(graphs_mutex);
  return files_read().held(name);
}

}  // namespace

void add_graphs(const std::string& folder) {
  std::error_code error;
  if (fs::is_regular_file(folder, error)) {
    add_graph(folder);
    return;
  }
  if (!fs::is_directory(folder, error)) throw InputError(fmt::format("{}: is not a folder", folder));
  const std::lock_guard lock(graphs_mutex);
  folders().emplace_back(folder);
}

StepFile add_graph(const std::string& path) {
  const std::string text = read_file(path);
  std::optional<StepFile> file = held(captured_step_name(text_hash(text)));
  if (!file) file = StepFile::from_text(text, path);
  const std::lock_guard lock(graphs_mutex);
  files_read().keep(file->name(), *file, path);
  return *file;
}

StepFile add_graph_text(std::string_view text) {
  std::optional<StepFile> file = held(captured_step_name(text_hash(text)));
  if (!file) file = StepFile::from_text(text);
  const std::lock_guard lock(graphs_mutex);
  files_read().keep_text(*file, text.size());
  return *file;
}

std::optional<StepFile> find_graph(const std::string& network) {
  const std::lock_guard lock(graphs_mutex);
  FilesRead& known = files_read();
  if (auto found = known.find(network)) return found;
  const std::string stem = network.substr(network.find(':') + 1);  // the hash, or all of a name without one
  if (stem.find('/') != std::string::npos) return std::nullopt;
  for (const fs::path& folder : folders()) {
    std::error_code error;
    const std::string path = (folder / (stem + ".json")).string();
    if (!fs::exists(path, error)) continue;
    const StepFile step(path);
    if (is_captured_step(network) && step.name() != network) {
      throw InputError(fmt::format("{}: is {}, not {}", path, step.name(), network));
    }
    known.keep(network, step, path);
    return step;
  }
  return std::nullopt;
}

}  // namespace perfpred
