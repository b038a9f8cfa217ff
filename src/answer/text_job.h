// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>

#include "step/job.h"

namespace perfpred {

/// A job whose texts have several lengths, as jobs whose texts all have one.
struct TextJob {
  Workload timed;    ///< takes as long, an epoch and on average a step
  Workload longest;  ///< takes as much memory: that of the longest batch that comes
  TextBatches batches;
};

/// Texts of AnswerTerms::lengths, cut off at the input if it is stated. Where nobody stated `padding` they are padded
/// to the longest of a batch.
/// @throws InputError for a network whose samples are no texts, or of one length only; for grouped texts that are not
/// padded to the longest of a batch; and as TimeRegressor::predict()
[[nodiscard]] TextJob text_job(const TimeRegressor& model, const Job& job, const AnswerTerms& terms);

}  // namespace perfpred
