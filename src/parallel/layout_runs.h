// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "statistics/gaussian_process.h"

namespace perfpred {

/// What the error of an expected step depends on where ranks split the network.
struct LayoutInput {
  enum : std::size_t {
    tp,  ///< logarithms to base 2 of it and of those that follow
    pp,
    dp,
    cp,
    ep,
    vp,
    words,  ///< of a rank's micro-batch
    micro_batches,
    hidden,
    layers,
    bytes,      ///< of a number
    recompute,  ///< 0 nothing, 1 attention, 2 all; no logarithm
    gathers,    ///< 1 if replicas share parameters; no logarithm
    count,
  };
  std::string cluster;  ///< and its device
  std::array<double, count> numbers = {};
};

/// A measured step. `log_error` is the logarithm of measured over expected seconds.
struct LayoutRun {
  LayoutInput input;
  double log_error = 0;
};

/// The inputs of runs (GaussianProcess).
class LayoutInputs {
 public:
  using Input = LayoutInput;

  LayoutInputs() = default;
  explicit LayoutInputs(std::vector<LayoutInput> inputs) : inputs_(std::move(inputs)) {}

  [[nodiscard]] Eigen::Index size() const { return static_cast<Eigen::Index>(inputs_.size()); }
  [[nodiscard]] const LayoutInput& of(Eigen::Index row) const { return inputs_[static_cast<std::size_t>(row)]; }
  [[nodiscard]] double covariance(const LayoutInput& a, const LayoutInput& b) const;
  void column(const LayoutInput& input, double* out, Eigen::Index first = 0) const;
  template <class Skip>
  [[nodiscard]] NearestRows nearest(const LayoutInput& input, const Skip& skip) const {
    return {size(), [&](Eigen::Index row) { return covariance(of(row), input); }, skip};
  }
  [[nodiscard]] NearCovariance among(const NearestRows& rows, const LayoutInput& input) const;

 private:
  std::vector<LayoutInput> inputs_;
};

/// What measured runs whose ranks split the network say of others on the same cluster.
class LayoutRuns {
 public:
  LayoutRuns() = default;
  explicit LayoutRuns(const std::vector<LayoutRun>& runs);

  struct Correction {
    double log_factor = 0;  ///< to the expected seconds
    double width = 1;       ///< what is left of the interval of their logarithm, up to 1
    bool is_layout_measured = false;
  };
  /// Nothing where no run is of the cluster.
  [[nodiscard]] std::optional<Correction> at(const LayoutInput& input) const;
  [[nodiscard]] bool know(const std::string& cluster) const;

 private:
  GaussianProcess<LayoutInputs> process_;

  [[nodiscard]] bool has(const std::function<bool(const LayoutInput&)>& is_it) const;
};

}  // namespace perfpred
