// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <Eigen/QR>

#include <fmt/format.h>

#include <cmath>

#include "model/kinds/features.h"
#include "model/lognormal.h"
#include "model/regressor_kind.h"
#include "text/model_json.h"

namespace perfpred {
namespace {

/// Least squares of log seconds on the standardised features. Constant columns do not enter.
class LinearModel final : public RegressorModel {
 public:
  Standardizer standardize;
  Features slope = Features::Zero();
  double intercept = 0;
  double half_width = 0;

  using RegressorModel::predict;
  [[nodiscard]] Quantiles predict(const Workload& workload, const OpGraph*) const override {
    return quantiles_about(intercept + slope.dot(standardize(features_of(workload))), half_width);
  }

  [[nodiscard]] nlohmann::json to_json() const override {
    return {{"mean", vector_json(standardize.mean)},
            {"inverse_scale", vector_json(standardize.inverse_scale)},
            {"slope", vector_json(slope)},
            {"intercept", intercept},
            {"half_width", half_width}};
  }
};

std::unique_ptr<RegressorModel> fit_linear(const TrainingTable& table) {
  const Eigen::MatrixXd features = feature_matrix(table.rows);
  const Eigen::VectorXd times = log_times(table.rows);
  auto model = std::make_unique<LinearModel>();
  model->standardize = Standardizer(features);
  const Eigen::Index n = features.rows();
  const Eigen::MatrixXd design = model->standardize.design(features);
  // Minimum norm where columns are constant or depend on one another.
  const Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> qr(design);
  if (n <= qr.rank() || n < 3) {
    throw InputError(fmt::format(
        "{} rows are too few for a linear model: it has {} coefficients and needs one row more", n, qr.rank()));
  }
  const Eigen::VectorXd coefficients = qr.solve(times);
  model->intercept = coefficients[0];
  model->slope = coefficients.tail(features.cols());
  // Leave-one-out residuals in closed form: r / (1 - leverage). The leverages are the diagonal of Q Q', where the
  // columns of Q are an orthonormal basis of the design's: n x rank, where the n x n matrix itself would not fit in
  // memory.
  const Eigen::VectorXd residuals = times - design * coefficients;
  const Eigen::MatrixXd basis = qr.householderQ() * Eigen::MatrixXd::Identity(n, qr.rank());
  const Eigen::VectorXd leverage = basis.rowwise().squaredNorm();
  std::vector<double> held_out;
  for (Eigen::Index i = 0; i < n; ++i) {
    if (leverage[i] < 1 - 1e-9) held_out.push_back(residuals[i] / (1 - leverage[i]));
  }
  model->half_width = conformal_half_width(std::move(held_out));
  return model;
}

std::unique_ptr<RegressorModel> load_linear(const nlohmann::json& json, DeviceKind) {
  auto model = std::make_unique<LinearModel>();
  model->standardize = Standardizer(json);
  model->slope = json_logs(json, "slope", Features::RowsAtCompileTime);
  model->intercept = json_log(json, "intercept");
  model->half_width = json_non_negative(json, "half_width");
  return model;
}

}  // namespace

const RegressorKind linear_kind = {.name = "linear", .fit = fit_linear, .load = load_linear};

}  // namespace perfpred
