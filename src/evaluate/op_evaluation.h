// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "optime/op_rows.h"

namespace perfpred {

/// Absolute relative errors, |predicted / measured - 1|, and whether the 90 % interval held the measurement.
struct ErrorSample {
  std::vector<double> errors;
  std::size_t covered = 0;

  void add(double measured, double predicted, double half_width);
  [[nodiscard]] std::size_t size() const { return errors.size(); }
  [[nodiscard]] std::optional<double> mean() const;
  [[nodiscard]] std::optional<double> middle() const;  ///< median
  [[nodiscard]] std::optional<double> coverage() const;
};

struct ScoredNetwork {
  EndToEndRow row;  ///< without its parts
  double predicted_sec;
};

/// Errors of an op model on rows that it was not fitted on.
struct OpEvaluation {
  std::map<std::string, std::map<std::string, ErrorSample>> ops;    ///< by GPU, by the rows' operator
  std::map<std::string, std::map<std::string, ErrorSample>> kinds;  ///< by class, by GPU
  ErrorSample end_to_end;
  std::vector<ScoredNetwork> networks;
  std::vector<std::string> notes;
};

/// Is told how many of the parts of a long evaluation are done.
using PartsDone = std::function<void(std::size_t done, std::size_t all)>;

/// Fits on all rows of one folder and scores those of another.
[[nodiscard]] OpEvaluation evaluate_op_test(const OpFolder& train, const OpFolder& test);

/// Fits on the rows of split `train` and scores those of split `test`; classes without such a split by five folds.
/// `kinds` holds the devices that have rows to learn from.
[[nodiscard]] OpEvaluation evaluate_ops_seen(const OpFolder& folder);

/// Leaves each device out in turn and scores its rows of split `test`; of a class without that split, all rows.
/// @param probe_rows  of each class, drawn at random from those to be scored: learned from, and not scored
/// @throws InputError if there are rows of one device only
[[nodiscard]] OpEvaluation evaluate_ops_by_device(const OpFolder& folder, std::size_t probe_rows, std::uint64_t seed,
                                                  const PartsDone& progress = {});

}  // namespace perfpred
