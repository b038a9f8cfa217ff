// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <string>

namespace perfpred {

/// While it lives, tensors that this thread makes have shapes but no memory, and operators on them compute shapes,
/// which the thread's OpRecorder gets. A handler on the dispatch key `Fake`, below autograd and above every device,
/// does this: it sees the operators that a device would execute and not those that are made of others. The handler is
/// registered when the first object is made.
class WithoutMemory {
 public:
  WithoutMemory();

 private:
  c10::impl::IncludeDispatchKeyGuard guard_{c10::DispatchKey::Fake};
};

/// The first failure of an operator on this thread since the last call, as "aten::addmm(4x10, 12x5): reason"; empty if
/// there was none.
std::string take_op_failure();

}  // namespace perfpred
