// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <string_view>

#include "optime/normal_prior.h"

namespace perfpred {

/// What a StepFormula shares between all machines. Natural logarithms, each of the quantity that `step_parameters`
/// says.
struct StepParameters {
  double conv_forward = 0, conv_input = 0, conv_weight = 0;
  double winograd = 0, winograd_weight = 0;
  double depth_half = 0, width_half = 0;
  double grouped = 0;
  double product = 0;
  double matrix_units = 0;
  double fp64 = 0;
  double memory_conv = 0;
  double memory_depthwise_forward = 0, memory_depthwise_input = 0, memory_depthwise_weight = 0;
  double memory_norm = 0, memory_elementwise = 0, memory_rearrangement = 0, memory_pooling = 0, memory_other = 0;
  double gap = 0;
  double host = 0, host_backward = 0;
  double half_storage = 0;
  double fixed = 0;
  double emulated_compute = 0, emulated_memory = 0, emulated_depthwise = 0;
  double host_conv = 0, host_norm = 0;
  double recurrent = 0;
  double depthwise_forward = 0, depthwise_input = 0, depthwise_weight = 0;
  double norm_number = 0, norm_number_own = 0;
  double cache = 0;
  double clock_bytes = 0;
  double transposing = 0, transposing_single = 0;
  double misaligned = 0;
  double matrix_units_forward = 0;
  double depthwise_channels_last = 0, grouped_channels_last = 0;
  double attention_single = 0;
  double fused = 0;
  double attention_softmax = 0;
};

/// A parameter of a StepFormula.
struct StepParameter {
  std::string_view name;  ///< as in a model file
  double StepParameters::*value;
  NormalPrior prior;
  std::string_view meaning;  ///< of the exponential, with its unit
  std::string_view source;   ///< of the prior: a paragraph of docs/notes/optime.md, or a paper
  bool later = false;        ///< a model file from before it has 0, which changes nothing
};

/// One row for each member of StepParameters, in the order of the members.
extern const std::array<StepParameter, sizeof(StepParameters) / sizeof(double)> step_parameters;

/// The means of the priors.
[[nodiscard]] StepParameters prior_means();

}  // namespace perfpred
