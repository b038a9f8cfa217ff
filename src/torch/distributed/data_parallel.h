// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>

#include <memory>
#include <vector>

#include "torch/distributed/rank_group.h"

namespace perfpred {

/// What torch.nn.parallel.DistributedDataParallel does around a network, with its defaults and LibTorch's own reducer:
/// rank 0's parameters and buffers for all; gradients averaged over the ranks in buckets of 1 MiB, then 25 MiB, in the
/// order in which they appear in the second backward pass (in the first they are one bucket), while the backward pass
/// goes on; rank 0's buffers in each forward pass.
class DataParallel {
 public:
  /// @param parameters  those that learn, in the order of the network
  /// @throws RankLost, as all of this
  DataParallel(RankGroup& ranks, std::vector<at::Tensor> parameters, std::vector<at::Tensor> buffers);
  ~DataParallel();
  DataParallel(const DataParallel&) = delete;
  DataParallel& operator=(const DataParallel&) = delete;

  /// @param averages  whether this pass's gradients are averaged, with those summed up before; else they stay where
  ///                  they are, as under DistributedDataParallel.no_sync()
  void begin_forward(bool averages);
  void begin_backward(bool averages);

  /// The parameters of each bucket, in the order in which buckets are averaged.
  [[nodiscard]] std::vector<std::vector<at::Tensor>> buckets() const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace perfpred
