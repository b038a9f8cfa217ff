// SPDX-License-Identifier: Apache-2.0
// A library of operators as a user writes one: trace_test loads it.
#include <ATen/ATen.h>
#include <torch/library.h>

static at::Tensor twice(const at::Tensor& x) { return x * 2; }

TORCH_LIBRARY(perfpred_test, library) {
  library.def("twice(Tensor x) -> Tensor");
  library.impl("twice", c10::DispatchKey::CPU, TORCH_FN(twice));
}
