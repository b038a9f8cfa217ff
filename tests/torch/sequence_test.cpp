// SPDX-License-Identifier: Apache-2.0
// Recurrent networks and Llamas: how they are traced, what LibTorch executes, computes and holds.
#include <perfpred/device.h>
#include <perfpred/torch/network_module.h>

#include <ATen/record_function.h>
#include <fmt/format.h>
#include <torch/nn/modules/rnn.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "zoo_steps.h"

namespace perfpred {
namespace {

using at::Tensor;

const std::string llama = "transformer:layers=2,hidden=32,heads=8,vocab=50,norm=rms,positions=rotary,mlp=swiglu,";

TEST(Sequences, TracedAndAnalyticStepsAgreeOnEveryDevice) {
  for (const std::string& name :
       {std::string("lstm:layers=1,hidden=24,vocab=50"),
        std::string("lstm:layers=3,hidden=24,vocab=50,bidirectional=1"),
        std::string("lstm:layers=2,hidden=24,vocab=50,cell=gru"),
        std::string("lstm:layers=2,hidden=24,vocab=50,bidirectional=1,cell=tanh"),
        std::string("lstm:layers=1,hidden=24,vocab=50,cell=relu"), llama + "kv_heads=2,bias=0,tied=0,dropout=0",
        llama + "causal=0", std::string("transformer:layers=2,hidden=32,heads=8,vocab=50,kv_heads=4,mlp_hidden=40")}) {
    for (const std::int64_t batch : {1, 2}) {
      for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16, Precision::fp64}) {
        const Workload network = Workload::zoo(name, batch, {24});
        const OpGraph analytic = step_of(network, Optimizer::adam, precision);
        const OpGraph trace = traced(network, Optimizer::adam, precision);
        EXPECT_EQ(trace.totals(OpKind::unknown).ops, 0);
        for (const DeviceKind device : {DeviceKind::other, DeviceKind::gpu, DeviceKind::cpu}) {
          SCOPED_TRACE(fmt::format("{}, {} samples in {} on {}", name, batch, to_string(precision), to_string(device)));
          expect_equal(execute(analytic, device).graph(), execute(trace, device).graph());
        }
      }
    }
  }
}

/// The step of a module of torch::nn over x [first, second, 5].
template <class Module, class Options>
OpGraph recorded(const Options& options, Precision precision = Precision::fp32) {
  StepTracer tracer(
      [&] {
        Module module(options);
        return ModuleToTrace{module.ptr(), [module](const std::vector<Tensor>& inputs) mutable {
                               return std::get<0>(module->forward(inputs.at(0))).flatten(1);
                             }};
      },
      precision);
  const InputSpec input{{3, 7, 5}, DataType::f32};
  return tracer.trace({&input, 1}, Optimizer::sgd);
}

/// 2 B S G h (in + h) a layer and direction, whichever axis is the batch. The input needs no gradient, which cuDNN
/// computes anyway.
TEST(Sequences, ModulesOfOthersAreOneOperatorAndOneForItsGradients) {
  constexpr double positions = 3 * 7, hidden = 6;
  const auto expect = [&](const OpGraph& step, double gates, double products) {
    EXPECT_EQ(step.totals(OpKind::rnn).ops, 1);
    EXPECT_EQ(step.totals(OpKind::rnn_backward).ops, 1);
    EXPECT_EQ(step.totals(OpKind::rnn).conv_matmul_flops, 2 * positions * gates * hidden * products);
    EXPECT_EQ(step.totals(OpKind::rnn_backward).conv_matmul_flops, 4 * positions * gates * hidden * products);
    EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, step.totals(OpKind::rnn).conv_matmul_flops);
    EXPECT_EQ(step.totals(OpKind::unknown).ops, 0);
  };
  for (const bool batch_first : {false, true}) {
    expect(recorded<torch::nn::LSTM>(torch::nn::LSTMOptions(5, 6).num_layers(2).batch_first(batch_first)), 4,
           5 + 6 + 12);
    expect(recorded<torch::nn::GRU>(torch::nn::GRUOptions(5, 6).bidirectional(true).batch_first(batch_first)), 3, 22);
    expect(recorded<torch::nn::RNN>(torch::nn::RNNOptions(5, 6).nonlinearity(torch::kReLU).batch_first(batch_first)), 1,
           11);
  }
  expect(recorded<torch::nn::LSTM>(torch::nn::LSTMOptions(5, 6).bias(false), Precision::fp16), 4, 11);
  // A projection to 4: recurrent weights [24, 4] and the projection's [4, 6].
  expect(recorded<torch::nn::LSTM>(torch::nn::LSTMOptions(5, 6).proj_size(4)), 4, 5 + 4 + 4.0 * 6 / 24);
}

Workload trained_with_sgd(Workload workload) {
  workload.optimizer = Optimizer::sgd;
  return workload;
}

std::map<std::string, std::int64_t>* executed = nullptr;  // operators by name

std::unique_ptr<at::ObserverContext> count_operator(const at::RecordFunction& function) {
  if (executed != nullptr) ++(*executed)[function.name()];
  return nullptr;
}

/// A CPU executes an LSTM's layers and directions one by one.
TEST(Sequences, LstmsAreSplitAsACpuSplitsThem) {
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_operator).scopes({at::RecordScope::FUNCTION}));
  for (const char* options : {"", ",bidirectional=1"}) {
    SCOPED_TRACE(options);
    const Workload workload = Workload::zoo(std::string("lstm:layers=3,hidden=8,vocab=50") + options, 2, {10});
    TrainingStep step(workload, at::kCPU, {});
    const Batch batch = batch_of(workload);
    std::map<std::string, std::int64_t> counts, expected;
    executed = &counts;
    step.run(batch);
    executed = nullptr;
    const OpGraph lowered = execute(workload.graph(), DeviceKind::cpu).graph();
    for (const Op& op : lowered.ops()) ++expected[fmt::format("aten::{}", lowered.name(op))];
    for (const char* name : {"aten::mkldnn_rnn_layer", "aten::mkldnn_rnn_layer_backward", "aten::stack"}) {
      EXPECT_EQ(counts[name], expected[name]) << name;
    }
    EXPECT_EQ(counts["aten::cat"] - counts["aten::stack"], expected["aten::cat"]);  // a stack calls it
    EXPECT_EQ(counts["aten::bernoulli_"], expected["aten::bernoulli"]);
    EXPECT_EQ(lowered.totals().conv_matmul_flops, workload.graph().totals().conv_matmul_flops);
  }
  at::removeCallback(handle);
}

/// A CPU executes other cells position by position. The zeros that their states start from get no gradient there.
TEST(Sequences, OtherCellsAreWrittenOutAsACpuExecutesThem) {
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_operator).scopes({at::RecordScope::FUNCTION}));
  for (const char* options : {",cell=gru", ",bidirectional=1,cell=gru", ",cell=tanh", ",bidirectional=1,cell=tanh"}) {
    for (const std::int64_t batch : {1, 2}) {
      SCOPED_TRACE(fmt::format("{}, {} samples", options, batch));
      const Workload workload =
          trained_with_sgd(Workload::zoo(std::string("lstm:layers=2,hidden=8,vocab=50") + options, batch, {10}));
      TrainingStep step(workload, at::kCPU, {});
      const Batch samples = batch_of(workload);
      std::map<std::string, std::int64_t> counts, expected;
      executed = &counts;
      step.run(samples);
      executed = nullptr;
      const OpGraph lowered = execute(workload.graph(), DeviceKind::cpu).graph();
      for (const Op& op : lowered.ops()) ++expected[fmt::format("aten::{}", lowered.name(op))];
      EXPECT_EQ(lowered.totals(OpKind::rnn).ops, 0);
      for (const char* name :
           {"aten::addmm", "aten::mm", "aten::stack", "aten::neg", "aten::tanh_backward", "aten::sigmoid_backward"}) {
        EXPECT_EQ(counts[name], expected[name]) << name;
      }
      EXPECT_EQ(counts["aten::sigmoid_"], expected["aten::sigmoid"]);
      EXPECT_EQ(counts["aten::cat"] - counts["aten::stack"], expected["aten::cat"]);  // a stack calls it
    }
  }
  at::removeCallback(handle);
}

TEST(Sequences, MemoryIsWhatLibTorchPeaksAt) {
  at::set_num_threads(1);
  TrainingJob job;
  job.threads = job.loader_batches = 1;
  for (const std::string& name :
       {std::string("lstm:layers=2,hidden=200,vocab=1000"), std::string("lstm:layers=1,hidden=64,vocab=100"),
        std::string("lstm:layers=2,hidden=96,vocab=500,bidirectional=1"),
        std::string("lstm:layers=2,hidden=200,vocab=1000,cell=gru"),
        std::string("lstm:layers=2,hidden=64,vocab=500,bidirectional=1,cell=gru"),
        std::string("lstm:layers=2,hidden=96,vocab=500,cell=tanh"), llama + "kv_heads=2,bias=0,tied=0,dropout=0"}) {
    for (const std::int64_t batch : {1, 20}) {
      SCOPED_TRACE(fmt::format("{}, {} samples", name, batch));
      const Workload workload = Workload::zoo(name, batch, {35});
      const auto estimate =
          static_cast<double>(estimate_memory(execute(workload.graph(), DeviceKind::cpu), job).peak_bytes);
      const auto measured = static_cast<double>(measured_peak(workload));
      EXPECT_NEAR(estimate / measured, 1, 0.02) << estimate << " for " << measured;
      if (std::getenv("PERFPRED_MEASURE_ALL") != nullptr) {
        // A row of data/tables/cpu_memory.csv.
        std::printf("\"%s\",%d,%.1f,%+.2f\n", name.c_str(), static_cast<int>(batch), measured / 1e6,
                    100 * (estimate / measured - 1));
      }
    }
  }
}

TEST(NetworkModule, ComputesWhatTorchsRecurrentModulesCompute) {
  const Workload workload = Workload::zoo("lstm:layers=2,hidden=8,vocab=20,bidirectional=1", 3, {6});
  NetworkModule module(workload);
  module.eval();
  torch::nn::LSTM lstm(torch::nn::LSTMOptions(8, 8).num_layers(2).bidirectional(true).batch_first(true));
  const auto own = module.named_parameters();
  const torch::NoGradGuard no_grad;
  for (const auto& item : lstm->named_parameters()) {
    const Tensor* parameter = own.find("rnn." + item.key());
    ASSERT_NE(parameter, nullptr) << item.key();
    item.value().copy_(*parameter);
  }
  const Tensor words = at::arange(18).remainder(20).view({3, 6});
  const Tensor expected = at::linear(std::get<0>(lstm->forward(at::embedding(own["encoder.weight"], words))),
                                     own["decoder.weight"], own["decoder.bias"]);
  EXPECT_TRUE(at::allclose(module.forward(words), expected, 1e-5, 1e-6));
}

/// A block of Llama by its equations: rotation as a product of complex numbers (Su et al. 2021), keys repeated for the
/// heads of a group, the mask added.
TEST(NetworkModule, ComputesALlama) {
  constexpr std::int64_t heads = 4, groups = 2, width = 6, length = 7, hidden = heads * width;
  NetworkModule module(Workload::zoo(
      "transformer:layers=1,hidden=24,heads=4,vocab=20,norm=rms,positions=rotary,kv_heads=2,mlp=swiglu,mlp_hidden=40,"
      "bias=0,tied=0,dropout=0",
      2, {length}));
  const torch::NoGradGuard no_grad;
  at::manual_seed(0);
  for (Tensor& parameter : module.parameters()) parameter.normal_(0, 0.5);
  const auto weights = module.named_parameters();
  const auto weight = [&](const std::string& name) { return weights["transformer.h.0." + name + ".weight"]; };
  const auto norm = [](const Tensor& x, const Tensor& scale) {
    return x / (x.square().mean(-1, true) + 1e-5).sqrt() * scale;
  };
  const auto split = [](const Tensor& x, std::int64_t count) {
    return x.view({2, length, count, width}).transpose(1, 2);
  };
  const Tensor angles = at::outer(at::arange(length), at::pow(10000.0, at::arange(0, width, 2) / -6.0));
  const auto rotated = [&](const Tensor& x) {
    const Tensor pairs = at::complex(x.slice(3, 0, width / 2).contiguous(), x.slice(3, width / 2).contiguous());
    const Tensor turned = pairs * at::polar(at::ones_like(angles), angles);
    return at::cat({at::real(turned), at::imag(turned)}, 3);
  };
  const Tensor words = at::arange(2 * length).remainder(20).view({2, length});
  Tensor x = at::embedding(weights["transformer.wte.weight"], words);
  const Tensor y = norm(x, weight("ln_1"));
  const Tensor q = rotated(split(at::linear(y, weight("self_attn.q_proj")), heads));
  const Tensor k = rotated(split(at::linear(y, weight("self_attn.k_proj")), groups)).repeat_interleave(2, 1);
  const Tensor v = split(at::linear(y, weight("self_attn.v_proj")), groups).repeat_interleave(2, 1);
  const Tensor later = at::ones({length, length}).triu(1) * -1e9;
  const Tensor mixed = at::softmax(q.matmul(k.transpose(2, 3)) / std::sqrt(6.0) + later, -1).matmul(v);
  x = x + at::linear(mixed.transpose(1, 2).reshape({2, length, hidden}), weight("attn.c_proj"));
  const Tensor z = norm(x, weight("ln_2"));
  const Tensor gate = at::linear(z, weight("mlp.c_gate"));
  x = x + at::linear(gate * at::sigmoid(gate) * at::linear(z, weight("mlp.c_fc")), weight("mlp.c_proj"));
  const Tensor logits = at::linear(norm(x, weights["transformer.ln_f.weight"]), weights["lm_head.weight"]);
  EXPECT_TRUE(at::allclose(module.forward(words), logits, 1e-3, 1e-3));
}

}  // namespace
}  // namespace perfpred
