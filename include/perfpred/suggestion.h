// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/time_regressor.h>

#include <optional>
#include <span>
#include <vector>

namespace perfpred {

/// A configuration worth measuring.
struct Suggestion {
  Workload workload;
  std::optional<double> cost_sec;  ///< what measuring takes, start-up included; empty before there is a model to ask
};

/// Chooses n of the grid's workloads to measure next. With fewer than 8 measured rows: those farthest from one another
/// and from what was measured, in depth, log width and log batch. From then on one after the other by what they teach
/// per second of measuring: how far measuring it would lower the summed variance of log time over the grid, over the
/// cost that a hybrid model of the measured rows predicts (three epochs and a start-up of ten seconds). Of a grid of
/// several devices, precisions, optimizers or layouts, each counts its own rows, and those with fewer than 8 come
/// first, until they have them; rows that are of none of them do not enter.
/// @returns at most n, best first; workloads already measured are never among them
/// @throws InputError as TimeRegressor::fit
[[nodiscard]] PERFPRED_API std::vector<Suggestion> suggest(std::span<const AggregateRow> measured,
                                                           std::span<const Workload> grid, std::size_t n,
                                                           const FitOptions& options = {});

}  // namespace perfpred
