// SPDX-License-Identifier: Apache-2.0
#include "model/file_rows.h"

#include "text/model_json.h"
#include "workload/workload_json.h"

namespace perfpred {

FileRows::FileRows(const std::vector<Workload>& workloads) {
  std::map<std::string, const Workload*> by_key;
  for (const Workload& workload : workloads) by_key.emplace(workload.key(), &workload);
  for (const auto& [key, workload] : by_key) {
    places_.emplace(key, keys_.size());
    keys_.push_back(key);
    workloads_.push_back(*workload);
  }
}

FileRows FileRows::read(const nlohmann::json& table) {
  FileRows rows;
  rows.workloads_ = read_workloads(table);
  rows.keys_.reserve(rows.workloads_.size());
  for (const Workload& workload : rows.workloads_) rows.keys_.push_back(workload.key());  // canonical in this build
  return rows;
}

nlohmann::json FileRows::to_json() const { return workloads_json(workloads_); }

std::size_t FileRows::place_in(const nlohmann::json& object, const char* name) const {
  return places_in({{name, nlohmann::json::array({json_field(object, name)})}}, name).front();
}

std::vector<std::size_t> FileRows::places_in(const nlohmann::json& object, const char* name) const {
  std::vector<std::size_t> places;
  for (const std::int32_t place : json_integers(object, name)) {
    if (place < 0 || static_cast<std::size_t>(place) >= keys_.size()) refuse_field(name, "a place of a workload");
    places.push_back(static_cast<std::size_t>(place));
  }
  return places;
}

}  // namespace perfpred
