// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <perfpred/step_samples.h>

#include <cstdint>
#include <functional>
#include <optional>

#include "optime/layers/layer_rows.h"

namespace perfpred {

/// How layers are timed.
struct LayerTiming {
  int warmup = 10;                    ///< steps before the first sample; at least one for each copy of the layer
  int repetitions = 1;                ///< samplings of a layer; the row holds the one with the middle median
  std::optional<std::int64_t> steps;  ///< of a sampling; without: until the median is known to 1 %
  double limit_sec = 0;               ///< of a sampling; 0: 1 s on a CPU, 0.3 s on a GPU
  double copied_bytes = 256e6;        ///< of the copies that take turns, in all: more than caches hold
  std::uint64_t seed = 0;             ///< of weights and inputs
};

/// Times a layer on a device: whole steps by StepTimer, its parts by marks between them. A layer that does not fit the
/// memory is the outcome `oom`; on a CPU it is not tried where the machine has too little left, since the kernel would
/// end the process rather than refuse.
/// @param stop  asked after every step; nothing is returned once it says true
/// @throws InputError for sizes that do not fit each other, DeviceError if the device stopped answering
[[nodiscard]] std::optional<LayerRow> time_layer(const LayerCase& layer, c10::Device device, const LayerTiming& timing,
                                                 const std::function<bool()>& stop);

}  // namespace perfpred
