// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <map>
#include <string>
#include <vector>

#include "evaluate/op_evaluation.h"
#include "optime/step_model.h"

namespace perfpred {

/// What is left out: a device, a network, a family of networks (StepRow::network_family), a source, a family of devices
/// (Pascal | Volta, Turing | Ampere and later | CDNA).
enum class StepProtocol { device, lono, family, source, device_family };

struct ScoredStep {
  StepRow row;
  double predicted_sec, half_width;  ///< of the 90 % interval of the logarithm
};

/// Errors of a step model on rows that it was not fitted on.
struct StepEvaluation {
  ErrorSample all;
  std::map<std::string, ErrorSample> by_gpu;
  std::map<std::string, std::size_t> unscored;  ///< rows without a prediction, by reason
  std::vector<ScoredStep> steps;
};

/// @param probe_networks  rows of these networks on a scored machine and precision are learned from, and not scored; a
///                        network that was not measured there is replaced by the one whose step is shortest
/// @throws InputError     for one that neither a scored row has nor the zoo
[[nodiscard]] StepEvaluation evaluate_step_test(const StepTable& train, const StepTable& test,
                                                const std::vector<std::string>& probe_networks);
[[nodiscard]] StepEvaluation evaluate_steps(const StepTable& file, StepProtocol protocol,
                                            const std::vector<std::string>& probe_networks,
                                            const PartsDone& progress = {});

}  // namespace perfpred
