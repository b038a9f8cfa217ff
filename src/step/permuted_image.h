// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/op_graph.h>

namespace perfpred {

/// Whether an image is a view of a tensor that ends in the channels: channels-last memory without a copy.
[[nodiscard]] inline bool is_permuted_image(const OpGraph& step, TensorId image) {
  const TensorId storage = step.tensors()[image].storage;
  if (storage == image || step.shape(storage).rank() == 0) return false;
  return step.shape(storage) != step.shape(image) && step.shape(storage).back() == step.shape(image)[1];
}

}  // namespace perfpred
