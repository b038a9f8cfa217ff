// SPDX-License-Identifier: Apache-2.0
#include "model/format_5.h"

#include <map>
#include <string>
#include <vector>

#include "model/file_rows.h"
#include "text/model_json.h"
#include "workload/workload_json.h"

namespace perfpred {
namespace {

/// The lists of rows with keys, wherever a file has them.
std::vector<nlohmann::json*> keyed_rows(nlohmann::json& json) {
  (void)json_objects(json, "fitted");
  (void)json_objects(json_object(json, "ops"), "rows");
  (void)json_objects(json, "groups");
  std::vector<nlohmann::json*> lists = {&json["fitted"], &json["ops"]["rows"]};
  for (nlohmann::json& group : json["groups"]) {
    if (json_field(group, "model").is_null() || !group["model"].contains("rows")) continue;
    (void)json_objects(group["model"], "rows");
    lists.push_back(&group["model"]["rows"]);
  }
  return lists;
}

/// A list of objects as an object of lists.
nlohmann::json as_columns(const nlohmann::json& rows, std::initializer_list<const char*> names) {
  nlohmann::json columns;
  for (const char* name : names) {
    columns[name] = nlohmann::json::array();
    for (const nlohmann::json& row : rows) columns[name].push_back(json_field(row, name));
  }
  return columns;
}

}  // namespace

nlohmann::json from_format_5(nlohmann::json json) {
  std::map<std::string, std::string> canonical;  // names of devices and networks may have changed
  std::vector<Workload> workloads;
  const std::vector<nlohmann::json*> lists = keyed_rows(json);
  for (const nlohmann::json* rows : lists) {
    for (const nlohmann::json& row : *rows) {
      const auto [known, is_new] = canonical.try_emplace(json_text(row, "key"));
      if (!is_new) continue;
      workloads.push_back(json_workload(row, "key"));
      known->second = workloads.back().key();
    }
  }
  const FileRows file(workloads);
  for (nlohmann::json* rows : lists) {
    for (nlohmann::json& row : *rows) row["workload"] = file.place(canonical[json_text(row, "key")]);
  }
  json["fitted"] = as_columns(json["fitted"], {"workload", "time_sec", "n", "observed"});
  for (std::size_t i = 2; i < lists.size(); ++i)
    *lists[i] = as_columns(*lists[i], {"workload", "place", "log_time", "noise", "log_physics"});
  json["workloads"] = file.to_json();
  json["format"] = 6;
  return json;
}

}  // namespace perfpred
