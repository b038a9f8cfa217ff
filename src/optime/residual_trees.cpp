// SPDX-License-Identifier: Apache-2.0
#include "optime/residual_trees.h"

#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <numeric>

#include "statistics/quantiles.h"

namespace perfpred {
namespace {

constexpr int tree_count = 80;
constexpr std::size_t max_leaves = 8, min_rows = 12, bins = 64;
constexpr double learning_rate = 0.1;

/// Thresholds that cut a feature's values into at most `bins` parts of about equal size.
std::vector<float> thresholds_of(std::span<const KernelFeatures> rows, std::size_t feature) {
  std::vector<float> values;
  values.reserve(rows.size());
  for (const KernelFeatures& row : rows) values.push_back(row[feature]);
  std::sort(values.begin(), values.end());
  std::vector<float> thresholds;
  for (std::size_t i = 1; i < bins; ++i) {
    const float value = values[i * values.size() / bins];
    if (value < values.back() && (thresholds.empty() || value > thresholds.back())) thresholds.push_back(value);
  }
  return thresholds;
}

struct Cut {
  double gain = 0;
  std::size_t feature = 0, bin = 0;  // rows of bins up to this one go left
};

struct Leaf {
  std::size_t node;
  std::vector<std::uint32_t> rows;
  Cut cut;
};

class Grower {
 public:
  Grower(std::span<const KernelFeatures> rows, std::span<const double> residuals)
      : left_over_(residuals.begin(), residuals.end()), binned_(rows.size()) {
    for (std::size_t f = 0; f < kernel_features; ++f) thresholds_[f] = thresholds_of(rows, f);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      for (std::size_t f = 0; f < kernel_features; ++f) {
        const auto& cuts = thresholds_[f];
        binned_[i][f] =
            static_cast<std::uint8_t>(std::lower_bound(cuts.begin(), cuts.end(), rows[i][f]) - cuts.begin());
      }
    }
  }

  std::vector<ResidualTrees::Node> grow() {
    std::vector<ResidualTrees::Node> tree(1);
    std::vector<Leaf> leaves(1);
    leaves[0].node = 0;
    leaves[0].rows.resize(binned_.size());
    std::iota(leaves[0].rows.begin(), leaves[0].rows.end(), 0U);
    leaves[0].cut = best_cut(leaves[0].rows);
    while (leaves.size() < max_leaves) {
      const auto next = std::max_element(leaves.begin(), leaves.end(),
                                         [](const Leaf& a, const Leaf& b) { return a.cut.gain < b.cut.gain; });
      if (!(next->cut.gain > 0)) break;
      Leaf left, right;
      for (const std::uint32_t row : next->rows) {
        (binned_[row][next->cut.feature] <= next->cut.bin ? left : right).rows.push_back(row);
      }
      left.node = tree.size();
      right.node = left.node + 1;
      tree[next->node] = {static_cast<std::int32_t>(next->cut.feature), thresholds_[next->cut.feature][next->cut.bin],
                          static_cast<std::int32_t>(left.node), static_cast<std::int32_t>(right.node)};
      tree.resize(tree.size() + 2);
      left.cut = best_cut(left.rows);
      right.cut = best_cut(right.rows);
      *next = std::move(left);
      leaves.push_back(std::move(right));
    }
    for (const Leaf& leaf : leaves) {
      std::vector<double> values;
      values.reserve(leaf.rows.size());
      for (const std::uint32_t row : leaf.rows) values.push_back(left_over_[row]);
      const double step = learning_rate * median(std::move(values));
      tree[leaf.node].value = static_cast<float>(step);
      for (const std::uint32_t row : leaf.rows) left_over_[row] -= step;
    }
    return tree;
  }

 private:
  /// The cut that best separates rows above from rows below: least squares on the signs.
  [[nodiscard]] Cut best_cut(const std::vector<std::uint32_t>& rows) const {
    Cut best;
    if (rows.size() < 2 * min_rows) return best;
    double total = 0;
    for (const std::uint32_t row : rows) total += sign(row);
    const double n = static_cast<double>(rows.size());
    for (std::size_t f = 0; f < kernel_features; ++f) {
      if (thresholds_[f].empty()) continue;
      std::array<double, bins> sums{};
      std::array<std::uint32_t, bins> counts{};
      for (const std::uint32_t row : rows) {
        sums[binned_[row][f]] += sign(row);
        ++counts[binned_[row][f]];
      }
      double sum = 0;
      std::size_t count = 0;
      for (std::size_t b = 0; b < thresholds_[f].size(); ++b) {
        sum += sums[b];
        count += counts[b];
        if (count < min_rows || rows.size() - count < min_rows) continue;
        const double left = static_cast<double>(count), right = n - left;
        const double gain = sum * sum / left + (total - sum) * (total - sum) / right - total * total / n;
        if (gain > best.gain + 1e-9) best = {gain, f, b};
      }
    }
    return best;
  }

  [[nodiscard]] double sign(std::uint32_t row) const { return left_over_[row] > 0 ? 1 : left_over_[row] < 0 ? -1 : 0; }

  std::vector<double> left_over_;
  std::vector<std::array<std::uint8_t, kernel_features>> binned_;
  std::array<std::vector<float>, kernel_features> thresholds_;
};

}  // namespace

ResidualTrees ResidualTrees::fit(std::span<const KernelFeatures> rows, std::span<const double> residuals) {
  ResidualTrees model;
  if (rows.size() < 4 * min_rows) return model;
  Grower grower(rows, residuals);
  for (int i = 0; i < tree_count; ++i) model.trees_.push_back(grower.grow());
  return model;
}

ResidualTrees::ResidualTrees(std::vector<std::vector<Node>> trees) : trees_(std::move(trees)) {
  for (const auto& tree : trees_) {
    const auto size = static_cast<std::int32_t>(tree.size());
    if (size == 0) throw ModelError("a tree of the field \"trees\" is empty");
    for (std::int32_t i = 0; i < size; ++i) {
      const Node& node = tree[static_cast<std::size_t>(i)];
      if (!std::isfinite(node.value)) throw ModelError("field \"trees\" has a value that is not a number");
      if (node.feature < 0) continue;
      const bool inside = node.left > i && node.left < size && node.right > i && node.right < size;
      if (node.feature >= static_cast<std::int32_t>(kernel_features) || !inside) {
        throw ModelError("field \"trees\" is not a list of trees");
      }
    }
  }
}

double ResidualTrees::predict(const KernelFeatures& features) const {
  double sum = 0;
  for (const auto& tree : trees_) {
    std::size_t at = 0;
    while (tree[at].feature >= 0) {
      at = static_cast<std::size_t>(
          features[static_cast<std::size_t>(tree[at].feature)] <= tree[at].value ? tree[at].left : tree[at].right);
    }
    sum += tree[at].value;
  }
  return std::clamp(sum, -limit, limit);
}

}  // namespace perfpred
