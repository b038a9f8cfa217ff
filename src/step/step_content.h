// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/error.h>
#include <perfpred/op_graph.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace perfpred {

/// Sizes of a tensor's axes, or its strides, at the batch size of the file, and what each grows by with a sample.
struct StepAxes {
  std::vector<std::int64_t> values, growth;  // growth is empty where nothing grows

  [[nodiscard]] std::vector<std::int64_t> after(std::int64_t samples) const {
    std::vector<std::int64_t> grown = values;
    for (std::size_t axis = 0; axis < growth.size(); ++axis) {
      std::int64_t added = 0;
      if (__builtin_mul_overflow(growth[axis], samples, &added) ||
          __builtin_add_overflow(grown[axis], added, &grown[axis]) || grown[axis] > Shape::max_numel) {
        throw InputError("a tensor is too large for any device");
      }
      if (grown[axis] < 0) throw InputError("the batch is too small for the captured step");
    }
    return grown;
  }
};

struct StepTensor {
  StepAxes sizes, strides;
  DataType type = DataType::f32;
  TensorRole role = TensorRole::activation;
  std::uint32_t storage = 0;
};

/// A number at the batch size of the file, and what it grows by with a sample.
struct StepCount {
  double value = 0, growth = 0;
};

struct StepOp {
  std::string name;       // without namespace and the underscore of in-place forms if it is LibTorch's
  std::string full_name;  // as it stands in the file
  OpKind kind = OpKind::unknown;
  Phase phase = Phase::forward;
  std::int32_t layer = -1;
  std::vector<std::uint32_t> inputs, outputs;  // indices of tensors; no_tensor among the outputs
  std::vector<std::uint32_t> frees;            // indices of storages
  bool free = false, transposed = false, causal = false;
  bool lists = false;  // one launch for lists of tensors
  std::optional<StepCount> flops, bytes;
};

/// A step that was captured, as a file says it: at one batch size or, by what grows with a sample, at all.
struct StepContent {
  std::string path;  ///< names it in messages
  std::int64_t batch_size = 0, batches = 1, accumulate = 1;
  std::optional<std::int64_t> other_batch_size;
  Precision precision = Precision::unknown;
  Layout layout = Layout::nchw;
  bool compiled = false;
  std::vector<std::string> layers, notes;
  std::vector<std::int64_t> storages;  ///< bytes at batch_size
  std::vector<StepTensor> tensors;
  std::vector<StepOp> ops;

  /// The step at a batch size. @throws InputError as StepFile::graph(), and for what does not fit together
  [[nodiscard]] OpGraph graph(std::int64_t batch) const;
  /// The same. @param ids  set to what the graph calls each of `tensors`
  [[nodiscard]] OpGraph graph(std::int64_t batch, std::vector<TensorId>& ids) const;

  /// That of most bytes of the images of several channels and pixels that convolutions read. Depthwise ones have
  /// kernels for either layout.
  [[nodiscard]] Layout layout_of_images() const;
};

/// Bytes between a tensor's first element and the end of its last, at the batch size of the file.
[[nodiscard]] double extent_of(const StepTensor& tensor);

}  // namespace perfpred
