#include "cuda_graph.h"

#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/core/StreamGuard.h>
#include <c10/core/impl/VirtualGuardImpl.h>

#include "step_clock.h"

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
  const c10::StreamGuard guard(stream_);
  // Threads that load data go on calling CUDA meanwhile: only this one's calls are restricted.
  impl_->graph.capture_begin({0, 0}, cudaStreamCaptureModeThreadLocal);
  work();
  impl_->graph.capture_end();
  captured_ = true;
}

void CudaGraph::replay() {
  run([this] { impl_->graph.replay(); });
}

}  // namespace perfpred
