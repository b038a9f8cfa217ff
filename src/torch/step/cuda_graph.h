// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/Device.h>
#include <c10/core/Stream.h>

#include <functional>
#include <memory>

namespace perfpred {

/// A stream of its own and, once captured there, a CUDA graph.
class CudaGraph {
 public:
  explicit CudaGraph(c10::Device device);
  ~CudaGraph();

  /// Runs work on the graph's stream, after what the current stream holds and before what follows there.
  void run(const std::function<void()>& work);

  /// Records what the work launches instead of running it. The work must not wait for the device.
  /// @throws what the work throws; LibTorch's graph, allocators and random generator have left the capture then
  void capture(const std::function<void()>& work);
  [[nodiscard]] bool captured() const { return captured_; }
  void replay();  ///< on the current stream

 private:
  struct Impl;
  c10::Device device_;
  c10::Stream stream_;
  std::unique_ptr<Impl> impl_;
  bool captured_ = false;
};

}  // namespace perfpred
