// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/aggregator.h>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <stop_token>
#include <string>
#include <vector>

namespace perfpred {

/// Random folds, or leave-one-group-out by architecture (network, depth and base_filters), depth, width, network.
enum class Protocol { kfold, loao, lodo, lowo, lono };

struct ProtocolOptions {
  int folds = 5;     ///< of kfold
  int repeats = 20;  ///< of kfold
  int own_rows = 0;  ///< of lono: workloads of the network that are fitted on and not scored, drawn by the seed
  std::uint64_t seed = 0;
  int threads = 0;  ///< 0: one for each usable CPU; the results do not depend on it
  std::stop_token stop{};
  std::function<void(std::size_t done, std::size_t all)> progress{};  ///< called from any thread, one at a time
};

/// What a protocol fits on and scores, as indices in the table.
struct Fold {
  std::string left_out;
  int repeat = 0;
  std::vector<std::size_t> train, test;
};

/// @throws InputError if the rows do not make two folds
[[nodiscard]] std::vector<Fold> make_folds(std::span<const AggregateRow> rows, Protocol protocol,
                                           const ProtocolOptions& options);

/// parallel_for() of statistics/parallel.h with the threads, stop token and progress of the options.
/// @throws Error if stopped; the first exception of a task
void parallel_for(std::size_t count, const ProtocolOptions& options, const std::function<void(std::size_t)>& task);

/// Indices of the rows of each workload, in the order in which workloads first appear. Rows of one workload that differ
/// in env belong to the same side of every split: a model pools them.
[[nodiscard]] std::vector<std::vector<std::size_t>> rows_by_workload(std::span<const AggregateRow> rows);

/// The indices of all groups, one group behind the other.
[[nodiscard]] std::vector<std::size_t> flatten(std::span<const std::vector<std::size_t>> groups);

/// The indices below `count` that are not among these.
[[nodiscard]] std::vector<std::size_t> all_but(const std::vector<std::size_t>& indices, std::size_t count);

[[nodiscard]] std::vector<AggregateRow> pick(std::span<const AggregateRow> rows,
                                             const std::vector<std::size_t>& indices);

}  // namespace perfpred
