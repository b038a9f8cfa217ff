// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/parallel_layout.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace perfpred {

/// A measured step of data-parallel training: each device has the whole network and batches of its own; the gradients
/// are summed by an all-reduce.
struct ScalingRow {
  std::size_t line = 0;  ///< of the table; the header is line 1
  std::string cluster, gpu, network, precision;
  Placement placement;
  std::int64_t local_batch = 0;  ///< samples of a device in one batch, >= 1
  std::int64_t accumulate = 1;   ///< batches whose gradients one update uses, >= 1
  double gradient_bytes = 0;     ///< that one all-reduce sums, > 0
  double step_sec = 0;           ///< of an update, > 0
  double one_device_sec = 0;     ///< of all its batches on one device, where a model says it; 0: rows say it

  bool is_given = false;   ///< handed over to be learnt from, never scored
  bool is_scored = true;   ///< else the table says that it is wrong or unsure
  std::int64_t probe = 0;  ///< the place in the order in which rows of a group are revealed, from 1; 0: it is not

  [[nodiscard]] std::int64_t devices() const { return placement.devices(); }
};

/// A table with the columns cluster, gpu, network, precision, grad_bytes, gpus_per_node, local_batch, step_ms and,
/// where there are any, accum, use (0: not scored), part (`given`) and probe.
/// @throws InputError with file and line
[[nodiscard]] std::vector<ScalingRow> read_scaling_rows(const std::string& path);

}  // namespace perfpred
