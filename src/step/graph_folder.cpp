// SPDX-License-Identifier: Apache-2.0
#include "step/graph_folder.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

namespace perfpred {
namespace {

namespace fs = std::filesystem;

std::mutex graphs_mutex;
std::vector<fs::path>& folders() {
  static std::vector<fs::path> all;
  return all;
}
std::map<std::string, StepFile>& files_read() {
  static std::map<std::string, StepFile> files;
  return files;
}

}  // namespace

void add_graphs(const std::string& folder) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) throw InputError(fmt::format("{}: is not a folder", folder));
  const std::lock_guard lock(graphs_mutex);
  folders().emplace_back(folder);
}

StepFile add_graph(const std::string& path) {
  const StepFile file(path);
  const std::lock_guard lock(graphs_mutex);
  files_read().insert_or_assign(file.name(), file);
  return file;
}

std::optional<StepFile> find_graph(const std::string& network) {
  const std::lock_guard lock(graphs_mutex);
  const auto known = files_read().find(network);
  if (known != files_read().end()) return known->second;
  const std::string stem = network.substr(network.find(':') + 1);  // the hash, or all of a name without one
  if (stem.find('/') != std::string::npos) return std::nullopt;
  for (const fs::path& folder : folders()) {
    const fs::path path = folder / (stem + ".json");
    std::error_code error;
    if (fs::exists(path, error)) return files_read().emplace(network, StepFile(path.string())).first->second;
  }
  return std::nullopt;
}

}  // namespace perfpred
