// SPDX-License-Identifier: Apache-2.0
#include "service/served_models.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <perfpred/error.h>
#include <sys/stat.h>

#include <algorithm>
#include <exception>
#include <filesystem>

#include "service/former_models.h"
#include "text/files.h"
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
    if (stamp_of(slot->file.path) != slot->seen) reload(*slot, true);
  }
}

ServedModels::Slot& ServedModels::slot_with_file(std::string_view name) const {
  const auto slot = std::find_if(slots_.begin(), slots_.end(), [&](const auto& one) { return one->file.name == name; });
  if (slot == slots_.end() || (*slot)->file.path.empty())
    throw InputError(fmt::format("model {} has no file", shown(name)));
  return **slot;
}

std::vector<RejectedRun> ServedModels::observe(std::string_view name, std::span<const Run> runs) {
  Slot& slot = slot_with_file(name);
  const std::lock_guard alone(slot.replacing);
  const std::string& path = slot.file.path;
  if (stamp_of(path) != slot.seen) reload(slot, true);
  FormerModels(path).keep(slot.model->text);  // before it is replaced: if the disk is full, nothing changes
  std::vector<RejectedRun> rejected = TimeRegressor::observe_in_file(path, runs, path, devices_);
  reload(slot, true);
  return rejected;
}

std::string ServedModels::good_version(const Slot& slot, std::string_view time) const {
  const FormerModels former(slot.file.path);
  const std::vector<std::string> times = former.times();
  for (const std::string& one : times) {
    if (!time.empty() && one != time) continue;
    try {
      const std::string text = read_file(former.file(one));
      if (time.empty() && text == slot.model->text) continue;
      (void)TimeRegressor::from_text(text, devices_);
      return one;
    } catch (const ModelError& error) {
      if (!time.empty()) throw InputError(fmt::format("version {} of model {}: {}", one, slot.file.name, error.what()));
      say_(fmt::format("version {} of model {} is left out: {}", one, slot.file.name, error.what()));
    }
  }
  if (time.empty()) throw InputError(fmt::format("model {} has no former version", slot.file.name));
  throw InputError(fmt::format("model {} has no version \"{}\"; there are {}", slot.file.name, shown(time),
                               times.empty() ? "none" : fmt::format("{}", fmt::join(times, ", "))));
}

std::string ServedModels::roll_back(std::string_view name, std::string_view time) {
  Slot& slot = slot_with_file(name);
  const std::lock_guard alone(slot.replacing);
  const std::string& path = slot.file.path;
  const FileLock lock(path);
  const FormerModels former(path);
  const bool exists = std::filesystem::exists(path);
  const std::string present = exists ? read_file(path) : std::string();
  const bool to_served = time.empty() && present != slot.model->text;
  const std::string version = to_served ? std::string() : good_version(slot, time);
  const std::string text = to_served ? slot.model->text : read_file(former.file(version));
  if (exists) write_file(file_behind(path) + ".rolled_back", present);
  write_file(path, text);
  reload(slot, false);
  if (!to_served) former.remove_from(version);
  return version;
}

void ServedModels::keep_former(const ServedModel& former) const {
  try {
    FormerModels(former.file.path).keep(former.text);
  } catch (const Error& error) {
    say_(fmt::format("model {}: the version that is replaced is not kept: {}", former.file.name, error.what()));
  }
}

ServedModels::Stamp ServedModels::stamp_of(const std::string& path) {
  struct stat found {};
  if (path.empty() || ::stat(path.c_str(), &found) != 0) return std::nullopt;
  return Stamp(std::in_place, found.st_dev, found.st_ino, found.st_size, found.st_mtim.tv_sec, found.st_mtim.tv_nsec);
}

std::shared_ptr<const ServedModel> ServedModels::read(const ModelFile& file) const {
  if (file.path.empty())
    return std::make_shared<const ServedModel>(file, std::string(), TimeRegressor::standard(devices_),
                                               std::time(nullptr));
  std::string text = read_file(file.path);
  try {
    TimeRegressor model = TimeRegressor::from_text(text, devices_);
    return std::make_shared<const ServedModel>(file, std::move(text), std::move(model), std::time(nullptr));
  } catch (const ModelError& error) {
    const std::vector<std::string> times = FormerModels(file.path).times();
    throw ModelError(fmt::format("{}: {}{}", file.path, error.what(),
                                 times.empty() ? "" : fmt::format("; before it was {}.{}", file.path, times.front())));
  }
}

void ServedModels::reload(Slot& slot, bool keeps_former) {
  const ModelFile& file = slot.file;
  slot.seen = stamp_of(file.path);
  bool good = true;
  try {
    std::shared_ptr<const ServedModel> next = read(file);
    if (keeps_former && next->text != slot.model->text) keep_former(*slot.model);
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
