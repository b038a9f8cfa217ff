// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "optime/layers/layer_sampler.h"
#include "torch/layers/layer_timer.h"

namespace perfpred {

struct LayerBenchResult {
  std::size_t found = 0;  ///< layers that the file held already
  std::size_t done = 0, oom = 0, failed = 0, untrusted = 0;
  std::vector<LayerRow> rows;
};

/// `count` layers of each type, as LayerSampler draws them. A type's layers do not depend on the other types.
/// @throws InputError for a type that is not known or named twice, a range of a type that is not drawn, no layer at
/// all, or as LayerSampler
[[nodiscard]] std::vector<LayerCase> draw_layers(const std::vector<std::string>& types, std::size_t count,
                                                 const SamplerOptions& options);

/// Times layers one after the other and records each row as it ends; layers that the file holds are not timed again.
/// @param progress  called after every row with the number of rows, and of layers in all
/// @throws InputError for a device that is not there or a file that holds another table, Error if the disk refuses
[[nodiscard]] LayerBenchResult bench_layers(
    std::span<const LayerCase> layers, const std::string& device, const LayerTiming& timing, const std::string& out,
    const std::function<void(std::size_t, std::size_t, const LayerRow&)>& progress, const std::function<bool()>& stop);

[[nodiscard]] std::string layer_row_json(const LayerRow& row);  ///< an object with the columns of the table

}  // namespace perfpred
