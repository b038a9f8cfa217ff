// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <utility>
#include <vector>

#include "network/layers.h"

namespace perfpred {

// What layers compute that no operator of LibTorch computes alone; `layer` is of the kind that is named.

/// Whole samples are dropped, the others scaled so that the mean stays.
[[nodiscard]] at::Tensor stochastic_depth(const at::Tensor& x, double probability);

[[nodiscard]] at::Tensor shuffle_channels(const at::Tensor& x, std::int64_t groups);

[[nodiscard]] at::Tensor split_heads(const at::Tensor& x, std::int64_t heads);
[[nodiscard]] at::Tensor merge_heads(const at::Tensor& x, std::int64_t heads);

/// q, k and v are NxSxC; heads lie side by side in C.
[[nodiscard]] at::Tensor attention(const Layer& layer, const at::Tensor& q, const at::Tensor& k, const at::Tensor& v,
                                   bool training);

/// Cosine and sine of each angle: the position over a power of the base, the same for both halves of a head.
[[nodiscard]] std::pair<at::Tensor, at::Tensor> rotations(std::int64_t positions, std::int64_t width,
                                                          const at::TensorOptions& options);
[[nodiscard]] at::Tensor rotary(const Layer& layer, const at::Tensor& x, const at::Tensor& cosines,
                                const at::Tensor& sines);

/// The outputs of all positions of an rnn, in contiguous memory; cuDNN and oneDNN give them with the positions in
/// front.
[[nodiscard]] at::Tensor recurrent(const Layer& layer, const at::Tensor& x, const std::vector<at::Tensor>& weights,
                                   bool training);

// Of images NxHxWxC.
[[nodiscard]] at::Tensor pad(const Layer& layer, const at::Tensor& x);
[[nodiscard]] at::Tensor crop(const Layer& layer, const at::Tensor& x);
[[nodiscard]] at::Tensor merge_patches(const at::Tensor& x);
[[nodiscard]] at::Tensor to_windows(const Layer& layer, const at::Tensor& x);
[[nodiscard]] at::Tensor from_windows(const Layer& layer, const at::Tensor& x);

// Of images NxCxHxW.
[[nodiscard]] at::Tensor image_windows(const Layer& layer, const at::Tensor& x);
[[nodiscard]] at::Tensor windows_image(const Layer& layer, const at::Tensor& x);

/// All parts of select_heads.
[[nodiscard]] std::vector<at::Tensor> select_heads(const Layer& layer, const at::Tensor& x);

/// The buffer of relative_position: for each two positions of a window the row of their distance.
[[nodiscard]] at::Tensor distance_rows(const Layer& layer, const at::TensorOptions& integers);
[[nodiscard]] at::Tensor relative_position(const Layer& layer, const at::Tensor& scores, const at::Tensor& table,
                                           const at::Tensor& rows);

/// The buffer of window_mask.
[[nodiscard]] at::Tensor roll_mask(const Layer& layer, const at::TensorOptions& floats);
[[nodiscard]] at::Tensor window_mask(const Layer& layer, const at::Tensor& scores, const at::Tensor& mask);

}  // namespace perfpred
