// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <Eigen/QR>

#include <fmt/format.h>

#include "model/kinds/feature_regressor.h"
#include "text/model_json.h"

namespace perfpred {
namespace {

/// Least squares of log seconds on the standardised features. Constant columns do not enter.
class LinearFunction final : public FeatureRegressor {
 public:
  Standardizer standardize;
  Features slope;
  double intercept = 0;

  [[nodiscard]] double log_time(const Features& features) const override {
    return intercept + slope.dot(standardize(features));
  }

  [[nodiscard]] nlohmann::json to_json() const override {
    return {{"mean", vector_json(standardize.mean)},
            {"inverse_scale", vector_json(standardize.inverse_scale)},
            {"slope", vector_json(slope)},
            {"intercept", intercept}};
  }
};

std::unique_ptr<FeatureRegressor> fit_linear(const FeatureTask& task) {
  auto model = std::make_unique<LinearFunction>();
  model->standardize = Standardizer(task.features);
  const Eigen::Index n = task.features.rows();
  const Eigen::MatrixXd design = model->standardize.design(task.features);
  // Minimum norm where columns are constant or depend on one another.
  const Eigen::CompleteOrthogonalDecomposition<Eigen::MatrixXd> qr(design);
  if (n <= qr.rank() || n < 3) {
    throw InputError(fmt::format(
        "{} rows are too few for a linear model: it has {} coefficients and needs one row more", n, qr.rank()));
  }
  const Eigen::VectorXd coefficients = qr.solve(task.log_times);
  model->intercept = coefficients[0];
  model->slope = coefficients.tail(task.features.cols());
  // Leave-one-out residuals in closed form: r / (1 - leverage). The leverages are the diagonal of Q Q', where the
  // columns of Q are an orthonormal basis of the design's: n x rank, where the n x n matrix itself would not fit in
  // memory.
  const Eigen::VectorXd residuals = task.log_times - design * coefficients;
  const Eigen::MatrixXd basis = qr.householderQ() * Eigen::MatrixXd::Identity(n, qr.rank());
  const Eigen::VectorXd leverage = basis.rowwise().squaredNorm();
  std::vector<double> held_out;
  for (Eigen::Index i = 0; i < n; ++i) {
    if (leverage[i] < 1 - 1e-9) held_out.push_back(residuals[i] / (1 - leverage[i]));
  }
  model->half_width = conformal_half_width(std::move(held_out));
  return model;
}

std::unique_ptr<FeatureRegressor> load_linear(const nlohmann::json& json, Eigen::Index features) {
  auto model = std::make_unique<LinearFunction>();
  model->standardize = Standardizer(json, features);
  model->slope = json_logs(json, "slope", features);
  model->intercept = json_log(json, "intercept");
  return model;
}

}  // namespace

const FeatureKind linear_function = {.name = "linear", .fit = fit_linear, .load = load_linear};

}  // namespace perfpred
