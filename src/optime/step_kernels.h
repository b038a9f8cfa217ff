// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/executed_step.h>

#include <cstdint>
#include <vector>

#include "step/op_traits.h"

namespace perfpred {

/// A kernel of a step. A convolution's backward is two, a recurrent network some for each layer and direction.
struct StepKernel {
  StepGroup group = StepGroup::other;
  OpKind kind = OpKind::unknown;  ///< of the operator that it is a part of
  DataType type = DataType::f32;  ///< of what it multiplies, else of what it reads first
  bool backward = false;          ///< of the backward pass or the update
  bool dispatched = true;         ///< the host dispatches an operator here, rather than in the kernel before
  bool three_by_three = false;    ///< 3x3, stride 1, one group: Winograd's algorithm computes it with fewer products
  bool grouped = false;
  bool channels_last = false;  ///< a convolution whose images lie so
  // Whether what lies side by side in memory, and whether width and depth, fill the matrix units' rows of 8.
  bool aligned = true, sizes_aligned = true;
  std::uint32_t op = 0;       ///< index into OpGraph::ops()
  std::uint32_t same_as = 0;  ///< after find_repeats(): index of the first kernel of the step that takes as long
  double flops = 0, bytes = 0;
  double depth = 1, width = 1;  ///< of the product: terms of a sum, columns of the result
  double batch = 1, rows = 1;   ///< of the product: how many, rows of the result
  double calls = 1;             ///< each waits for the one before; flops and bytes are of all
  double transposed = 0;        ///< bytes that copying a convolution's images to channels-last memory and back moves
  double reread = 0;            ///< of these bytes: those that each call reads again, from the cache if they fit it
  double fourier_flops = 0;     ///< of a 3x3 convolution by Fourier transforms of tiles, and the bytes that it moves
  double fourier_bytes = 0;
  // The largest input that an operator of the step made: its bytes, and those that the step has moved since, its own
  // among them. As much of it as the cache still holds is not read from memory.
  double near_bytes = 0, near_distance = 0;
  double channels = 0;     ///< that one thread block each goes through on a GPU; 0: the kernel fills the device
  double numbers = 0;      ///< that such a block reads and writes
  bool by_library = true;  ///< by cuDNN's batch norm rather than PyTorch's
};

/// In the order of execution.
[[nodiscard]] std::vector<StepKernel> step_kernels(const ExecutedStep& step);

/// Sets `same_as`: networks repeat their blocks, and a fit computes the time of each kernel many times.
void find_repeats(std::vector<StepKernel>& kernels);

}  // namespace perfpred
