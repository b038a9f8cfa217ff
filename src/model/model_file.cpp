// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/version.h>

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <vector>

#include "model/format_5.h"
#include "model/model_state.h"
#include "optime/op_model_state.h"
#include "text/json.h"
#include "text/model_json.h"
#include "text/parse.h"
#include "workload/workload_json.h"
#include "workload/world.h"

namespace perfpred {
namespace {

constexpr int model_format = 7;

nlohmann::json range_json(const Range& range) {
  return range.low <= range.high ? nlohmann::json{range.low, range.high} : nlohmann::json(nullptr);
}

Range read_range(const nlohmann::json& ranges, const char* name) {
  Range range;
  if (json_field(ranges, name).is_null()) return range;
  const Eigen::VectorXd ends = json_vector(ranges, name, 2);
  range.add(ends[0]);
  range.add(ends[1]);
  return range;
}

std::string id_text(std::uint64_t id) { return fmt::format("{:016x}", id); }

std::uint64_t read_id(const nlohmann::json& json, const char* name) {
  const std::string text = json_text(json, name);
  std::uint64_t id = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), id, 16);
  if (error != std::errc() || end != text.data() + text.size()) refuse_field(name, "a hexadecimal number");
  return id;
}

void read_networks(const nlohmann::json& networks, Group& group) {
  for (const auto& item : networks.items()) {
    const std::string& name = item.key();
    const nlohmann::json& ranges = json_object(networks, name.c_str());
    NetworkRows& rows = group.networks[NetworkName(name)];
    rows.depth = read_range(ranges, "depth");
    rows.base_filters = read_range(ranges, "base_filters");
    rows.batch_size = read_range(ranges, "batch_size");
    rows.sample = read_range(ranges, "sample");
    const nlohmann::json& modelled = json_field(ranges, "modelled");
    if (!modelled.is_boolean()) refuse_field("modelled", "true or false");
    rows.modelled = modelled.get<bool>();
  }
}

/// All workloads that parts of a state name.
FileRows rows_of(const ModelState& state) {
  std::vector<Workload> workloads = state.ops->workloads();
  for (const auto& [key, row] : state.fitted) workloads.push_back(row.workload);
  return FileRows(workloads);
}

nlohmann::json fitted_json(const ModelState& state, const FileRows& rows) {
  nlohmann::json fitted;
  for (const char* name : {"workload", "time_sec", "n", "observed"}) fitted[name] = nlohmann::json::array();
  for (const auto& [key, row] : state.fitted) {
    fitted["workload"].push_back(rows.place(key));
    fitted["time_sec"].push_back(row.sec);
    fitted["n"].push_back(row.n);
    fitted["observed"].push_back(row.observed);
  }
  return fitted;
}

void read_fitted(const nlohmann::json& fitted, const FileRows& rows, ModelState& state) {
  const std::vector<std::size_t> places = rows.places_in(fitted, "workload");
  const Eigen::VectorXd sec = json_vector(fitted, "time_sec", static_cast<Eigen::Index>(places.size()));
  const std::vector<std::int32_t> n = json_integers(fitted, "n");
  const nlohmann::json& observed = json_field(fitted, "observed");
  if (n.size() != places.size()) refuse_field("n", "as long as the list of workloads");
  if (!observed.is_array() || observed.size() != places.size())
    refuse_field("observed", "a list as long as that of workloads");
  for (std::size_t i = 0; i < places.size(); ++i) {
    FittedRow row{rows.workload(places[i]), sec[static_cast<Eigen::Index>(i)], n[i], {}};
    if (!(row.sec > 0)) refuse_field("time_sec", "a list of positive numbers");
    if (row.n < 1) refuse_field("n", "a list of positive integers");
    if (!observed[i].is_array()) refuse_field("observed", "a list of lists of texts");
    if (!observed[i].empty()) row.observed = json_texts({{"observed", observed[i]}}, "observed");
    state.fitted.emplace(rows.key(places[i]), std::move(row));
  }
}

void refuse_layers(const nlohmann::json& json) {
  if (json.value("kind", nlohmann::json()) != "layers") return;
  throw ModelError(
      "is a model of single layers, for single layers (--layer) alone; networks need another kind of model");
}

}  // namespace

nlohmann::json to_json(const ModelState& state) {
  const FileRows file = rows_of(state);
  nlohmann::json groups = nlohmann::json::array();
  for (const Group& group : state.groups) {
    nlohmann::json networks = nlohmann::json::object();
    for (const auto& [name, rows] : group.networks) {
      networks[name] = {{"depth", range_json(rows.depth)},
                        {"base_filters", range_json(rows.base_filters)},
                        {"batch_size", range_json(rows.batch_size)},
                        {"sample", range_json(rows.sample)},
                        {"modelled", rows.modelled}};
    }
    groups.push_back({{"example", group.example.key()},
                      {"networks", networks},
                      {"model", group.model ? group.model->to_json(file) : nlohmann::json()}});
  }
  return {{"format", model_format},
          {"kind", state.kind->name},
          {"software", fmt::format("perfpred {}", PERFPRED_VERSION)},
          {"model_id", id_text(state.model_id)},
          {"training_set", id_text(state.training_set_id)},
          {"workloads", file.to_json()},
          {"fitted", fitted_json(state, file)},
          {"groups", groups},
          {"ops", state.ops->to_json(file)}};
}

ModelState read_state(const nlohmann::json& json, std::string_view text, const DeviceCatalogue& given) {
  if (!json.is_object()) throw ModelError("not a model file");
  if (json.value("kind", nlohmann::json()) == "ops") {
    auto model = std::make_shared<const OpTimeModel>(OpModelAccess::model(read_op_model(json)));
    return without_runs(std::move(model), text);
  }
  refuse_layers(json);
  const nlohmann::json& format = json_field(json, "format");
  if (format == 5) return read_state(from_format_5(json), text, given);
  if (format != model_format && format != 6) {  // which had the op model as a document
    throw ModelError(
        fmt::format("format {} is not known; this build reads format {}", shown(dumped(format)), model_format));
  }
  ModelState state;
  try {
    state.kind = &find_kind(json_text(json, "kind"));
  } catch (const InputError& error) {
    throw ModelError(error.what());
  }
  state.model_id = read_id(json, "model_id");
  state.training_set_id = read_id(json, "training_set");
  const FileRows rows = FileRows::read(json_object(json, "workloads"));
  read_fitted(json_object(json, "fitted"), rows, state);
  state.ops = std::make_shared<const OpRegression>(OpRegression::read(json_object(json, "ops"), rows));
  const DeviceCatalogue devices = state.ops->prior().with_own_devices(given);
  const nlohmann::json& groups = json_objects(json, "groups");
  const auto has_group = [](const auto& row) { return is_on_one_device(row.second.workload); };
  if (groups.empty() && std::ranges::any_of(state.fitted, has_group))
    refuse_field("groups", "a list of at least one group");
  for (const nlohmann::json& part : groups) {
    Group& group = state.groups.emplace_back();
    group.example = json_workload(part, "example");
    read_networks(json_object(part, "networks"), group);
    if (!json_field(part, "model").is_null())
      group.model = state.kind->load(json_object(part, "model"), rows, kind_on(group.example, devices));
    const auto lacks_model = [&](const auto& network) { return network.second.modelled && !group.model; };
    if (std::any_of(group.networks.begin(), group.networks.end(), lacks_model)) refuse_field("model", "there");
    if (group.model && group.models(group.example))
      (void)group.model->estimate(group.example).quantiles();  // if it can
  }
  return state;
}

}  // namespace perfpred
