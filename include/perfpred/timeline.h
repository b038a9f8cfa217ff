// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/forecast.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <string>
#include <vector>

namespace perfpred {

/// What works at the same time: the device, the host that dispatches its kernels, and collectives by what they move.
enum class Lane : std::uint8_t { compute, host, tensors, parameters, gradients };

/// `compute`, `host`, `links tensors`, `links parameters`, `links gradients`.
[[nodiscard]] PERFPRED_API std::string_view to_string(Lane lane);

/// Something that takes time in a step. Those of one lane and stage follow each other, or the later lies in the
/// earlier.
struct TimelineEvent {
  std::int64_t stage = 0;  ///< of a pipeline, from 0
  Lane lane = Lane::compute;
  std::string name;   ///< an operator; a pass, with its micro-batch from 1 where there are several; a collective
  std::string layer;  ///< of an operator; empty if it belongs to none
  double begin_sec = 0, sec = 0;
  double flops = 0, bytes = 0;  ///< of an operator, read and written; else 0
};

/// A predicted step over time.
struct Timeline {
  Workload workload;
  Quantiles step_sec;                   ///< the events end at its median
  std::vector<TimelineEvent> events;    ///< of one of the replicas, and of one of the ranks that share its tensors
  std::vector<std::string> simplified;  ///< what is not drawn as it will be, a line each
};

/// Where the time of a step goes: the kernels of one device beside their host; of several devices the passes of each
/// pipeline stage, the collectives that they wait for and those that they hide. What corrects the median (runs, the
/// network, the program) is spread over all of it.
/// @param terms  as for forecast(): of them the step depends on `unstated`
/// @throws InputError as forecast(), and for a step whose kernels the op model cannot time
[[nodiscard]] PERFPRED_API Timeline timeline(const TimeRegressor& model, const Workload& workload,
                                             const JobTerms& terms = {});

/// Chrome's trace events (Trace Event Format), which Perfetto and chrome://tracing show: a process a stage, a thread a
/// lane, microseconds.
[[nodiscard]] PERFPRED_API std::string trace_json(const Timeline& timeline);

}  // namespace perfpred
