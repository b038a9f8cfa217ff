// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/forecast.h>
#include <perfpred/prediction.h>

#include <cstdint>
#include <optional>

#include "statistics/estimate.h"

namespace perfpred {

/// What a regressor expects of an epoch of the samples that a workload's key has, whether or not it knows its epoch.
struct JobEstimate {
  Estimate time;
  DomainViolation reason = DomainViolation::none;
  std::uint64_t model_id = 0, training_set_id = 0;
  std::optional<Scaling> scaling = {};  ///< of a job on several devices

  [[nodiscard]] Prediction prediction() const {
    return {time.quantiles(), reason, time.rests_on, model_id, training_set_id};
  }
};

}  // namespace perfpred
