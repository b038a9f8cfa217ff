// SPDX-License-Identifier: Apache-2.0
// Both components in one program: a network run once by LibTorch, with the size that the core computes.
#include <perfpred/torch/network_module.h>
#include <perfpred/workload.h>

#include <ATen/ops/zeros.h>

#include <cstdint>
#include <cstdio>

int main() {
  const auto workload = perfpred::Workload::cifar_cnn(2, 16, 64);
  perfpred::NetworkModule module(workload);
  std::int64_t params = 0;
  for (const auto& tensor : module.parameters()) params += tensor.numel();
  const auto logits = module.forward(at::zeros({4, 3, 32, 32}));
  std::printf("%lld parameters, %lld logits an image\n", static_cast<long long>(params),
              static_cast<long long>(logits.size(1)));
  return params == workload.params() && logits.size(1) == 10 ? 0 : 1;
}
