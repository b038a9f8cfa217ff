// SPDX-License-Identifier: Apache-2.0
// The hybrid's part of a model file.
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>

#include "model/hybrid/hybrid.h"
#include "model/hybrid/hybrid_model.h"
#include "text/model_json.h"

namespace perfpred {
namespace {

template <std::size_t count>
std::array<double, count> array_of(const nlohmann::json& object, const char* name) {
  const Eigen::VectorXd vector = json_vector(object, name, static_cast<Eigen::Index>(count));
  std::array<double, count> values{};
  std::copy(vector.begin(), vector.end(), values.begin());
  return values;
}

std::vector<HybridRow> read_rows(const nlohmann::json& json, const FileRows& file) {
  const std::vector<std::size_t> places = file.places_in(json, "workload");
  if (places.empty()) refuse_field("rows", "those of at least one workload");
  const auto count = static_cast<Eigen::Index>(places.size());
  const Eigen::VectorXd log_time = json_logs(json, "log_time", count), noise = json_vector(json, "noise", count),
                        log_physics = json_logs(json, "log_physics", count);
  if (noise.minCoeff() <= 0) refuse_field("noise", "a list of positive numbers");
  const Eigen::MatrixXd inputs = json_matrix(json, "place", count, PlaceInput::count);
  std::vector<HybridRow> rows(places.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const auto k = static_cast<Eigen::Index>(i);
    HybridRow& row = rows[i];
    row.key = file.key(places[i]);
    for (std::size_t input = 0; input < row.place.size(); ++input)
      row.place[input] = inputs(k, static_cast<Eigen::Index>(input));
    row.log_time = log_time[k];
    row.noise = noise[k];
    row.log_physics = log_physics[k];
  }
  return rows;
}

FittedPhysics read_physics(const nlohmann::json& json) {
  FittedPhysics physics;
  physics.costs = json_vector(json, "costs", cost_count);
  if (physics.costs.minCoeff() < 0) refuse_field("costs", "a list of numbers >= 0");
  const nlohmann::json& unseen = json_field(json, "unseen");
  if (!unseen.is_array() || unseen.size() != cost_count ||
      !std::all_of(unseen.begin(), unseen.end(), [](const nlohmann::json& one) { return one.is_boolean(); })) {
    refuse_field("unseen", "a list of truth values, one per cost");
  }
  for (std::size_t cost = 0; cost < unseen.size(); ++cost) physics.unseen[cost] = unseen[cost].get<bool>();
  return physics;
}

std::unique_ptr<RegressorModel> load_hybrid(const nlohmann::json& json, const FileRows& file, DeviceKind device) {
  auto model = std::make_unique<HybridModel>();
  model->device = device;
  model->rows = read_rows(json_object(json, "rows"), file);
  model->physics = read_physics(json_object(json, "physics"));
  model->kernel.theta = json_logs(json, "kernel", ResidualKernel::parameters);
  const nlohmann::json& calibration = json_object(json, "calibration");
  model->calibration = {json_log(calibration, "process_log"), json_number(calibration, "novelty"),
                        array_of<left_out_kinds>(calibration, "shares"),
                        array_of<left_out_kinds>(calibration, "quantiles"), json_number(calibration, "most_share")};
  model->usual_noise = json_number(json, "usual_noise");
  if (!(model->usual_noise > 0)) refuse_field("usual_noise", "positive");
  model->max_rows = static_cast<std::size_t>(json_positive_integer(json, "max_rows"));
  for (const nlohmann::json& item : json_objects(json, "dropped")) {
    model->rejected.push_back({json_text(item, "key"), json_text(item, "reason")});
  }
  try {
    model->prepare();
  } catch (const ModelError&) {
    refuse_field("kernel", "one with which the covariance of the rows is positive definite");
  }
  return model;
}

std::unique_ptr<RegressorModel> fit_by_default(const TrainingTable& table) { return fit_hybrid(table, {}); }

}  // namespace

nlohmann::json HybridModel::to_json(const FileRows& file) const {
  nlohmann::json json_rows;
  for (const char* name : {"workload", "place", "log_time", "noise", "log_physics"})
    json_rows[name] = nlohmann::json::array();
  for (const HybridRow& row : rows) {
    json_rows["workload"].push_back(file.place(row.key));
    json_rows["place"].push_back(row.place);
    json_rows["log_time"].push_back(row.log_time);
    json_rows["noise"].push_back(row.noise);
    json_rows["log_physics"].push_back(row.log_physics);
  }
  nlohmann::json json_dropped = nlohmann::json::array();
  for (const RejectedRun& row : rejected) json_dropped.push_back({{"key", row.key}, {"reason", row.reason}});
  return {{"rows", json_rows},
          {"physics", {{"costs", vector_json(physics.costs)}, {"unseen", physics.unseen}}},
          {"kernel", vector_json(kernel.theta)},
          {"calibration",
           {{"process_log", calibration.process_log},
            {"novelty", calibration.novelty},
            {"shares", calibration.shares},
            {"quantiles", calibration.quantiles},
            {"most_share", calibration.most_share}}},
          {"usual_noise", usual_noise},
          {"max_rows", max_rows},
          {"dropped", json_dropped}};
}

const RegressorKind hybrid_kind = {.name = "hybrid",
                                   .uses_validation = false,
                                   .learns = true,
                                   .family_rows = min_hybrid_rows,
                                   .fit = fit_by_default,
                                   .load = load_hybrid};

}  // namespace perfpred
