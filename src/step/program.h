// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>
#include <perfpred/workload.h>

#include <cstdint>
#include <optional>

#include "network/records.h"

namespace perfpred {

/// What is trained, found by its network's name: a network of the zoo or of a config.json, one that was recorded from a
/// package, or a captured step. All that depends on which of them it is, is said here. Immutable; copies share what was
/// read.
class Program {
 public:
  /// @throws InputError as StepFile, for a captured step whose file is no longer what it was
  explicit Program(const NetworkName& network);

  /// Whether its step is known. That of a captured step is not, where no folder has its file; then only runs answer.
  [[nodiscard]] bool has_step() const { return !is_captured_ || file_; }

  /// The operators of one step: Workload::graph(). @throws InputError as that
  [[nodiscard]] OpGraph step(const Workload& training) const;

  /// Trainable parameters of a workload on one device: Workload::params(). @throws InputError as that
  [[nodiscard]] std::int64_t params(const Workload& training) const;

  /// Whether a step of several batches is known (the field `accumulate`). A captured step has its batches in it.
  [[nodiscard]] bool can_accumulate() const { return !is_captured_ && record_ == nullptr; }

  /// Whether a step of fewer samples is known: of a captured one, and of one that was recorded at some batch sizes
  /// alone, the last step of an epoch counts by its samples.
  [[nodiscard]] bool has_smaller_steps() const {
    return !is_captured_ && (record_ == nullptr || record_->batches.empty());
  }

  /// Batches whose gradients one update uses. A captured step says so itself; one whose file is not known has one.
  [[nodiscard]] std::int64_t batches(const Workload& training) const;

  /// Of a sample that is a sequence, also of a captured step whose words are known; else 0.
  [[nodiscard]] std::int64_t positions(const Workload& training) const;

  /// A workload with the precision and layout that its program itself has. @throws InputError as Program
  [[nodiscard]] static Workload set_up(Workload training);

  /// What the steps of a network rest on besides their workloads: those that were made at another number are out of
  /// date.
  [[nodiscard]] static std::uint64_t version(const NetworkName& network);

 private:
  bool is_captured_;
  std::optional<StepFile> file_;    // of a captured step
  const Record* record_ = nullptr;  // of a recorded network
};

}  // namespace perfpred
