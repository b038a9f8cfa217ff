// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "evaluate/op_evaluation.h"
#include "parallel/scaling_model.h"

namespace perfpred {

/// What is left out: every second placement of a (cluster, network), and then the others; placements of more devices
/// than ScalingProbe::max_gpus; a network in all clusters; a cluster.
enum class ScalingProtocol { placements, larger, network, cluster };

/// What is learnt of what is left out, beside its steps of one device.
struct ScalingProbe {
  std::int64_t max_gpus = 8;  ///< protocol larger: the most devices of a placement that is learnt from
  std::size_t rows = 0;       ///< the first so many of each (cluster, network) in the order of ScalingRow::probe
  std::vector<std::string> networks = {};  ///< of these alone, if there are any
};

struct ScoredScaling {
  ScalingRow row;
  ScalingEstimate predicted;
};

/// Errors of one network in one cluster.
struct ScalingGroup {
  std::string cluster, network;
  ErrorSample errors;
  ErrorSample of_perfect;  ///< of a step that takes what one device takes
};

struct ScalingEvaluation {
  std::vector<ScoredScaling> rows;
  std::map<std::string, std::size_t> unscored;  ///< rows without a prediction, by reason

  [[nodiscard]] std::vector<ScalingGroup> groups() const;
};

/// Learns from one table, and of the other from the rows that are given and the probe's; scores what is left of it.
[[nodiscard]] ScalingEvaluation evaluate_scaling_test(const std::vector<ScalingRow>& train,
                                                      const std::vector<ScalingRow>& test, const Links& links,
                                                      const ScalingProbe& probe);
/// @throws InputError if nothing is left to learn from or to score, and for a network of the probe that no row is of
[[nodiscard]] ScalingEvaluation evaluate_scaling(const std::vector<ScalingRow>& rows, ScalingProtocol protocol,
                                                 const Links& links, const ScalingProbe& probe,
                                                 const PartsDone& progress = {});

}  // namespace perfpred
