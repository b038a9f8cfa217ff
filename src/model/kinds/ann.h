// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <Eigen/Core>

#include "model/kinds/features.h"

namespace perfpred {

/// Multilayer perceptron n-64-64-1 on n features with ReLU, in single precision, on standardised inputs and target.
/// Matrices are stored by input: `hidden_weights.col(j)` holds the weights of input j in each unit.
struct AnnNetwork {
  static constexpr int units = 64;
  Standardizer standardize;
  double target_mean = 0, target_scale = 1;
  Eigen::Matrix<float, units, Eigen::Dynamic> input_weights;
  Eigen::Matrix<float, units, 1> input_bias;
  alignas(64) Eigen::Matrix<float, units, units> hidden_weights;
  Eigen::Matrix<float, units, 1> hidden_bias;
  Eigen::Matrix<float, units, 1> output_weights;
  float output_bias = 0;

  [[nodiscard]] double log_time(const Features& features) const;
};

using AnnFitter = AnnNetwork (*)(const FeatureTask& task);

/// Core evaluates the network. The component torch trains it, once enable_ann() has registered its function here.
PERFPRED_API void set_ann_fitter(AnnFitter fitter);
[[nodiscard]] PERFPRED_API AnnFitter ann_fitter();  ///< null if none is registered

}  // namespace perfpred
