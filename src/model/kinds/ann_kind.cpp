// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <numeric>

#include "model/kinds/ann.h"
#include "model/kinds/feature_regressor.h"
#include "statistics/confidence.h"
#include "statistics/vectorized.h"
#include "text/model_json.h"

namespace perfpred {
namespace {

class AnnFunction final : public FeatureRegressor {
 public:
  AnnNetwork network;

  [[nodiscard]] double log_time(const Features& features) const override { return network.log_time(features); }

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
            {"output_bias", network.output_bias}};
  }
};

/// Early stopping needs its own rows: where there are none, 15 % of the rows become them.
FeatureTask with_validation(const FeatureTask& task) {
  if (task.val_log_times.size() > 0) return task;
  const std::vector<Eigen::Index> order = shuffled_rows(task.log_times.size(), task.seed);
  const std::size_t count = std::max<std::size_t>(2, order.size() * 15 / 100);
  const std::span<const Eigen::Index> all = order;
  FeatureTask part = task.rows(all.first(all.size() - count));
  FeatureTask held_out = task.rows(all.last(count));
  part.val_features = std::move(held_out.features);
  part.val_log_times = std::move(held_out.log_times);
  return part;
}

std::unique_ptr<FeatureRegressor> fit_ann(const FeatureTask& given) {
  const AnnFitter fitter = ann_fitter();
  if (fitter == nullptr)
    throw Error("this build cannot fit kind ann: that takes LibTorch, the component torch (enable_ann())");
  const Eigen::Index n = given.log_times.size() + given.val_log_times.size();
  if (n < 10) throw InputError(fmt::format("{} rows are too few for kind ann: it needs 10", n));
  const FeatureTask task = with_validation(given);
  auto model = std::make_unique<AnnFunction>();
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

std::unique_ptr<FeatureRegressor> load_ann(const nlohmann::json& json, Eigen::Index features) {
  auto model = std::make_unique<AnnFunction>();
  AnnNetwork& network = model->network;
  const auto read = [&](const char* name, auto& matrix) {
    matrix = json_matrix(json, name, matrix.rows(), matrix.cols()).template cast<float>();
  };
  network.standardize = Standardizer(json, features);
  network.target_mean = json_number(json, "target_mean");
  network.target_scale = json_number(json, "target_scale");
  network.input_weights.resize(AnnNetwork::units, features);
  read("input_weights", network.input_weights);
  read("input_bias", network.input_bias);
  read("hidden_weights", network.hidden_weights);
  read("hidden_bias", network.hidden_bias);
  read("output_weights", network.output_weights);
  network.output_bias = static_cast<float>(json_number(json, "output_bias"));
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
    const float *a = hidden_weights + std::ptrdiff_t{j} * units, *b = a + units, *c = b + units, *d = c + units;
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
  const Eigen::Matrix<float, Eigen::Dynamic, 1, 0, max_features, 1> input = standardize(features).cast<float>();
  const float out = perceptron(input.data(), static_cast<int>(input.size()), input_weights.data(), input_bias.data(),
                               hidden_weights.data(), hidden_bias.data(), output_weights.data(), output_bias);
  return target_mean + target_scale * static_cast<double>(out);
}

const FeatureKind ann_function = {.name = "ann", .fit = fit_ann, .load = load_ann};

}  // namespace perfpred
