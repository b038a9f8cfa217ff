// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <perfpred/export.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace perfpred {

/// Where a job's devices are: how many on each node.
struct PERFPRED_API Placement {
  std::vector<std::int64_t> nodes;  ///< devices on each node, >= 1; empty: one device

  /// `8`: one node; `1+3`: two nodes; `8x32`: 32 nodes of 8; also `8x2+4`. @throws InputError for another text, and for
  /// more than 2^20 nodes or 2^12 devices on one
  [[nodiscard]] static Placement parse(std::string_view text);
  [[nodiscard]] std::string text() const;  ///< canonical: neighbours of the same size are joined, `8x32`
  [[nodiscard]] std::int64_t devices() const;
  [[nodiscard]] std::int64_t node_count() const { return nodes.empty() ? 1 : std::int64_t(nodes.size()); }
  [[nodiscard]] std::int64_t fullest() const;  ///< devices of the node that has the most

  friend bool operator==(const Placement&, const Placement&) = default;
};

/// What the replicas of data parallelism share in place of copies, as ZeRO names its stages (Rajbhandari et al. 2020).
enum class Sharding : std::uint8_t {
  none,   ///< `ddp`: each has all
  zero1,  ///< the optimizer's state
  zero2,  ///< and gradients
  zero3,  ///< and parameters
  fsdp    ///< PyTorch's form of zero3
};
[[nodiscard]] PERFPRED_API std::string_view to_string(Sharding sharding);

/// How a training is spread over devices, in the terms of Megatron-LM. Every number is at least 1; a world has
/// tp * pp * cp * dp devices.
struct PERFPRED_API ParallelLayout {
  Sharding sharding = Sharding::none;
  std::int64_t tp = 1;  ///< tensor parallelism: devices that share each matrix
  std::int64_t pp = 1;  ///< pipeline stages
  std::int64_t dp = 0;  ///< replicas; 0: what the placement leaves
  std::int64_t cp = 1;  ///< context parallelism: devices that share each sequence
  std::int64_t ep =
      1;  ///< expert parallelism: devices that share a layer's experts; they are also counted in tp, cp, dp
  std::int64_t etp = 1;  ///< devices that share each expert's matrices
  std::int64_t vp = 1;   ///< chunks of layers on each pipeline stage, which are interleaved
  bool sp = false;       ///< sequence parallelism: what tp does not share is shared by words; nothing without tp
  bool full = false;     ///< each device gathers all parameters to load or to save them, as PyTorch's FULL_STATE_DICT
                         ///< without offload; only where replicas of a whole network share them (zero3, fsdp)

  /// `ddp`, `fsdp`, `zero1`, `zero2`, `zero3`, or `tp=2,pp=4,dp=8,cp=,ep=,etp=,vp=,sp=0|1` in any order, where what is
  /// left out is 1 (sp 0, dp what the placement leaves); `fsdp` and `zero*` may be joined to it: `zero1+tp=2,pp=4`,
  /// `fsdp+full=1`.
  /// @throws InputError for another text, for chunks (vp) without a pipeline, and for full of what is not shared
  [[nodiscard]] static ParallelLayout parse(std::string_view text);
  /// Canonical: `zero1+tp=2,pp=4`, in the order of the fields and without what is 1 or not stated.
  [[nodiscard]] std::string text() const;

  /// Devices of the world; with one replica if dp is not stated.
  [[nodiscard]] std::int64_t devices() const;
  /// The same with dp. @throws InputError if the devices of the placement are not those of the layout, or its experts
  /// do not divide them; the message says which number would
  [[nodiscard]] ParallelLayout on(const Placement& placement) const;

  friend bool operator==(const ParallelLayout&, const ParallelLayout&) = default;
};

}  // namespace perfpred
