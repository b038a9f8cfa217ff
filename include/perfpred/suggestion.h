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
  std::optional<double> cost_sec;  ///< expected time of measuring, start-up included; empty without a model
};

/// Chooses n of the grid's workloads to measure next. With fewer than 8 measured rows: the workloads farthest from one
/// another and from the measured rows, in depth, log width and log batch. Then greedily: each next workload is the one
/// that lowers the variance of log time, summed over the grid, most per second of its cost. The cost is three epochs,
/// predicted by a hybrid model of the measured rows, and a start-up of ten seconds. Every fifth row is drawn at random,
/// by the seed of `fit`: intervals are calibrated on left-out rows, and the most informative rows are not typical of
/// the grid. If the grid spans several groups (device, precision, ...), rows are counted per group; groups with fewer
/// than 8 rows are filled first. Measured rows of groups that are not in the grid are ignored.
/// @param fit  its kind has no effect: the model is a hybrid
/// @returns at most n, best first, without workloads that are already measured
/// @throws InputError as TimeRegressor::fit(), or if a workload of the grid is invalid
[[nodiscard]] PERFPRED_API std::vector<Suggestion> suggest(std::span<const AggregateRow> measured,
                                                           std::span<const Workload> grid, std::size_t n,
                                                           const FitOptions& fit = {});

}  // namespace perfpred
