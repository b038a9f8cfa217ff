// SPDX-License-Identifier: Apache-2.0
// A library with an operator and a module, as a user writes one: the tests of tracing load it.
#include <ATen/ATen.h>
#include <perfpred/torch/trace.h>
#include <torch/library.h>
#include <torch/nn/module.h>

static at::Tensor twice(const at::Tensor& x) { return x * 2; }

TORCH_LIBRARY(perfpred_test, library) {
  library.def("twice(Tensor x) -> Tensor");
  library.impl("twice", c10::DispatchKey::CPU, TORCH_FN(twice));
}

extern "C" void perfpred_make_module(perfpred::ModuleToTrace& made) {
  made.module = std::make_shared<torch::nn::Module>("Classifier");
  const at::Tensor weight = made.module->register_parameter("weight", at::empty({16, 8}, at::kFloat));
  made.forward = [weight](const std::vector<at::Tensor>& inputs) { return at::linear(inputs.at(0), weight); };
}
