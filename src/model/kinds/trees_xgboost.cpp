// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/xgboost/trees.h>

#include <fmt/format.h>
#include <xgboost/c_api.h>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <utility>

#include "model/kinds/trees_xgboost.h"
#include "text/json.h"
#include "text/parse.h"

namespace perfpred {
namespace {

constexpr int forest_trees = 500;
constexpr int max_rounds = 600;
constexpr int patience = 50;  // rounds without a better validation error

void check(int status) {
  if (status != 0) throw Error(fmt::format("libxgboost: {}", XGBGetLastError()));
}

class Matrix {
 public:
  Matrix(const Eigen::MatrixXd& features, const Eigen::VectorXd& log_times) {
    const Eigen::Matrix<float, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor> rows = features.cast<float>();
    const Eigen::VectorXf labels = log_times.cast<float>();
    const auto count = static_cast<bst_ulong>(rows.rows());
    check(XGDMatrixCreateFromMat(rows.data(), count, static_cast<bst_ulong>(rows.cols()), NAN, &handle_));
    check(XGDMatrixSetFloatInfo(handle_, "label", labels.data(), count));
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

/// Adds rounds until the validation rows, if there are any, have not improved for `patience` rounds.
/// @returns the best number of rounds
std::size_t boost(const Booster& booster, const Matrix& matrix, const FeatureTask& task) {
  const auto update = [&](int round) {
    task.control.check();
    check(XGBoosterUpdateOneIter(booster.handle(), round, matrix.handle()));
  };
  if (task.val_log_times.size() == 0) {
    for (int round = 0; round < max_rounds; ++round) update(round);
    return max_rounds;
  }
  const Matrix val(task.val_features, task.val_log_times);
  double best = INFINITY;
  int best_round = 0;
  for (int round = 0; round < max_rounds && round - best_round <= patience; ++round) {
    update(round);
    bst_ulong count = 0;
    const float* predicted = nullptr;
    check(XGBoosterPredict(booster.handle(), val.handle(), 0, 0, 0, &count, &predicted));
    double error = 0;
    for (bst_ulong i = 0; i < count; ++i)
      error += std::abs(static_cast<double>(predicted[i]) - task.val_log_times[static_cast<Eigen::Index>(i)]);
    if (error >= best) continue;
    best = error;
    best_round = round;
  }
  return static_cast<std::size_t>(best_round) + 1;
}

Trees grow(TreesKind kind, const FeatureTask& task) {
  const Matrix matrix(task.features, task.log_times);
  Booster booster(matrix);
  booster.set("objective", "reg:squarederror");
  booster.set("base_score", fmt::format("{}", task.log_times.mean()));
  booster.set("tree_method", "exact");
  booster.set("nthread", "1");
  booster.set("verbosity", "0");
  booster.set("seed", fmt::format("{}", task.seed % 2147483647));
  if (kind == TreesKind::forest) {
    booster.set("num_parallel_tree", fmt::format("{}", forest_trees));
    booster.set("learning_rate", "1");
    booster.set("subsample", "0.632");  // the share of different rows in a bootstrap sample
    booster.set("colsample_bynode", "0.8");
    booster.set("max_depth", "12");
    booster.set("min_child_weight", "1");
    booster.set("lambda", "0");
    check(XGBoosterUpdateOneIter(booster.handle(), 0, matrix.handle()));
    return read_trees(booster.handle(), forest_trees);
  }
  booster.set("learning_rate", "0.05");
  booster.set("max_depth", "4");
  booster.set("subsample", "0.8");
  booster.set("lambda", "1");
  const std::size_t rounds = boost(booster, matrix, task);
  return read_trees(booster.handle(), rounds);
}

}  // namespace

// Reads libxgboost's own model document. The children of a node get neighbouring places.
Trees read_trees(void* booster, std::size_t count) {
  bst_ulong length = 0;
  const char* text = nullptr;
  check(XGBoosterSaveModelToBuffer(booster, R"({"format":"json"})", &length, &text));
  const nlohmann::json document = parse_json<nlohmann::json>({text, static_cast<std::size_t>(length)});
  const nlohmann::json& learner = document.at("learner");
  Trees trees;
  trees.base = parse_finite(learner.at("learner_model_param").at("base_score").get<std::string>(), {});
  const nlohmann::json& all = learner.at("gradient_booster").at("model").at("trees");
  for (std::size_t t = 0; t < std::min(count, all.size()); ++t) {
    const auto left = all[t].at("left_children").get<std::vector<std::int32_t>>();
    const auto right = all[t].at("right_children").get<std::vector<std::int32_t>>();
    const auto feature = all[t].at("split_indices").get<std::vector<std::int32_t>>();
    const auto value = all[t].at("split_conditions").get<std::vector<float>>();
    const auto root = static_cast<std::int32_t>(trees.nodes.size());
    trees.roots.push_back(root);
    trees.nodes.emplace_back();
    std::vector<std::pair<std::size_t, std::size_t>> open = {{0, static_cast<std::size_t>(root)}};  // theirs, ours
    while (!open.empty()) {
      const auto [theirs, ours] = open.back();
      open.pop_back();
      if (left[theirs] < 0) {
        trees.nodes[ours] = {-1, value[theirs], 0};
        continue;
      }
      const std::size_t next = trees.nodes.size();
      trees.nodes[ours] = {feature[theirs], value[theirs], static_cast<std::int32_t>(next)};
      trees.nodes.resize(next + 2);
      open.emplace_back(static_cast<std::size_t>(left[theirs]), next);
      open.emplace_back(static_cast<std::size_t>(right[theirs]), next + 1);
    }
  }
  return trees;
}

void enable_xgboost() { set_trees_fitter(&grow); }

}  // namespace perfpred
