// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/torch/image_data.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

namespace perfpred {

/// @throws InputError unless there is an image of this index and room for just its values
void check_read(std::int64_t index, std::int64_t size, std::span<const float> out,
                const std::vector<std::int64_t>& shape);

/// The last `validation` images of `training` become the validation part; the others are varied while training. Parts
/// without images are null.
[[nodiscard]] ImageData split_images(std::string name, const ImageSet& training, std::int64_t validation,
                                     const ImageSet& test, const std::vector<std::int64_t>& shape, std::int64_t classes,
                                     const Augmentation& augmentation);

}  // namespace perfpred
