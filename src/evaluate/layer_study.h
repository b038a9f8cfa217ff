// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "model/layer_models.h"

namespace perfpred {

struct LayerStudyOptions {
  int folds = 5;               ///< of the cross-validation
  double test_fraction = 0.2;  ///< of the rows of each type, which no fit and no choice of a kind sees
  std::uint64_t seed = 0;
  std::vector<std::string> kinds;                                        ///< empty: all that this build can fit
  bool ablation = true, devices = true;                                  ///< whether inputs and devices are left out
  std::function<void(std::size_t done, std::size_t all)> progress = {};  ///< by types of layers
};

/// Errors of step times of layers of one type.
struct LayerScore {
  LayerType type;
  std::string kind;                 ///< of regression
  LayerInputs inputs;               ///< of it
  std::string by;                   ///< `cross-validation`, `test`, or the device that was left out
  std::size_t n = 0;                ///< scored rows
  double mape = 0, median_ape = 0;  ///< fractions
};

struct LayerPredictionRow {
  LayerRow row;
  Quantiles sec;  ///< of its step
};

struct LayerStudy {
  std::vector<LayerScore> scores;
  std::vector<LayerPredictionRow> predictions;  ///< of the chosen kinds, for the rows that were kept for the test
  LayerModels models;                           ///< of the chosen kinds, fitted on all but the test rows
  std::vector<std::string> notes;               ///< rows and types that were left out, and why
};

/// Compares kinds of regression on the rows of each type of layer: cross-validation without the test rows chooses a
/// kind, whose error on the test rows is then measured. Ablation: the chosen kind with sizes only, with compute, with
/// memory, with time. If there are several devices, each is left out in turn.
/// @throws InputError if no type has the rows that it takes, or for a kind that is not known
[[nodiscard]] LayerStudy study_layers(const std::vector<LayerRow>& rows, const DeviceCatalogue& devices,
                                      const LayerStudyOptions& options);

}  // namespace perfpred
