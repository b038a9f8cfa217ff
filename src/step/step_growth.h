// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/executed_step.h>

#include <cstdint>
#include <optional>
#include <vector>

namespace perfpred {

/// How a step grows with its batch: sizes of tensors and FLOPs of operators are constant or in proportion to it, bytes
/// that an operator moves are a constant and so many for each sample.
class StepGrowth {
 public:
  /// @param batch, other_batch  two sizes, each of one of the steps
  /// @returns nothing if the steps differ in more than that
  [[nodiscard]] static std::optional<StepGrowth> between(const ExecutedStep& step, std::int64_t batch,
                                                         const ExecutedStep& other, std::int64_t other_batch);

  /// The largest batch whose counts are exact: integers that a double holds, or halves.
  [[nodiscard]] std::int64_t largest() const { return largest_; }

  /// Gives one of the steps between which this was found another size, up to largest().
  void resize(ExecutedStep& step, std::int64_t batch) const;

  /// Gives a step of several batches another number of them, at least 2.
  static void repeat(ExecutedStep& step, std::int64_t batches) { step.graph_.set_repeats(batches); }

  friend bool operator==(const StepGrowth&, const StepGrowth&) = default;

 private:
  class Finder;

  struct Axis {
    std::uint32_t shape, axis;
    std::int64_t of_sample;
    friend bool operator==(const Axis&, const Axis&) = default;
  };
  struct Memory {
    TensorId tensor;
    std::int64_t of_sample;
    friend bool operator==(const Memory&, const Memory&) = default;
  };
  struct Bytes {
    std::int64_t fixed, of_sample;
    [[nodiscard]] std::int64_t at(std::int64_t batch) const { return fixed + of_sample * batch; }
    friend bool operator==(const Bytes&, const Bytes&) = default;
  };
  struct Counts {
    std::uint32_t op;
    double flops, cell_flops;  // of a sample; 0: constant
    Bytes read, written;
    friend bool operator==(const Counts&, const Counts&) = default;
  };

  std::vector<Axis> axes_;
  std::vector<Memory> memory_;
  std::vector<Counts> counts_;
  std::int64_t largest_ = 0;
};

}  // namespace perfpred
