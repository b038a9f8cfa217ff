// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/forecast.h>
#include <perfpred/time_regressor.h>
#include <perfpred/workload.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// What the first of the ranked layouts has least of. With one price of a device, price is time.
enum class LayoutOrder { time, price, memory };

/// `time`, `price` or `memory`. @throws InputError for another text
[[nodiscard]] PERFPRED_API LayoutOrder parse_layout_order(std::string_view text);

/// Over which layouts a training is to be spread.
struct LayoutSearch {
  std::int64_t gpus = 0;  ///< devices, >= 2; eight on a node
  std::size_t top = 20;   ///< ranked layouts that are wanted, >= 1
  LayoutOrder by = LayoutOrder::time;
  std::optional<double> price_per_hour = {};                  ///< of each device, >= 0
  double time_sec = std::numeric_limits<double>::infinity();  ///< wall time of the search
};

/// One way to spread a training over devices.
struct RankedLayout {
  Workload workload;  ///< with parallel, gpus_per_node, batch_size (a micro-batch), accumulate and checkpoint
  Quantiles step_sec;
  Quantiles tokens_per_sec;  ///< of all devices
  Scaling scaling;
  MemoryEstimate memory;  ///< of the fullest rank
  MemoryVerdict verdict = MemoryVerdict::does_not_fit;
  std::optional<double> price;  ///< of a step
};

/// Layouts in their order: those that fit, or may, first.
struct Layouts {
  std::int64_t space = 0;  ///< layouts that divide the network, the devices and the batch
  std::int64_t fit = 0;    ///< of these, those whose verdict is `fits`
  std::vector<RankedLayout> layouts;
  std::vector<std::string> left_out;  ///< what the space does not hold, a line each
};

/// Ranks the layouts of a transformer's training by what the model expects: ddp, zero1, zero2 and fsdp, and
/// tp (up to a node, with sp) x pp x vp x ep with ddp or zero1, each with micro-batches of all powers of two that
/// divide a replica's share, without recomputation, with that of attention (selective), and of all blocks.
/// @param job  its batch_size is that of an update, over all devices
/// @throws InputError for a network that is no transformer of words, a device whose memory is not known, and a batch or
/// number of devices that no layout divides; Error if the search takes longer than LayoutSearch::time_sec
[[nodiscard]] PERFPRED_API Layouts rank_layouts(const TimeRegressor& model, const Workload& job,
                                                const LayoutSearch& search);

/// The document of `perfpred-layouts --json` (docs/predict.md).
[[nodiscard]] PERFPRED_API std::string json_text(const Layouts& layouts);

}  // namespace perfpred
