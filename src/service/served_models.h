// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/device.h>
#include <perfpred/run.h>
#include <perfpred/time_regressor.h>

#include <chrono>
#include <cstdint>
#include <ctime>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "tools/model_requests.h"

namespace perfpred {

/// A name and the file of a model; an empty path is the standard model.
struct ModelFile {
  std::string name, path;
};

/// Of `name=m.json`, or a path whose stem is then the name. @throws InputError for an empty name or path
[[nodiscard]] ModelFile parse_model_file(std::string_view text);

/// A model as it was when it was read. Never changes.
struct ServedModel {
  ServedModel(ModelFile of, std::string had, TimeRegressor read, std::time_t when)
      : file(std::move(of)), text(std::move(had)), regressor(std::move(read)), requests(regressor, {}), loaded(when) {}

  ModelFile file;
  std::string text;  ///< of the file; empty for the standard model
  TimeRegressor regressor;
  ModelRequests requests;
  std::time_t loaded;
};

/// Models by name, each read again once its file was replaced. Any thread may ask meanwhile, and keeps what it got.
/// What a model was before another one took its place is kept beside its file (FormerModels).
class ServedModels {
 public:
  using Say = std::function<void(const std::string& line)>;
  using Reloaded = std::function<void(const std::string& name, bool good)>;
  static constexpr auto pause = std::chrono::milliseconds(250);  ///< between looks at the files' dates

  /// Reads all files. @param say  gets a line for each file that was replaced
  /// @throws as TimeRegressor::load(); InputError for no model, and for two of one name
  ServedModels(const std::vector<ModelFile>& files, DeviceCatalogue devices, Say say, Reloaded reloaded = {});

  /// By name; an empty name is the first model. Null if there is none.
  [[nodiscard]] std::shared_ptr<const ServedModel> find(std::string_view name) const;

  /// In the order in which they were given.
  [[nodiscard]] std::vector<std::shared_ptr<const ServedModel>> all() const;

  [[nodiscard]] const DeviceCatalogue& devices() const { return devices_; }

  /// Reads the files that were replaced since they were read. Of one that is no model the last good one stays, and
  /// the reason is said once.
  void reload_replaced();

  /// TimeRegressor::observe_in_file() of a model, which is then served as its file has it: what was observed is on the
  /// disk when this returns.
  /// @param name  of a model that has a file
  /// @returns the rejected runs. @throws as observe_in_file(), and nothing has changed
  std::vector<RejectedRun> observe(std::string_view name, std::span<const Run> runs);

  /// Puts an earlier version in the place of a model's file, and serves it: the one that is served, if the file has
  /// another text (a damaged one, say); else the newest that is a model. The file that was there stays as
  /// `NAME.rolled_back`; the version and those after it are former ones no more.
  /// @param name  of a model that has a file
  /// @param time  of FormerModels::times(): that version; empty: as above
  /// @returns its time; empty if it is the one that was served
  /// @throws InputError if there is no such version; Error if the disk refuses, and the file is as it was
  std::string roll_back(std::string_view name, std::string_view time);

 private:
  /// What tells a file from the one that replaces it: device, inode, size, time of change. Empty: there is none.
  using Stamp = std::optional<std::tuple<std::uint64_t, std::uint64_t, std::int64_t, std::int64_t, std::int64_t>>;

  struct Slot {
    ModelFile file;
    std::shared_ptr<const ServedModel> model;
    Stamp seen;            // of the file that was tried last
    std::mutex replacing;  // held while a file is read or written
  };

  [[nodiscard]] static Stamp stamp_of(const std::string& path);
  [[nodiscard]] std::shared_ptr<const ServedModel> read(const ModelFile& file) const;
  [[nodiscard]] Slot& slot_with_file(std::string_view name) const;
  [[nodiscard]] std::string good_version(const Slot& slot, std::string_view time) const;
  // The caller holds slot.replacing.
  void reload(Slot& slot, bool keeps_former);
  void keep_former(const ServedModel& former) const;

  DeviceCatalogue devices_;
  Say say_;
  Reloaded reloaded_;
  std::vector<std::unique_ptr<Slot>> slots_;
  mutable std::mutex models_;  // guards Slot::model of all
};

}  // namespace perfpred
