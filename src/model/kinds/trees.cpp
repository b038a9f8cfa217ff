// SPDX-License-Identifier: Apache-2.0
#include "model/kinds/trees.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>

#include "model/kinds/feature_regressor.h"
#include "text/model_json.h"

namespace perfpred {
namespace {

constexpr Eigen::Index min_rows = 10;

class TreesFunction final : public FeatureRegressor {
 public:
  Trees trees;

  [[nodiscard]] double log_time(const Features& features) const override { return trees.log_time(features); }

  [[nodiscard]] nlohmann::json to_json() const override {
    std::vector<std::int32_t> features, next;
    std::vector<float> values;
    for (const TreeNode& node : trees.nodes) {
      features.push_back(node.feature);
      values.push_back(node.value);
      next.push_back(node.next);
    }
    return {{"base", trees.base}, {"roots", trees.roots}, {"features", features}, {"values", values}, {"next", next}};
  }
};

std::unique_ptr<FeatureRegressor> fit_trees(TreesKind kind, const FeatureTask& task) {
  const TreesFitter fitter = trees_fitter();
  if (fitter == nullptr) {
    throw Error(
        fmt::format("this build cannot fit kind {}: that takes libxgboost, the component xgboost "
                    "(enable_xgboost())",
                    kind == TreesKind::forest ? "forest" : "boosting"));
  }
  const Eigen::Index n = task.features.rows();
  if (n < min_rows) throw InputError(fmt::format("{} rows are too few for trees: they need {}", n, min_rows));
  constexpr std::size_t folds = 5;
  double fits = 0;
  const auto grow = [&](FeatureTask part) {
    task.control.check();
    task.control.report(fits++ / (folds + 1));
    part.val_features = task.val_features;
    part.val_log_times = task.val_log_times;
    part.control.progress = nullptr;
    return fitter(kind, part);
  };
  auto model = std::make_unique<TreesFunction>();
  model->trees = grow(task);
  if (!task.wants_interval) return model;
  // The interval comes from the errors on rows that five more fits leave out.
  const std::vector<Eigen::Index> order = shuffled_rows(n, task.seed);
  std::vector<double> residuals;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    const RowFold rows(order, fold, folds);
    const Trees part = grow(task.rows(rows.in));
    for (const Eigen::Index row : rows.out) {
      residuals.push_back(task.log_times[row] - part.log_time(task.features.row(row).transpose()));
    }
  }
  model->half_width = conformal_half_width(std::move(residuals));
  return model;
}

std::unique_ptr<FeatureRegressor> fit_forest(const FeatureTask& task) { return fit_trees(TreesKind::forest, task); }
std::unique_ptr<FeatureRegressor> fit_boosting(const FeatureTask& task) { return fit_trees(TreesKind::boosting, task); }

std::unique_ptr<FeatureRegressor> load_trees(const nlohmann::json& json, Eigen::Index columns) {
  auto model = std::make_unique<TreesFunction>();
  model->trees.base = json_log(json, "base");
  const std::vector<std::int32_t> features = json_integers(json, "features"), next = json_integers(json, "next");
  const auto count = static_cast<std::int32_t>(features.size());
  const Eigen::VectorXf values = json_vector(json, "values", count).cast<float>();
  if (next.size() != features.size()) refuse_field("next", "as long as \"features\"");
  for (std::int32_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const TreeNode node{features[at], values[i], next[at]};
    // Children come after their parent, so every walk ends.
    if (node.feature >= 0 && (node.feature >= columns || node.next <= i || node.next >= count - 1))
      refuse_field("next", "a list of trees");
    model->trees.nodes.push_back(node);
  }
  model->trees.roots = json_integers(json, "roots");
  for (const std::int32_t root : model->trees.roots) {
    if (root < 0 || root >= count) refuse_field("roots", "a list of places in \"features\"");
  }
  return model;
}

}  // namespace

double Trees::log_time(const Features& features) const {
  const Eigen::Matrix<float, Eigen::Dynamic, 1, 0, max_features, 1> x = features.cast<float>();
  double sum = base;
  for (std::int32_t at : roots) {
    while (nodes[static_cast<std::size_t>(at)].feature >= 0) {
      const TreeNode& node = nodes[static_cast<std::size_t>(at)];
      at = node.next + (x[node.feature] < node.value ? 0 : 1);
    }
    sum += static_cast<double>(nodes[static_cast<std::size_t>(at)].value);
  }
  return sum;
}

const FeatureKind forest_function = {.name = "forest", .fit = fit_forest, .load = load_trees};
const FeatureKind boosting_function = {.name = "boosting", .fit = fit_boosting, .load = load_trees};

}  // namespace perfpred
