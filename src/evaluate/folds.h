// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/evaluation.h>

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// What a protocol fits on and scores, as places in the table.
struct Fold {
  std::string left_out;
  int repeat = 0;
  std::vector<std::size_t> train, test;
};

/// @throws InputError if the rows do not make two folds
[[nodiscard]] PERFPRED_API std::vector<Fold> make_folds(std::span<const AggregateRow> rows, Protocol protocol,
                                                        const ProtocolOptions& options);

/// Runs tasks 0..count-1 on several threads; the first exception is thrown again here.
PERFPRED_API void parallel_for(std::size_t count, const ProtocolOptions& options,
                               const std::function<void(std::size_t)>& task);

[[nodiscard]] PERFPRED_API std::vector<AggregateRow> pick(std::span<const AggregateRow> rows,
                                                          const std::vector<std::size_t>& places);

}  // namespace perfpred
