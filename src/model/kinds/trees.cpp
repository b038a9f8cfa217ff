// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <numeric>
#include <random>

#include "model/kinds/features.h"
#include "model/lognormal.h"
#include "text/parse.h"
#include "model/regressor_kind.h"

#ifdef PERFPRED_WITH_XGBOOST
#include <xgboost/c_api.h>
#endif

namespace perfpred {
namespace {

/// A node of a tree: rows with feature < threshold go to `next`, others to `next + 1`; a leaf has feature -1 and adds
/// its value.
struct Node {
  std::int32_t feature = -1;
  float value = 0;  // threshold or leaf
  std::int32_t next = 0;
};

/// Trees laid out one after the other; log seconds are the base plus the sum of one leaf of each.
class TreesModel final : public RegressorModel {
 public:
  double base = 0;
  std::vector<Node> nodes;
  std::vector<std::int32_t> roots;
  double half_width = 0;

  [[nodiscard]] double log_time(const Features& features) const {
    const Eigen::Matrix<float, Features::RowsAtCompileTime, 1> x = features.cast<float>();
    double sum = base;
    for (std::int32_t at : roots) {
      while (nodes[static_cast<std::size_t>(at)].feature >= 0) {
        const Node& node = nodes[static_cast<std::size_t>(at)];
        at = node.next + (x[node.feature] < node.value ? 0 : 1);
      }
      sum += static_cast<double>(nodes[static_cast<std::size_t>(at)].value);
    }
    return sum;
  }

  using RegressorModel::predict;
  [[nodiscard]] Quantiles predict(const Workload& workload) const override {
    return quantiles_about(log_time(features_of(workload)), half_width);
  }

  [[nodiscard]] nlohmann::json to_json() const override {
    std::vector<std::int32_t> features, next;
    std::vector<float> values;
    for (const Node& node : nodes) {
      features.push_back(node.feature);
      values.push_back(node.value);
      next.push_back(node.next);
    }
    return {{"base", base},     {"roots", roots}, {"features", features},
            {"values", values}, {"next", next},   {"half_width", half_width}};
  }
};

constexpr std::size_t fewest_rows = 10;

#ifdef PERFPRED_WITH_XGBOOST

void check(int status) {
  if (status != 0) throw Error(fmt::format("libxgboost: {}", XGBGetLastError()));
}

class Matrix {
 public:
  explicit Matrix(std::span<const AggregateRow> rows) {
    const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> features =
        feature_matrix(rows).cast<float>();
    const Eigen::VectorXf labels = log_times(rows).cast<float>();
    check(XGDMatrixCreateFromMat(features.data(), rows.size(), static_cast<bst_ulong>(features.cols()), NAN, &handle_));
    check(XGDMatrixSetFloatInfo(handle_, "label", labels.data(), rows.size()));
  }
  Matrix(const Matrix&) = delete;
  Matrix& operator=(const Matrix&) = delete;
  ~Matrix() { XGDMatrixFree(handle_); }
  [[nodiscard]] DMatrixHandle handle() const { return handle_; }

 private:
  DMatrixHandle handle_ = nullptr;
};

class Booster {
 public:
  explicit Booster(const Matrix& matrix) {
    const DMatrixHandle handle = matrix.handle();
    check(XGBoosterCreate(&handle, 1, &handle_));
  }
  Booster(const Booster&) = delete;
  Booster& operator=(const Booster&) = delete;
  ~Booster() { XGBoosterFree(handle_); }
  [[nodiscard]] BoosterHandle handle() const { return handle_; }
  void set(const char* name, const std::string& value) { check(XGBoosterSetParam(handle_, name, value.c_str())); }

 private:
  BoosterHandle handle_ = nullptr;
};

enum class Flavour { forest, boosting };

constexpr int forest_trees = 500;
constexpr int most_rounds = 600;
constexpr int patience = 50;  // rounds without a better validation error

/// Reads the trees back from libxgboost's own model document; children get neighbouring places.
void read_trees(const Booster& booster, std::size_t trees, TreesModel& model) {
  bst_ulong length = 0;
  const char* text = nullptr;
  check(XGBoosterSaveModelToBuffer(booster.handle(), R"({"format":"json"})", &length, &text));
  const nlohmann::json document = nlohmann::json::parse(text, text + length);
  const nlohmann::json& learner = document.at("learner");
  model.base = parse_finite(learner.at("learner_model_param").at("base_score").get<std::string>(), {});
  const nlohmann::json& all = learner.at("gradient_booster").at("model").at("trees");
  for (std::size_t t = 0; t < std::min(trees, all.size()); ++t) {
    const auto left = all[t].at("left_children").get<std::vector<std::int32_t>>();
    const auto right = all[t].at("right_children").get<std::vector<std::int32_t>>();
    const auto feature = all[t].at("split_indices").get<std::vector<std::int32_t>>();
    const auto value = all[t].at("split_conditions").get<std::vector<float>>();
    const auto root = static_cast<std::int32_t>(model.nodes.size());
    model.roots.push_back(root);
    model.nodes.emplace_back();
    std::vector<std::pair<std::size_t, std::size_t>> open = {{0, static_cast<std::size_t>(root)}};  // theirs, ours
    while (!open.empty()) {
      const auto [theirs, ours] = open.back();
      open.pop_back();
      if (left[theirs] < 0) {
        model.nodes[ours] = {-1, value[theirs], 0};
        continue;
      }
      const std::size_t next = model.nodes.size();
      model.nodes[ours] = {feature[theirs], value[theirs], static_cast<std::int32_t>(next)};
      model.nodes.resize(next + 2);
      open.emplace_back(static_cast<std::size_t>(left[theirs]), next);
      open.emplace_back(static_cast<std::size_t>(right[theirs]), next + 1);
    }
  }
}

TreesModel grow(Flavour flavour, const std::vector<AggregateRow>& rows, const std::vector<AggregateRow>& val,
                std::uint64_t seed) {
  const Matrix matrix(rows);
  Booster booster(matrix);
  booster.set("objective", "reg:squarederror");
  booster.set("base_score", fmt::format("{}", log_times(rows).mean()));
  booster.set("tree_method", "exact");
  booster.set("nthread", "1");
  booster.set("verbosity", "0");
  booster.set("seed", fmt::format("{}", seed % 2147483647));
  TreesModel model;
  if (flavour == Flavour::forest) {
    booster.set("num_parallel_tree", fmt::format("{}", forest_trees));
    booster.set("learning_rate", "1");
    booster.set("subsample", "0.632");  // the share of different rows in a bootstrap sample
    booster.set("colsample_bynode", "0.8");
    booster.set("max_depth", "12");
    booster.set("min_child_weight", "1");
    booster.set("lambda", "0");
    check(XGBoosterUpdateOneIter(booster.handle(), 0, matrix.handle()));
    read_trees(booster, static_cast<std::size_t>(forest_trees), model);
    return model;
  }
  booster.set("learning_rate", "0.05");
  booster.set("max_depth", "4");
  booster.set("subsample", "0.8");
  booster.set("lambda", "1");
  std::size_t best_rounds = most_rounds;
  if (val.empty()) {
    for (int round = 0; round < most_rounds; ++round)
      check(XGBoosterUpdateOneIter(booster.handle(), round, matrix.handle()));
  } else {
    const Matrix val_matrix(val);
    const Eigen::VectorXd labels = log_times(val);
    double best = INFINITY;
    int best_round = 0;
    for (int round = 0; round < most_rounds && round - best_round <= patience; ++round) {
      check(XGBoosterUpdateOneIter(booster.handle(), round, matrix.handle()));
      bst_ulong count = 0;
      const float* predicted = nullptr;
      check(XGBoosterPredict(booster.handle(), val_matrix.handle(), 0, 0, 0, &count, &predicted));
      double error = 0;
      for (bst_ulong i = 0; i < count; ++i)
        error += std::abs(static_cast<double>(predicted[i]) - labels[static_cast<Eigen::Index>(i)]);
      if (error < best) {
        best = error;
        best_round = round;
      }
    }
    best_rounds = static_cast<std::size_t>(best_round) + 1;
  }
  read_trees(booster, best_rounds, model);
  return model;
}

std::unique_ptr<RegressorModel> fit_trees(Flavour flavour, const TrainingTable& table) {
  if (table.rows.size() < fewest_rows) {
    throw InputError(fmt::format("{} rows are too few for trees: they need {}", table.rows.size(), fewest_rows));
  }
  auto model = std::make_unique<TreesModel>(grow(flavour, table.rows, table.val, table.seed));
  // The interval comes from rows that five further fits did not see.
  constexpr std::size_t folds = 5;
  std::vector<std::size_t> order(table.rows.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::mt19937_64 random(table.seed);
  std::shuffle(order.begin(), order.end(), random);
  std::vector<double> residuals;
  for (std::size_t fold = 0; fold < folds; ++fold) {
    std::vector<AggregateRow> in, out;
    for (std::size_t i = 0; i < order.size(); ++i) (i % folds == fold ? out : in).push_back(table.rows[order[i]]);
    const TreesModel part = grow(flavour, in, table.val, table.seed);
    for (const AggregateRow& row : out)
      residuals.push_back(std::log(*row.avg_time_mean) - part.log_time(features_of(row.workload)));
  }
  model->half_width = conformal_half_width(std::move(residuals));
  return model;
}

std::unique_ptr<RegressorModel> fit_forest(const TrainingTable& table) { return fit_trees(Flavour::forest, table); }
std::unique_ptr<RegressorModel> fit_boosting(const TrainingTable& table) { return fit_trees(Flavour::boosting, table); }

#else

std::unique_ptr<RegressorModel> fit_forest(const TrainingTable&) {
  throw Error("this build cannot fit kind forest: it takes libxgboost");
}
std::unique_ptr<RegressorModel> fit_boosting(const TrainingTable&) {
  throw Error("this build cannot fit kind boosting: it takes libxgboost");
}

#endif

std::unique_ptr<RegressorModel> load_trees(const nlohmann::json& json) {
  auto model = std::make_unique<TreesModel>();
  model->base = json_number(json, "base");
  model->half_width = json_number(json, "half_width");
  const Eigen::VectorXd roots = json_vector(json, "roots"), features = json_vector(json, "features"),
                        values = json_vector(json, "values"), next = json_vector(json, "next");
  const Eigen::Index count = features.size();
  if (values.size() != count || next.size() != count)
    throw ModelError("fields \"features\", \"values\" and \"next\" differ in length");
  for (Eigen::Index i = 0; i < count; ++i) {
    const Node node{static_cast<std::int32_t>(features[i]), static_cast<float>(values[i]),
                    static_cast<std::int32_t>(next[i])};
    const bool leaf = node.feature < 0;
    // Children lie behind their parent, so every walk ends.
    if (!leaf && (node.feature >= Features::RowsAtCompileTime || node.next <= i || node.next + 1 >= count)) {
      throw ModelError("field \"next\" does not describe trees");
    }
    model->nodes.push_back(node);
  }
  for (const double root : roots) {
    if (!(root >= 0) || root >= static_cast<double>(count)) throw ModelError("field \"roots\" is out of range");
    model->roots.push_back(static_cast<std::int32_t>(root));
  }
  return model;
}

}  // namespace

const RegressorKind forest_kind = {"forest", false, fit_forest, load_trees};
const RegressorKind boosting_kind = {"boosting", true, fit_boosting, load_trees};

}  // namespace perfpred
