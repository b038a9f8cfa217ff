// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

namespace perfpred {

/// While it lives, operators of this thread compute in a half type or in single precision by LibTorch's lists for
/// CUDA, whatever the tensors' device: torch.autocast("cuda") for tensors without memory, which have no such mode. A
/// handler on the dispatch key `DeferredInit`, above autograd, casts the inputs of operators. It is registered when the
/// first object is made.
class MixedPrecision {
 public:
  explicit MixedPrecision(at::ScalarType half);
  MixedPrecision(const MixedPrecision&) = delete;
  MixedPrecision& operator=(const MixedPrecision&) = delete;
  ~MixedPrecision();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_{c10::DispatchKey::DeferredInit};
};

}  // namespace perfpred
