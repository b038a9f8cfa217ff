// SPDX-License-Identifier: Apache-2.0
#include "parallel/layout_runs.h"

#include <algorithm>
#include <cmath>
#include <span>
#include <utility>

namespace perfpred {
namespace {

// Of the logarithm of measured over expected seconds. Lengths, and what layouts have of their own, were chosen on the
// steps of vTrain's authors (Bang et al. 2024; MIT) with networks, all but some rows, and numbers of devices left out
// (docs/notes/parallel.md). What a cluster has of its own is wider than theirs, as the constants are fitted on them.
constexpr double of_cluster = 0.15;  ///< standard deviation of what all jobs on a cluster share
constexpr double of_layout = 0.1;    ///< and of what depends on the layout
constexpr double of_run = 0.03;      ///< and of a run
constexpr std::array<double, LayoutInput::count> lengths = {0.5, 2, 2, 1, 1, 2, 0.8, 4, 1, 6, 1, 2, 1};

double square(double x) { return x * x; }

constexpr double prior_variance = of_cluster * of_cluster + of_layout * of_layout;

std::vector<LayoutInput> inputs_of(const std::vector<LayoutRun>& runs) {
  std::vector<LayoutInput> inputs;
  for (const LayoutRun& run : runs) inputs.push_back(run.input);
  return inputs;
}

Eigen::VectorXd errors_of(const std::vector<LayoutRun>& runs) {
  Eigen::VectorXd errors(static_cast<Eigen::Index>(runs.size()));
  std::ranges::transform(runs, errors.begin(), &LayoutRun::log_error);
  return errors;
}

}  // namespace

double LayoutInputs::covariance(const LayoutInput& a, const LayoutInput& b) const {
  if (a.cluster != b.cluster) return 0;
  double distance2 = 0;
  for (std::size_t i = 0; i < LayoutInput::count; ++i) distance2 += square((a.numbers[i] - b.numbers[i]) / lengths[i]);
  return square(of_cluster) + square(of_layout) * std::exp(-distance2 / 2);
}

void LayoutInputs::column(const LayoutInput& input, double* out, Eigen::Index first) const {
  for (Eigen::Index row = first; row < size(); ++row) *out++ = covariance(of(row), input);
}

NearCovariance LayoutInputs::among(const NearestRows& rows, const LayoutInput& input) const {
  const Eigen::Index n = rows.size();
  NearCovariance covariances{NearMatrix(n, n), NearVector(n)};
  for (Eigen::Index k = 0; k < n; ++k) {
    for (Eigen::Index j = k; j < n; ++j) covariances.rows(j, k) = covariance(of(rows[j]), of(rows[k]));
    covariances.asked[k] = covariance(of(rows[k]), input);
  }
  return covariances;
}

LayoutRuns::LayoutRuns(const std::vector<LayoutRun>& runs)
    : process_(LayoutInputs(inputs_of(runs)),
               Eigen::VectorXd::Constant(static_cast<Eigen::Index>(runs.size()), square(of_run)), errors_of(runs)) {}

bool LayoutRuns::has(const std::function<bool(const LayoutInput&)>& is_it) const {
  const LayoutInputs& runs = process_.inputs();
  for (Eigen::Index row = 0; row < runs.size(); ++row) {
    if (is_it(runs.of(row))) return true;
  }
  return false;
}

bool LayoutRuns::know(const std::string& cluster) const {
  return has([&](const LayoutInput& run) { return run.cluster == cluster; });
}

std::optional<LayoutRuns::Correction> LayoutRuns::at(const LayoutInput& input) const {
  if (!know(input.cluster)) return std::nullopt;
  const auto error = process_.at(input);
  Correction correction{error.mean, std::sqrt(std::min(1.0, (error.variance + square(of_run)) / prior_variance))};
  const auto layout_of = [](const LayoutInput& one) { return std::span(one.numbers).first<LayoutInput::words>(); };
  correction.is_layout_measured = has([&](const LayoutInput& run) {
    return run.cluster == input.cluster && std::ranges::equal(layout_of(run), layout_of(input));
  });
  return correction;
}

}  // namespace perfpred
