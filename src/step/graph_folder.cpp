// SPDX-License-Identifier: Apache-2.0
#include "step/graph_folder.h"

#include <perfpred/error.h>
#include <perfpred/step_file.h>

#include <fmt/format.h>

#include <filesystem>
#include <map>
#include <mutex>
#include <vector>

#include "workload/workload_columns.h"

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
  if (fs::is_regular_file(folder, error)) {
    add_graph(folder);
    return;
  }
  if (!fs::is_directory(folder, error)) throw InputError(fmt::format("{}: is not a folder", folder));
  const std::lock_guard lock(graphs_mutex);
  folders().emplace_back(folder);
}

StepFile add_graph(const std::string& path) {
  StepFile file(path);
  const std::lock_guard lock(graphs_mutex);
  files_read().insert_or_assign(file.name(), file);
  return file;
}

std::optional<StepFile> find_graph(const std::string& network, const std::string& variant) {
  const std::lock_guard lock(graphs_mutex);
  std::map<std::string, StepFile>& known = files_read();
  const std::string trained = network + "_" + variant;
  for (const std::string& name : {network, trained}) {
    if (const auto found = known.find(name); found != known.end()) return found->second;
  }
  const std::string stem = network.substr(network.find(':') + 1);  // the hash, or all of a name without one
  if (stem.find('/') != std::string::npos) return std::nullopt;
  for (const fs::path& folder : folders()) {
    for (const std::string& file : {fmt::format("{}_{}.json", stem, variant), stem + ".json"}) {
      std::error_code error;
      if (!fs::exists(folder / file, error)) continue;
      const std::string path = (folder / file).string();
      const StepFile step(path);
      if (is_captured_step(network) && step.name() != network) {
        throw InputError(fmt::format("{}: is {}, not {}", path, step.name(), network));
      }
      return known.emplace(trained, step).first->second;
    }
  }
  return std::nullopt;
}

std::optional<StepFile> find_graph(const Workload& workload) {
  return find_graph(workload.network,
                    fmt::format("{}_{}", to_string(workload.optimizer), to_string(workload.precision)));
}

std::int64_t batches_per_step(const Workload& workload) {
  if (!is_captured_step(workload.network)) return workload.accumulate;
  const auto file = find_graph(workload.network);
  return file ? file->batches() : 1;
}

std::int64_t positions_of_sample(const Workload& workload) {
  if (!is_captured_step(workload.network)) return workload.input.size() == 1 ? workload.input.front() : 0;
  const auto file = find_graph(workload.network);
  return file ? file->positions() : 0;
}

}  // namespace perfpred
