// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "model/kinds/ann.h"
#include "model/lognormal.h"
#include "model/regressor_kind.h"
#include "statistics/confidence.h"
#include "statistics/vectorized.h"
#include "text/model_json.h"

namespace perfpred {
namespace {

class AnnModel final : public RegressorModel {
 public:
  AnnNetwork network;
  double half_width = 0;

  using RegressorModel::predict;
  [[nodiscard]] Quantiles predict(const Workload& workload, const OpGraph*) const override {
    return quantiles_about(network.log_time(features_of(workload)), half_width);
  }

  [[nodiscard]] nlohmann::json to_json() const override {
    const auto widened = [](const auto& matrix) { return matrix_json(matrix.template cast<double>()); };
    return {{"mean", vector_json(network.standardize.mean)},
            {"inverse_scale", vector_json(network.standardize.inverse_scale)},
            {"target_mean", network.target_mean},
            {"target_scale", network.target_scale},
            {"input_weights", widened(network.input_weights)},
            {"input_bias", widened(network.input_bias)},
            {"hidden_weights", widened(network.hidden_weights)},
            {"hidden_bias", widened(network.hidden_bias)},
            {"output_weights", widened(network.output_weights)},
            {"output_bias", network.output_bias},
            {"half_width", half_width}};
  }
};

std::unique_ptr<RegressorModel> fit_ann(const TrainingTable& table) {
  const AnnFitter fitter = ann_fitter();
  if (fitter == nullptr)
    throw Error("this build cannot fit kind ann: that takes LibTorch, the component torch (enable_ann())");
  std::vector<AggregateRow> rows = table.rows;
  std::vector<AggregateRow> val = table.val;
  if (rows.size() + val.size() < 10) {
    throw InputError(fmt::format("{} rows are too few for kind ann: it needs 10", rows.size() + val.size()));
  }
  if (val.empty()) {  // early stopping needs its own rows
    std::mt19937_64 random(table.seed);
    std::shuffle(rows.begin(), rows.end(), random);
    const std::size_t count = std::max<std::size_t>(2, rows.size() * 15 / 100);
    val.assign(rows.end() - static_cast<std::ptrdiff_t>(count), rows.end());
    rows.resize(rows.size() - count);
  }
  FeatureTask task{feature_matrix(rows), feature_matrix(val), log_times(rows),
                   log_times(val),       table.seed,          table.control};
  auto model = std::make_unique<AnnModel>();
  model->network = fitter(task);
  std::vector<double> residuals;
  for (Eigen::Index i = 0; i < task.val_features.rows(); ++i) {
    residuals.push_back(task.val_log_times[i] - model->network.log_time(task.val_features.row(i).transpose()));
  }
  if (!std::all_of(residuals.begin(), residuals.end(), [](double r) { return std::isfinite(r); })) {
    throw Error("the fit of kind ann diverged");
  }
  const double widening = student_factor(residuals.size());
  model->half_width = conformal_half_width(std::move(residuals)) * widening;
  return model;
}

std::unique_ptr<RegressorModel> load_ann(const nlohmann::json& json, DeviceKind) {
  auto model = std::make_unique<AnnModel>();
  AnnNetwork& network = model->network;
  const auto read = [&](const char* name, auto& matrix) {
    matrix = json_matrix(json, name, matrix.rows(), matrix.cols()).template cast<float>();
  };
  network.standardize = Standardizer(json);
  network.target_mean = json_number(json, "target_mean");
  network.target_scale = json_number(json, "target_scale");
  read("input_weights", network.input_weights);
  read("input_bias", network.input_bias);
  read("hidden_weights", network.hidden_weights);
  read("hidden_bias", network.hidden_bias);
  read("output_weights", network.output_weights);
  network.output_bias = static_cast<float>(json_number(json, "output_bias"));
  model->half_width = json_non_negative(json, "half_width");
  return model;
}

// Plain loops, which the compiler vectorises for the widest registers of the machine. Columns are added up, four per
// pass, and the output has 16 sums because a single one could not be vectorised without reordering.
PERFPRED_VECTORIZED float perceptron(const float* input, int inputs, const float* input_weights,
                                     const float* input_bias, const float* hidden_weights, const float* hidden_bias,
                                     const float* output_weights, float output_bias) {
  constexpr int units = AnnNetwork::units;
  float first[units];
  float second[units];
  for (int i = 0; i < units; ++i) first[i] = input_bias[i];
  for (int j = 0; j < inputs; ++j) {
    for (int i = 0; i < units; ++i) first[i] += input_weights[j * units + i] * input[j];
  }
  for (int i = 0; i < units; ++i) {
    first[i] = std::max(first[i], 0.0F);
    second[i] = hidden_bias[i];
  }
  for (int j = 0; j < units; j += 4) {
    const float *a = hidden_weights + j * units, *b = a + units, *c = b + units, *d = c + units;
    for (int i = 0; i < units; ++i) {
      second[i] += a[i] * first[j] + b[i] * first[j + 1] + c[i] * first[j + 2] + d[i] * first[j + 3];
    }
  }
  constexpr int sums = 16;
  float sum[sums] = {output_bias};
  for (int i = 0; i < units; i += sums) {
    for (int k = 0; k < sums; ++k) sum[k] += std::max(second[i + k], 0.0F) * output_weights[i + k];
  }
  return std::accumulate(sum, sum + sums, 0.0F);
}

}  // namespace

double AnnNetwork::log_time(const Features& features) const {
  const Eigen::Matrix<float, Features::RowsAtCompileTime, 1> input = standardize(features).cast<float>();
  const float out = perceptron(input.data(), static_cast<int>(input.size()), input_weights.data(), input_bias.data(),
                               hidden_weights.data(), hidden_bias.data(), output_weights.data(), output_bias);
  return target_mean + target_scale * static_cast<double>(out);
}

const RegressorKind ann_kind = {.name = "ann", .uses_validation = true, .fit = fit_ann, .load = load_ann};

}  // namespace perfpred
