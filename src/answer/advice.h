// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/answer.h>

#include <vector>

#include "step/job.h"

namespace perfpred {

/// What would make a job fit its device: the largest batch, with accumulation where the network has it; checkpointing,
/// an 8-bit optimizer, LoRA, QLoRA (of a job with an adapter the latter's 4-bit weights), each alone, then one after
/// the other until the job fits, and if it does not, a smaller batch with them; and the cheapest device that takes it
/// as it is, without prices the card of the least memory. Changes that are in force, that a network cannot have, and
/// that save nothing are left out. Empty where the job fits or its memory is not known.
/// @param job  what is expected of it, with its largest batch
[[nodiscard]] std::vector<Advice> advice(const TimeRegressor& model, const Job& asked, const JobTerms& terms,
                                         const Forecast& job, const Prices& prices);

}  // namespace perfpred
