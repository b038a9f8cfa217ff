// SPDX-License-Identifier: Apache-2.0
#include "torch/train/cuda_graph.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include "torch/measure/step_clock.h"

namespace perfpred {

struct CudaGraph::Impl {
  at::cuda::CUDAGraph graph;
};

CudaGraph::CudaGraph(c10::Device device)
    : device_(device),
      stream_(c10::impl::VirtualGuardImpl(device.type()).getNewStream(device)),
      impl_(std::make_unique<Impl>()) {}

CudaGraph::~CudaGraph() = default;

void CudaGraph::run(const std::function<void()>& work) {
  const c10::Stream outer = c10::impl::VirtualGuardImpl(device_.type()).getStream(device_);
  c10::Event before(device_.type());
  before.record(outer);
  before.block(stream_);
  {
    const c10::StreamGuard guard(stream_);
    work();
  }
  c10::Event after(device_.type());
  after.record(stream_);
  after.block(outer);
}

void CudaGraph::capture(const std::function<void()>& work) {
  synchronize(device_);
  at::accelerator::emptyCache();  // the graph's own pool cannot use what lies there, and nothing is freed during a
                                  // capture
  const c10::StreamGuard guard(stream_);
  const auto pool = at::cuda::graph_pool_handle();
  // Threads that load data go on calling CUDA meanwhile: only this one's calls are restricted.
  impl_->graph.capture_begin(pool, cudaStreamCaptureModeThreadLocal);
  try {
    work();
  } catch (...) {
    // The work's error is what the caller is told, but neither stream nor allocator may stay in the capture.
    try {
      impl_->graph.capture_end();
    } catch (const c10::Error&) {
      c10::cuda::CUDACachingAllocator::endAllocateToPool(device_.index(), pool);
    }
    throw;
  }
  impl_->graph.capture_end();
  captured_ = true;
}

void CudaGraph::replay() {
  run([this] { impl_->graph.replay(); });
}

}  // namespace perfpred
