// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <nlohmann/json.hpp>

#include <memory>
#include <string_view>
#include <vector>

#include "model/kinds/features.h"

namespace perfpred {

/// A function of a row of features that was fitted to log times.
class FeatureRegressor {
 public:
  virtual ~FeatureRegressor() = default;
  [[nodiscard]] virtual double log_time(const Features& features) const = 0;  ///< of seconds
  [[nodiscard]] virtual nlohmann::json to_json() const = 0;

  double half_width =
      0;  ///< of the 90 % interval of log time, from rows that the fit left out; >= 0, 0 where none is wanted
};

/// A kind of such functions: how it is fitted and how it is read back.
struct FeatureKind {
  std::string_view name;
  /// @throws InputError if there are too few rows, Error if this build lacks the library that fits
  std::unique_ptr<FeatureRegressor> (*fit)(const FeatureTask& task) = nullptr;
  std::unique_ptr<FeatureRegressor> (*load)(const nlohmann::json& model, Eigen::Index features) = nullptr;
};

extern const FeatureKind ann_function, boosting_function, forest_function, linear_function;

/// A function as a model file holds it, with its half width.
[[nodiscard]] nlohmann::json function_json(const FeatureRegressor& function);
/// @copydoc function_json @throws ModelError naming the field that is wrong
[[nodiscard]] std::unique_ptr<FeatureRegressor> load_function(const FeatureKind& kind, const nlohmann::json& json,
                                                              Eigen::Index features);

/// The kinds that this build can fit, in the order of their names.
[[nodiscard]] std::vector<const FeatureKind*> fittable_kinds();

}  // namespace perfpred
