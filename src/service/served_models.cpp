// SPDX-License-Identifier: Apache-2.0
#include "service/served_models.h"

#include <fmt/format.h>
#include <perfpred/error.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "text/parse.h"

namespace perfpred {

ModelFile parse_model_file(std::string_view text) {
  const std::size_t equals = text.find('=');
  ModelFile file;
  file.path = text.substr(equals == std::string_view::npos ? 0 : equals + 1);
  file.name = equals == std::string_view::npos ? std::filesystem::path(file.path).stem().string()
                                               : std::string(text.substr(0, equals));
  if (file.name.empty() || file.path.empty()) throw_bad_value({{}, 0, "model"}, text, "name=model.json");
  return file;
}

ServedModels::ServedModels(const std::vector<ModelFile>& files, DeviceCatalogue devices, Say say, Reloaded reloaded)
    : devices_(std::move(devices)), say_(std::move(say)), reloaded_(std::move(reloaded)) {
  if (files.empty()) throw InputError("no model is given");
  for (const ModelFile& file : files) {
    if (find(file.name)) throw InputError(fmt::format("model {} is given twice", shown(file.name)));
    auto slot = std::make_unique<Slot>();
    slot->file = file;
    slot->seen = stamp_of(file.path);
    slot->model = read(file);
    slots_.push_back(std::move(slot));
  }
}

std::shared_ptr<const ServedModel> ServedModels::find(std::string_view name) const {
  const std::lock_guard lock(models_);
  for (const auto& slot : slots_) {
    if (name.empty() || slot->file.name == name) return slot->model;
  }
  return nullptr;
}

std::vector<std::shared_ptr<const ServedModel>> ServedModels::all() const {
  const std::lock_guard lock(models_);
  std::vector<std::shared_ptr<const ServedModel>> models;
  for (const auto& slot : slots_) models.push_back(slot->model);
  return models;
}

void ServedModels::reload_replaced() {
  for (const auto& slot : slots_) {
    const std::unique_lock alone(slot->replacing, std::try_to_lock);
    if (!alone || slot->file.path.empty()) continue;  // whoever holds it reads the file, too
    if (stamp_of(slot->file.path) != slot->seen) reload(*slot);
  }
}

std::vector<RejectedRun> ServedModels::observe(std::string_view name, std::span<const Run> runs) {
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const auto& one) { return one->file.name == name; });
  if (slot == slots_.end() || (*slot)->file.path.empty())
    throw InputError(fmt::format("model {} has no file", shown(name)));
  const std::lock_guard alone((*slot)->replacing);
  const std::string& path = (*slot)->file.path;
  std::vector<RejectedRun> rejected = TimeRegressor::observe_in_file(path, runs, path, devices_);
  reload(**slot);
  return rejected;
}

ServedModels::Stamp ServedModels::stamp_of(const std::string& path) {
  struct stat found {};
  if (path.empty() || ::stat(path.c_str(), &found) != 0) return std::nullopt;
  return Stamp(std::in_place, found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

std::shared_ptr<const ServedModel> ServedModels::read(const ModelFile& file) const {
  return std::make_shared<const ServedModel>(
      file, file.path.empty() ? TimeRegressor::standard(devices_) : TimeRegressor::load(file.path, devices_),
      std::time(nullptr));
}

void ServedModels::reload(Slot& slot) {
  const ModelFile& file = slot.file;
  slot.seen = stamp_of(file.path);
  bool good = true;
  try {
    std::shared_ptr<const ServedModel> next = read(file);
    const std::lock_guard lock(models_);
    slot.model = std::move(next);
  } catch (const std::exception& error) {
    good = false;
    say_(fmt::format("model {} stays as it was: {}", file.name, error.what()));
  }
  if (good) say_(fmt::format("model {} is read again from {}", file.name, file.path));
  if (reloaded_) reloaded_(file.name, good);
}

}  // namespace perfpred
