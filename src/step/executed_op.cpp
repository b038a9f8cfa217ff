// SPDX-License-Identifier: Apache-2.0
#include "step/executed_op.h"

#include <perfpred/error.h>

#include <array>

#include "step/op_traits.h"

namespace perfpred {

Shape Strided::stored() const {
  if (sizes.size() > Shape::max_rank) return Shape({numel()});
  std::array<std::int64_t, Shape::max_rank> stored{};
  for (std::size_t axis = 0; axis < sizes.size(); ++axis) {
    stored[axis] = strides[axis] == 0 && sizes[axis] > 1 ? 1 : sizes[axis];
  }
  return Shape(std::span<const std::int64_t>(stored.data(), sizes.size()));
}

std::int64_t Strided::numel() const {
  const std::int64_t elements = Shape::product(sizes);
  if (elements > Shape::max_numel) throw InputError("a tensor is too large for any device");
  return elements;
}

double repetitions(OpKind kind, std::span<const Strided> inputs, std::span<const Strided> outputs, bool transposed) {
  const auto ratio = [](std::int64_t whole, std::int64_t stored) {
    return stored > 0 ? static_cast<double>(whole) / static_cast<double>(stored) : 1;
  };
  const OpFamily family = traits_of(kind).family;
  if (family == OpFamily::convolution) {
    const bool backward = kind == OpKind::convolution_backward;
    if (!backward && !transposed) return 1;
    const Strided& counted = inputs[backward && transposed ? 1 : 0];
    return ratio(counted.numel(), counted.stored().numel());
  }
  if (family != OpFamily::matrix_product) return 1;
  const Strided& left = inputs[kind == OpKind::mm || kind == OpKind::bmm ? 0 : 1];
  const Shape stored = left.stored();
  const bool summed = outputs[0].sizes.size() < left.sizes.size();  // addbmm
  return ratio(left.sizes.back(), stored.back()) * (summed ? ratio(left.sizes[0], stored[0]) : 1);
}

}  // namespace perfpred
