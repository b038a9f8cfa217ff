// SPDX-License-Identifier: Apache-2.0
#include "model/regressor_kind.h"

#include <perfpred/error.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <cmath>

#include "text/parse.h"

namespace perfpred {
namespace {

constexpr std::array<const RegressorKind*, 5> all_kinds = {&ann_kind, &boosting_kind, &forest_kind, &hybrid_kind,
                                                           &linear_kind};

}  // namespace

const RegressorKind& find_kind(std::string_view name) {
  std::vector<std::string_view> names;
  for (const RegressorKind* kind : all_kinds) {
    if (kind->name == name) return *kind;
    names.push_back(kind->name);
  }
  throw InputError(fmt::format("kind \"{}\" is not known; it must be one of {}", shown(name), fmt::join(names, ", ")));
}

void FitControl::check() const {
  if (stop.stop_requested()) throw Error("the fit was stopped");
}

void RegressorModel::estimate(std::span<const Workload> workloads, std::span<Estimate> out) const {
  for (std::size_t i = 0; i < workloads.size(); ++i) out[i] = estimate(workloads[i]);
}

JointNormal RegressorModel::joint(std::span<const Workload> workloads) const {
  const auto n = static_cast<Eigen::Index>(workloads.size());
  JointNormal joint{Eigen::VectorXd(n), Eigen::MatrixXd::Zero(n, n)};
  for (Eigen::Index i = 0; i < n; ++i) {
    const Estimate one = estimate(workloads[static_cast<std::size_t>(i)]);
    joint.mean[i] = one.log_sec;
    const double deviation = one.deviation();
    joint.covariance(i, i) = deviation * deviation;
    for (Eigen::Index j = 0; j < i; ++j) {
      if (workloads[static_cast<std::size_t>(i)] == workloads[static_cast<std::size_t>(j)]) {
        joint.covariance(i, j) = joint.covariance(j, i) = deviation * deviation;
      }
    }
  }
  return joint;
}

std::vector<TimeTerm> RegressorModel::breakdown(const Workload&) const { return {}; }

LearnResult RegressorModel::learn(std::span<const AggregateRow>, std::span<const double>) const {
  throw Error("this kind does not learn");
}

std::vector<RejectedRun> RegressorModel::dropped() const { return {}; }

double conformal_half_width(std::vector<double> residuals, double level) {
  if (residuals.empty()) throw InputError("no row is left to estimate the interval from");
  for (double& residual : residuals) residual = std::abs(residual);
  const auto n = static_cast<double>(residuals.size());
  const auto rank = static_cast<std::size_t>(std::min(n, std::ceil(level * (n + 1))));
  std::nth_element(residuals.begin(), residuals.begin() + static_cast<std::ptrdiff_t>(rank - 1), residuals.end());
  return residuals[rank - 1];
}

}  // namespace perfpred
