// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "catalogue/links.h"
#include "torch/distributed/ranks.h"

namespace perfpred {

/// All-reduces of one size, fp32.
struct SizeMeasurement {
  std::int64_t bytes = 0;
  double sec = 0;             ///< median
  double beside_sec = 0;      ///< median, while each device computes matrix products
  double product_factor = 0;  ///< time of such a product beside the all-reduce / alone
};

/// All-reduces of a group of ranks.
struct LinkMeasurement {
  Link link;                           ///< by the largest size, alone; its latency is the time of the smallest one
  std::vector<SizeMeasurement> sizes;  ///< 4 bytes, 1 MiB and 25 MiB: the buckets of DistributedDataParallel
};

/// Bus bandwidth of an all-reduce as nccl-tests defines it, 10^9 bytes a second.
[[nodiscard]] double bus_gb_s(std::int64_t bytes, double sec, std::int64_t ranks);

/// Rank 0 measures the links of the first 2, 4, 8, ... ranks, and of all of them, with the others. Some seconds each.
/// @param device  as of CollectOptions
/// @param stop    asked before each group
/// @throws RankLost; InputError and DeviceError as runtime_device()
[[nodiscard]] std::vector<LinkMeasurement> probe_links(Ranks& ranks, const std::string& device,
                                                       const std::string& cluster, const std::function<bool()>& stop);

/// What another rank does meanwhile. @throws as probe_links()
void follow_link_probe(Ranks& ranks, const std::string& device);

}  // namespace perfpred
