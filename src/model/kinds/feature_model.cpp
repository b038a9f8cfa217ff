// SPDX-License-Identifier: Apache-2.0
// The kinds of regressor that are functions of a workload's features.
#include <utility>

#include "model/kinds/ann.h"
#include "model/kinds/feature_regressor.h"
#include "model/kinds/trees.h"
#include "model/regressor_kind.h"
#include "text/model_json.h"

namespace perfpred {
namespace {

class FeatureModel final : public RegressorModel {
 public:
  explicit FeatureModel(std::unique_ptr<FeatureRegressor> function) : function_(std::move(function)) {}

  using RegressorModel::estimate;
  [[nodiscard]] Estimate estimate(const Workload& workload) const override {
    return {function_->log_time(features_of(workload)), {.model = function_->half_width}};
  }

  [[nodiscard]] nlohmann::json to_json(const FileRows&) const override { return function_json(*function_); }

 private:
  std::unique_ptr<FeatureRegressor> function_;
};

template <const FeatureKind& kind>
std::unique_ptr<RegressorModel> fit(const TrainingTable& table) {
  return std::make_unique<FeatureModel>(
      kind.fit({feature_matrix(table.rows), feature_matrix(table.val), log_times(table.rows), log_times(table.val),
                table.seed, table.control}));
}

template <const FeatureKind& kind>
std::unique_ptr<RegressorModel> load(const nlohmann::json& json, const FileRows&, DeviceKind) {
  return std::make_unique<FeatureModel>(load_function(kind, json, static_cast<Eigen::Index>(feature_names.size())));
}

}  // namespace

const RegressorKind ann_kind = {
    .name = "ann", .uses_validation = true, .fit = fit<ann_function>, .load = load<ann_function>};
const RegressorKind boosting_kind = {
    .name = "boosting", .uses_validation = true, .fit = fit<boosting_function>, .load = load<boosting_function>};
const RegressorKind forest_kind = {.name = "forest", .fit = fit<forest_function>, .load = load<forest_function>};
const RegressorKind linear_kind = {.name = "linear", .fit = fit<linear_function>, .load = load<linear_function>};

nlohmann::json function_json(const FeatureRegressor& function) {
  nlohmann::json json = function.to_json();
  json["half_width"] = function.half_width;
  return json;
}

std::unique_ptr<FeatureRegressor> load_function(const FeatureKind& kind, const nlohmann::json& json,
                                                Eigen::Index features) {
  std::unique_ptr<FeatureRegressor> function = kind.load(json, features);
  function->half_width = json_non_negative(json, "half_width");
  return function;
}

std::vector<const FeatureKind*> fittable_kinds() {
  std::vector<const FeatureKind*> kinds;
  if (ann_fitter() != nullptr) kinds.push_back(&ann_function);
  if (trees_fitter() != nullptr) kinds.insert(kinds.end(), {&boosting_function, &forest_function});
  kinds.push_back(&linear_function);
  return kinds;
}

}  // namespace perfpred
