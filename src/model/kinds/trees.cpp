// SPDX-License-Identifier: Apache-2.0
#include "model/kinds/trees.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <random>

#include "model/lognormal.h"
#include "model/regressor_kind.h"
#include "text/model_json.h"

namespace perfpred {
namespace {

constexpr std::size_t min_rows = 10;

class TreesModel final : public RegressorModel {
 public:
  Trees trees;
  double half_width = 0;

  using RegressorModel::predict;
  [[nodiscard]] Quantiles predict(const Workload& workload, const OpGraph*) const override {
    return quantiles_about(trees.log_time(features_of(workload)), half_width);
  }

  [[nodiscard]] nlohmann::json to_json() const override {
    std::vector<std::int32_t> features, next;
    std::vector<float> values;
    for (const TreeNode& node : trees.nodes) {
      features.push_back(node.feature);
      values.push_back(node.value);
      next.push_back(node.next);
    }
    return {{"base", trees.base}, {"roots", trees.roots}, {"features", features},
            {"values", values},   {"next", next},         {"half_width", half_width}};
  }
};

std::unique_ptr<RegressorModel> fit_trees(TreesKind kind, const TrainingTable& table) {
  const TreesFitter fitter = trees_fitter();
  if (fitter == nullptr) {
    throw Error(
        fmt::format("this build cannot fit kind {}: that takes libxgboost, the component xgboost "
                    "(enable_xgboost())",
                    kind == TreesKind::forest ? "forest" : "boosting"));
  }
  if (table.rows.size() < min_rows) {
    throw InputError(fmt::format("{} rows are too few for trees: they need {}", table.rows.size(), min_rows));
  }
  constexpr std::size_t folds = 5;
  double fits = 0;
  const auto grow = [&](const std::vector<AggregateRow>& rows) {
    table.control.check();
    table.control.report(fits++ / (folds + 1));
    return fitter(kind, {feature_matrix(rows), feature_matrix(table.val), log_times(rows), log_times(table.val),
                         table.seed, FitControl{table.control.stop, nullptr}});
  };
  auto model = std::make_unique<TreesModel>();
  model->trees = grow(table.rows);
  // The interval comes from the errors on rows that five more fits leave out.
  std::vector<std::size_t> order(table.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(table.seed);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<double> residuals;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::vector<AggregateRow> in, out;
    for (std::size_t i = 0; i < order.size(); ++i) (i % folds == fold ? out : in).push_back(table.rows[order[i]]);
    const Trees part = grow(in);
    for (const AggregateRow& row : out)
      residuals.push_back(std::log(*row.avg_time_mean) - part.log_time(features_of(row.workload)));
  }
  model->half_width = conformal_half_width(std::move(residuals));
  return model;
}

std::unique_ptr<RegressorModel> fit_forest(const TrainingTable& table) { return fit_trees(TreesKind::forest, table); }
std::unique_ptr<RegressorModel> fit_boosting(const TrainingTable& table) {
  return fit_trees(TreesKind::boosting, table);
}

std::unique_ptr<RegressorModel> load_trees(const nlohmann::json& json, DeviceKind) {
  auto model = std::make_unique<TreesModel>();
  model->trees.base = json_log(json, "base");
  model->half_width = json_non_negative(json, "half_width");
  const std::vector<std::int32_t> features = json_integers(json, "features"), next = json_integers(json, "next");
  const auto count = static_cast<std::int32_t>(features.size());
  const Eigen::VectorXf values = json_vector(json, "values", count).cast<float>();
  if (next.size() != features.size()) refuse_field("next", "as long as \"features\"");
  for (std::int32_t i = 0; i < count; ++i) {
    const auto at = static_cast<std::size_t>(i);
    const TreeNode node{features[at], values[i], next[at]};
    // Children come after their parent, so every walk ends.
    if (node.feature >= 0 && (node.feature >= Features::RowsAtCompileTime || node.next <= i || node.next >= count - 1))
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
  const Eigen::Matrix<float, Features::RowsAtCompileTime, 1> x = features.cast<float>();
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

const RegressorKind forest_kind = {.name = "forest", .fit = fit_forest, .load = load_trees};
const RegressorKind boosting_kind = {
    .name = "boosting", .uses_validation = true, .fit = fit_boosting, .load = load_trees};

}  // namespace perfpred
