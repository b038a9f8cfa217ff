// SPDX-License-Identifier: Apache-2.0
#include "step/step_growth.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "step/op_rules.h"

namespace perfpred {

/// Compares the steps of two batch sizes.
class StepGrowth::Finder {
 public:
  Finder(const OpGraph& step, std::int64_t batch, const OpGraph& other, std::int64_t other_batch)
      : step_(step), other_(other), batch_(batch), other_batch_(other_batch) {}

  [[nodiscard]] std::optional<StepGrowth> found() {
    if (batch_ == other_batch_ || !are_alike()) return std::nullopt;
    if (!find_axes() || !find_memory() || !find_counts()) return std::nullopt;
    const double exact = max_exact / std::max(1.0, most_of_sample_);
    growth_.largest_ = static_cast<std::int64_t>(std::min(exact, max_grown_bytes / std::max({1.0, held_, moved_})));
    return std::move(growth_);
  }

 private:
  static constexpr double max_exact = 0x1p52;  // halves below are exact, too
  /// That follow the batch; a step as it is written may hold and move several times what is executed.
  static constexpr double max_grown_bytes = max_step_bytes / 16;

  [[nodiscard]] bool are_alike() const {
    const auto of_op = [](const Op& op) {
      return std::tuple(op.kind, op.phase, op.type, op.layer, op.name, op.transposed, op.dispatched, op.input_count_,
                        op.output_count_);
    };
    const auto of_tensor = [](const Tensor& tensor) {
      return std::tuple(tensor.shape, tensor.type, tensor.role, tensor.storage);
    };
    const auto whole = [](const OpGraph& step) {
      return std::tie(step.layout_, step.repeats_, step.frees_, step.operands_, step.layer_names_, step.op_names_);
    };
    return whole(step_) == whole(other_) && std::ranges::equal(step_.ops_, other_.ops_, {}, of_op, of_op) &&
           std::ranges::equal(step_.tensors_, other_.tensors_, {}, of_tensor, of_tensor) &&
           step_.shapes_.size() == other_.shapes_.size();
  }

  /// What a sample adds to a size that is in proportion to the batch; 0 for a constant, nothing for another.
  template <class Number>
  std::optional<Number> of_sample(Number size, Number of_other) {
    if (size == of_other) return 0;
    const auto batch = static_cast<Number>(batch_), other_batch = static_cast<Number>(other_batch_);
    const Number share = size / batch;
    if (share * batch != size || share * other_batch != of_other) return std::nullopt;
    note(static_cast<double>(share));
    return share;
  }

  std::optional<Bytes> bytes(std::int64_t size, std::int64_t of_other) {
    const std::int64_t added = of_other - size, samples = other_batch_ - batch_;
    if (added % samples != 0) return std::nullopt;
    const Bytes bytes{size - added / samples * batch_, added / samples};
    note(static_cast<double>(std::max(bytes.fixed, std::int64_t{0}) + bytes.of_sample));
    return bytes;
  }

  void note(double share) { most_of_sample_ = std::max(most_of_sample_, share); }

  bool find_axes() {
    for (std::uint32_t i = 0; i < step_.shapes_.size(); ++i) {
      const Shape &shape = step_.shapes_[i], &other = other_.shapes_[i];
      if (shape.rank() != other.rank()) return false;
      for (std::uint32_t axis = 0; axis < shape.rank(); ++axis) {
        const auto share = of_sample(shape[axis], other[axis]);
        if (!share) return false;
        if (*share != 0) growth_.axes_.push_back({i, axis, *share});
      }
    }
    return true;
  }

  bool find_memory() {
    for (TensorId id = 0; id < step_.tensors_.size(); ++id) {
      const Tensor& tensor = step_.tensors_[id];
      const auto share = of_sample(tensor.bytes, other_.tensors_[id].bytes);
      if (!share) return false;
      if (*share == 0) continue;
      growth_.memory_.push_back({id, *share});
      held_ += static_cast<double>(*share);
    }
    return true;
  }

  bool find_counts() {
    for (std::uint32_t i = 0; i < step_.ops_.size(); ++i) {
      const Op &op = step_.ops_[i], &other = other_.ops_[i];
      const auto flops = of_sample(op.flops, other.flops), cell_flops = of_sample(op.cell_flops, other.cell_flops);
      const auto read = bytes(op.bytes_read, other.bytes_read), written = bytes(op.bytes_written, other.bytes_written);
      if (!flops || !cell_flops || !read || !written) return false;
      const bool grows = *flops != 0 || *cell_flops != 0 || read->of_sample != 0 || written->of_sample != 0;
      if (!grows) continue;
      growth_.counts_.push_back({i, *flops, *cell_flops, *read, *written});
      moved_ += static_cast<double>(step_.times(op)) * static_cast<double>(read->of_sample + written->of_sample);
    }
    return true;
  }

  const OpGraph &step_, &other_;
  std::int64_t batch_, other_batch_;
  StepGrowth growth_;
  double most_of_sample_ = 0, held_ = 0, moved_ = 0;  // held and moved: bytes of a sample
};

std::optional<StepGrowth> StepGrowth::between(const ExecutedStep& step, std::int64_t batch, const ExecutedStep& other,
                                              std::int64_t other_batch) {
  if (step.device() != other.device()) return std::nullopt;
  return Finder(step.graph(), batch, other.graph(), other_batch).found();
}

void StepGrowth::resize(ExecutedStep& step, std::int64_t batch) const {
  OpGraph& graph = step.graph_;
  for (const Axis& axis : axes_) {
    Shape& shape = graph.shapes_[axis.shape];
    shape = shape.with(axis.axis, axis.of_sample * batch);
  }
  for (const Memory& memory : memory_) graph.tensors_[memory.tensor].bytes = memory.of_sample * batch;
  for (const Counts& counts : counts_) {
    Op& op = graph.ops_[counts.op];
    if (counts.flops != 0) op.flops = counts.flops * static_cast<double>(batch);
    if (counts.cell_flops != 0) op.cell_flops = counts.cell_flops * static_cast<double>(batch);
    op.bytes_read = counts.read.at(batch);
    op.bytes_written = counts.written.at(batch);
  }
}

}  // namespace perfpred
