// SPDX-License-Identifier: Apache-2.0
#include "torch/step/cuda_graph.h"

#include <ATen/DeviceAccelerator.h>
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <c10/cuda/CUDACachingAllocator.h>

#include <exception>

#include "torch/device/step_clock.h"

namespace perfpred {

struct CudaGraph::Impl {
  /// CUDAGraph::capture_end() throws before it leaves the capture if CUDA calls that are not allowed there have
  /// invalidated it.
  struct Graph : at::cuda::CUDAGraph {
    /// The rest of capture_end(), but for the graph.
    void leave_capture(c10::DeviceIndex device) {
      if (capture_ended_) return;
      const auto unless_left = [](auto&& end) {
        try {
          end();
        } catch (const c10::Error&) {
          // capture_end() came as far as this, and an allocator refuses to end what has ended.
        }
      };
      unless_left([&] { c10::cuda::CUDACachingAllocator::endAllocateToPool(device, mempool_id_); });
      unless_left([&] { at::getHostAllocator(at::kCUDA)->end_allocate_to_pool(mempool_id_); });
      for (auto& state : captured_generator_states_) state.first->capturing_ = false;
      capture_ended_ = true;  // so that the destructor gives the memory pools back
    }
  };
  Graph graph;
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
  // Threads that load data go on calling CUDA meanwhile: only this one's calls are restricted.
  impl_->graph.capture_begin(at::cuda::graph_pool_handle(), cudaStreamCaptureModeThreadLocal);
  std::exception_ptr failed;
  try {
    work();
  } catch (...) {
    failed = std::current_exception();
  }
  try {
    impl_->graph.capture_end();
  } catch (const c10::Error&) {
    impl_->graph.leave_capture(device_.index());
    if (!failed) throw;
  }
  if (failed) std::rethrow_exception(failed);  // tells more than the error of an invalidated capture
  captured_ = true;
}

void CudaGraph::replay() { impl_->graph.replay(); }

}  // namespace perfpred
