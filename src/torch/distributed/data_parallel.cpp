// SPDX-License-Identifier: Apache-2.0
#include "torch/distributed/data_parallel.h"

#include <ATen/core/grad_mode.h>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include <algorithm>
#include <limits>
#include <tuple>
#include <utility>

namespace perfpred {
namespace {

constexpr std::size_t broadcast_bytes = std::size_t{250} << 20;  // broadcast_bucket_size of DistributedDataParallel

}  // namespace

struct DataParallel::Impl {
  void broadcast(const std::vector<at::Tensor>& tensors) const {
    if (tensors.empty()) return;
    const at::NoGradGuard no_grad;
    c10d::broadcast_coalesced(group, tensors, broadcast_bytes, 0);
  }

  c10::intrusive_ptr<c10d::ProcessGroup> group;
  std::vector<at::Tensor> buffers;
  std::unique_ptr<c10d::Reducer> reducer;
  bool averaged_last = true;  // in the pass before: only then are buffers broadcast
};

DataParallel::DataParallel(RankGroup& ranks, std::vector<at::Tensor> parameters, std::vector<at::Tensor> buffers)
    : impl_(std::make_unique<Impl>()) {
  guard_ranks([&] {
    impl_->group = c10::intrusive_ptr<c10d::ProcessGroup>::reclaim_copy(&ranks.process_group());
    impl_->buffers = std::move(buffers);
    std::vector<at::Tensor> state;
    for (const at::Tensor& parameter : parameters) state.push_back(parameter.detach());
    state.insert(state.end(), impl_->buffers.begin(), impl_->buffers.end());
    impl_->broadcast(state);
    const std::size_t no_limit = std::numeric_limits<std::int64_t>::max();  // sys.maxsize
    auto buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, {no_limit}));
    std::reverse(buckets.begin(), buckets.end());
    std::vector<bool> sparse(parameters.size(), false);
    impl_->reducer = std::make_unique<c10d::Reducer>(
        std::move(parameters), std::move(buckets), impl_->group, std::move(sparse), c10d::kDefaultBucketBytesCap,
        /*find_unused_parameters=*/false, /*gradient_as_bucket_view=*/false,
        /*param_names=*/std::unordered_map<std::size_t, std::string>(), c10d::kDefaultFirstBucketBytes,
        /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false,
        /*bucket_bytes_cap_list=*/std::vector<std::int64_t>());
  });
}

DataParallel::~DataParallel() = default;

void DataParallel::begin_forward(bool averages) {
  guard_ranks([&] {
    if (averages) impl_->reducer->prepare_for_forward();
    impl_->reducer->rebuild_buckets();
    if (impl_->averaged_last) impl_->broadcast(impl_->buffers);
    impl_->averaged_last = averages;
  });
}

void DataParallel::begin_backward(bool averages) {
  if (averages) guard_ranks([&] { impl_->reducer->prepare_for_backward({}); });
}

std::vector<std::vector<at::Tensor>> DataParallel::buckets() const {
  std::vector<std::vector<at::Tensor>> buckets;
  for (const c10d::GradBucket& bucket : impl_->reducer->get_grad_buckets()) buckets.push_back(bucket.getParameters());
  return buckets;
}

}  // namespace perfpred
