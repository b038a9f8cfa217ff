// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cmath>

#include "model/kinds/ann.h"

namespace perfpred {

/// Stands in for LibTorch, which these tests do not link: one answer to everything.
class AnnOfOneAnswer {
 public:
  static constexpr double sec = 2;
  AnnOfOneAnswer() {
    set_ann_fitter([](const FeatureTask& task) {
      AnnNetwork network;
      network.standardize = Standardizer(task.features);
      network.input_weights.setZero(AnnNetwork::units, task.features.cols());
      network.input_bias.setZero();
      network.hidden_weights.setZero();
      network.hidden_bias.setZero();
      network.output_weights.setZero();
      network.target_mean = std::log(sec);
      return network;
    });
  }
  AnnOfOneAnswer(const AnnOfOneAnswer&) = delete;
  AnnOfOneAnswer& operator=(const AnnOfOneAnswer&) = delete;
  ~AnnOfOneAnswer() { set_ann_fitter(nullptr); }
};

}  // namespace perfpred
