// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <optional>

namespace perfpred {

/// While it lives, operators of this thread on tensors without memory are those of a CUDA device, which LibTorch
/// chooses by the tensors' device: scaled_dot_product_attention is one kernel (fused_attention.h), so are recurrent
/// networks (cudnn_rnn.h); under mixed precision, inputs are cast by LibTorch's lists for torch.autocast("cuda"). A
/// handler on the dispatch key `DeferredInit`, above autograd, does this. It is registered when the first object is
/// made.
class CudaDispatch {
 public:
  /// @param half  the half type of mixed precision; empty: nothing is cast
  explicit CudaDispatch(std::optional<at::ScalarType> half);
  CudaDispatch(const CudaDispatch&) = delete;
  CudaDispatch& operator=(const CudaDispatch&) = delete;
  ~CudaDispatch();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_{c10::DispatchKey::DeferredInit};
};

}  // namespace perfpred
