// SPDX-License-Identifier: Apache-2.0
// Both components in one program: a network run once by LibTorch, with the size that the core computes; a kind that
// core fits with LibTorch's help; a step traced by a rule that core was given.
#include <perfpred/op_graph.h>
#include <perfpred/op_rule_registry.h>
#include <perfpred/time_regressor.h>
#include <perfpred/torch/ann.h>
#include <perfpred/torch/network_module.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/ops/zeros.h>
#include <torch/library.h>

#include <cstdint>
#include <cstdio>

namespace {

at::Tensor twice(const at::Tensor& x) { return x * 2; }

TORCH_LIBRARY(consumer, library) {
  library.def("twice(Tensor x) -> Tensor");
  library.impl("twice", c10::DispatchKey::CPU, TORCH_FN(twice));
}

at::Tensor call_twice(const at::Tensor& x) {
  static const auto op =
      c10::Dispatcher::singleton().findSchemaOrThrow("consumer::twice", "").typed<at::Tensor(const at::Tensor&)>();
  return op.call(x);
}

/// FLOPs by own rules in a step of a module that calls consumer::twice.
double custom_flops() {
  perfpred::StepTracer tracer([] {
    const auto module = std::make_shared<torch::nn::Module>();
    const at::Tensor weight = module->register_parameter("weight", at::zeros({8}));
    return perfpred::ModuleToTrace{
        module, [weight](const std::vector<at::Tensor>& inputs) { return call_twice(inputs.at(0)).mul(weight).sum(); }};
  });
  const perfpred::InputSpec input{{4, 8}, perfpred::DataType::f32};
  return tracer.trace({&input, 1}, perfpred::Optimizer::sgd).totals(perfpred::OpKind::custom).flops;
}

}  // namespace

int main() {
  const auto workload = perfpred::Workload::cifar_cnn(2, 16, 64);
  perfpred::NetworkModule module(workload);
  std::int64_t params = 0;
  for (const auto& tensor : module.parameters()) params += tensor.numel();
  const auto logits = module.forward(at::zeros({4, 3, 32, 32}));

  std::vector<perfpred::AggregateRow> rows;
  for (const std::int64_t batch : {16, 24, 32, 48, 64, 96, 128, 192, 256, 384}) {
    perfpred::AggregateRow& row = rows.emplace_back();
    row.workload = perfpred::Workload::cifar_cnn(2, 16, batch);
    row.n = 1;
    row.avg_time_mean = 1 + 64.0 / static_cast<double>(batch);
  }
  perfpred::FitOptions options;
  options.kind = "ann";
  perfpred::enable_ann();
  const double sec = perfpred::TimeRegressor::fit(rows, options).predict(workload).time_sec.p50;

  perfpred::register_op("consumer::twice",
                        [](auto inputs, auto) { return 3.0 * static_cast<double>(inputs[0].numel()); });
  const double flops = custom_flops();
  std::printf("%lld parameters, %lld logits an image, %g s an epoch, %g FLOP by an own rule\n",
              static_cast<long long>(params), static_cast<long long>(logits.size(1)), sec, flops);
  return params == workload.params() && logits.size(1) == 10 && sec > 0 && flops == 3 * 4 * 8 ? 0 : 1;
}
