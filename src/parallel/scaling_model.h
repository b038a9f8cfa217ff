// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <string_view>

#include "catalogue/links.h"
#include "parallel/scaling_rows.h"

namespace perfpred {

namespace scaling {
struct Fitted;
}

struct ScalingEstimate {
  double log_sec = 0;         ///< of a step
  double half_width = 0;      ///< of the 90 % interval of log_sec
  double one_device_sec = 0;  ///< of a step of one device on its share of the batch: what perfect scaling takes
  double exposed_sec = 0;     ///< of the all-reduce, what no computation hides
  double reduce_sec = 0;      ///< of the whole all-reduce
  double critical_bytes = 0;  ///< of gradients whose all-reduce waits for its latency as long as for its links
  bool is_placement_measured = false;
  bool is_measured = false;  ///< rows of the network in the cluster and precision say what its steps take
};

/// Seconds of a collective that computing does not hide, beside which it runs: the power joins them smoothly.
/// @param hides  seconds of computing behind which it can hide
[[nodiscard]] inline double exposed_sec(double collective, double hides, double power) {
  const double larger = std::max(collective, hides);
  if (larger == 0) return 0;
  return larger * std::pow(std::pow(collective / larger, power) + std::pow(hides / larger, power), 1 / power) - hides;
}

/// Times of data-parallel steps, from those of one device and of other placements.
class ScalingModel {
 public:
  /// @param rows   of which those of one device say what a device alone takes; where a network has none of them in a
  ///               cluster, those of the fewest devices
  /// @param links  of the rows' clusters, as far as they are known
  [[nodiscard]] static ScalingModel fit(std::span<const ScalingRow* const> rows, Links links);

  /// Whether a row is of the cluster.
  [[nodiscard]] bool knows(std::string_view cluster) const;

  /// Nothing for a network of which no row is of the cluster and precision.
  [[nodiscard]] std::optional<ScalingEstimate> predict(const ScalingRow& asked) const;

  /// Where a model says the time of a step of one device (ScalingRow::one_device_sec). The interval is about that time,
  /// but for networks that were measured in the cluster: there it holds that model's error, too.
  /// @param links  of the cluster
  [[nodiscard]] ScalingEstimate predict(const ScalingRow& asked, const Links& links) const;

 private:
  explicit ScalingModel(std::shared_ptr<const scaling::Fitted> fitted);

  std::shared_ptr<const scaling::Fitted> fitted_;
};

}  // namespace perfpred
