// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/workload.h>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

namespace perfpred {

/// The workloads of a model file, each once. Its parts name them by their places.
class FileRows {
 public:
  /// In the order of their keys; those of one key are one.
  explicit FileRows(const std::vector<Workload>& workloads);

  /// @throws ModelError naming the member that is missing or wrong
  [[nodiscard]] static FileRows read(const nlohmann::json& table);
  [[nodiscard]] nlohmann::json to_json() const;

  [[nodiscard]] const Workload& workload(std::size_t place) const { return workloads_[place]; }
  [[nodiscard]] const std::string& key(std::size_t place) const { return keys_[place]; }

  /// @throws std::out_of_range for the key of another workload
  [[nodiscard]] std::size_t place(const std::string& key) const { return places_.at(key); }

  /// The place, or the list of places, that a member of a model file holds. @throws ModelError for anything else
  [[nodiscard]] std::size_t place_in(const nlohmann::json& object, const char* name) const;
  [[nodiscard]] std::vector<std::size_t> places_in(const nlohmann::json& object, const char* name) const;

 private:
  FileRows() = default;

  std::vector<Workload> workloads_;
  std::vector<std::string> keys_;
  std::map<std::string, std::size_t> places_;  // by key; empty of a file that is read
};

}  // namespace perfpred
