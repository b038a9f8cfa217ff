// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>

#include <Eigen/Core>

#include <nlohmann/json.hpp>

#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// Whether rows of the one say how long the other takes: same device, threads, precision, optimizer, layout and graph.
[[nodiscard]] bool same_group(const Workload& a, const Workload& b);

/// Rows of one group, all with a time, no key twice.
struct TrainingTable {
  std::vector<AggregateRow> rows;
  std::vector<AggregateRow> val;  ///< empty for kinds that do not ask for it
  std::uint64_t seed = 0;
};

/// JointPrediction as the computation needs it.
struct JointNormal {
  Eigen::VectorXd mean;
  Eigen::MatrixXd covariance;
};

/// A fitted model of one group of rows. Const members must be thread-safe.
class RegressorModel {
 public:
  virtual ~RegressorModel() = default;

  [[nodiscard]] virtual Quantiles predict(const Workload& workload) const = 0;  ///< of seconds per epoch
  virtual void predict(std::span<const Workload> workloads, std::span<Quantiles> out) const;
  [[nodiscard]] virtual JointNormal joint(std::span<const Workload> workloads) const;
  [[nodiscard]] virtual std::vector<TimeTerm> breakdown(const Workload& workload) const;

  /// Learns a measured row. @returns why it is set aside, or nothing if it was learnt
  virtual std::optional<std::string> observe(const AggregateRow& row);

  [[nodiscard]] virtual std::vector<SetAside> dropped() const;
  [[nodiscard]] virtual nlohmann::json to_json() const = 0;
};

/// A kind of regressor: how it is fitted and how it is read back. Adding one takes a source file that defines it and
/// its line in the table in time_regressor.cpp.
struct RegressorKind {
  std::string_view name;
  bool uses_validation;  ///< otherwise validation rows are fitted on too
  std::unique_ptr<RegressorModel> (*fit)(const TrainingTable& table);
  std::unique_ptr<RegressorModel> (*load)(const nlohmann::json& model);
};

extern const RegressorKind ann_kind, boosting_kind, forest_kind, hybrid_kind, linear_kind;

// A field of a model file. @throws ModelError naming it if it is missing or of another type
[[nodiscard]] const nlohmann::json& json_field(const nlohmann::json& object, const char* name);
[[nodiscard]] double json_number(const nlohmann::json& object, const char* name);
[[nodiscard]] std::string json_text(const nlohmann::json& object, const char* name);
[[nodiscard]] Eigen::VectorXd json_vector(const nlohmann::json& object, const char* name);
[[nodiscard]] Eigen::MatrixXd json_matrix(const nlohmann::json& object, const char* name);
[[nodiscard]] nlohmann::json to_json(const Eigen::VectorXd& vector);
[[nodiscard]] nlohmann::json to_json(const Eigen::MatrixXd& matrix);  ///< list of rows

/// Half width of an interval of log time from held-out residuals (split conformal: the ceil(level (n + 1))-th smallest
/// absolute residual, the largest if there are too few).
[[nodiscard]] PERFPRED_API double conformal_half_width(std::vector<double> residuals, double level = 0.9);

}  // namespace perfpred
