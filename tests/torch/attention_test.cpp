// SPDX-License-Identifier: Apache-2.0
// scaled_dot_product_attention: how it is traced, what LibTorch executes and keeps for it.
#include <perfpred/torch/network_module.h>
#include <perfpred/torch/trace.h>
#include <perfpred/workload.h>

#include <ATen/Functions.h>
#include <ATen/record_function.h>
#include <gmock/gmock.h>
#include <torch/csrc/autograd/generated/Functions.h>

#include <algorithm>
#include <functional>
#include <map>
#include <string>
#include <vector>

namespace perfpred {
namespace {

using at::Tensor;

constexpr std::int64_t batch = 2, heads = 6, positions = 40, width = 8;

/// A module with one parameter.
struct OneParameter : torch::nn::Module {
  explicit OneParameter(at::IntArrayRef sizes) : weight(register_parameter("weight", torch::empty(sizes))) {}
  Tensor weight;
};

/// The step of a module that computes `forward` of an input [batch, heads, positions, width] and its parameter.
OpGraph traced(at::IntArrayRef parameter, const std::function<Tensor(const Tensor& x, const Tensor& weight)>& forward,
               Precision precision = Precision::fp32) {
  const std::vector<std::int64_t> sizes = parameter.vec();
  StepTracer tracer(
      [&] {
        auto module = std::make_shared<OneParameter>(sizes);
        return ModuleToTrace{module, [module = module.get(), forward](const std::vector<Tensor>& inputs) {
                               return forward(inputs.at(0), module->weight).flatten(1);
                             }};
      },
      precision);
  const InputSpec input{{batch, heads, positions, width}, DataType::f32};
  return tracer.trace({&input, 1}, Optimizer::sgd);
}

const Op& only(const OpGraph& step, OpKind kind) {
  const auto is_it = [kind](const Op& op) { return op.kind == kind; };
  EXPECT_EQ(std::count_if(step.ops().begin(), step.ops().end(), is_it), 1) << to_string(kind);
  return *std::find_if(step.ops().begin(), step.ops().end(), is_it);
}

constexpr double pair_product = 2.0 * batch * heads * positions * positions * width;
constexpr std::int64_t operand = batch * heads * positions * width, sums = 4 * batch * heads * positions;

TEST(Attention, IsOneOperatorAndOneForItsGradients) {
  for (const bool causal : {false, true}) {
    const OpGraph step = traced({width}, [causal](const Tensor& x, const Tensor& weight) {
      return at::scaled_dot_product_attention(x * weight, x, x, {}, 0, causal);
    });
    const double share = causal ? 0.5 : 1;
    const Op& forward = only(step, OpKind::attention);
    EXPECT_EQ(forward.flops, share * 2 * pair_product);
    EXPECT_EQ(forward.bytes_read, 2 * 4 * operand);  // keys and values are one tensor here
    EXPECT_EQ(forward.bytes_written, 4 * operand + sums);
    const Op& backward = only(step, OpKind::attention_backward);
    EXPECT_EQ(backward.flops, share * 5 * pair_product);
    EXPECT_EQ(backward.bytes_read, 4 * 4 * operand + sums);
    EXPECT_EQ(step.totals(OpKind::softmax).ops + step.totals(OpKind::bmm).ops, 0);
  }
}

TEST(Attention, ComputesInTheHalfTypeOfMixedPrecision) {
  const OpGraph step = traced(
      {width}, [](const Tensor& x, const Tensor& weight) { return at::scaled_dot_product_attention(x * weight, x, x); },
      Precision::bf16);
  const Op& forward = only(step, OpKind::attention);
  EXPECT_EQ(forward.type, DataType::bf16);
  EXPECT_EQ(forward.bytes_written, 2 * operand + sums);
}

TEST(Attention, TakesFewerHeadsOfKeysThanOfQueries) {
  static constexpr std::int64_t groups = 3;
  const OpGraph step = traced({width}, [](const Tensor& x, const Tensor& weight) {
    const Tensor few = x.slice(1, 0, groups);
    return at::scaled_dot_product_attention(x * weight, few, few.clone(), {}, 0, true, {}, true);
  });
  const Op& forward = only(step, OpKind::attention);
  EXPECT_EQ(forward.flops, pair_product);
  EXPECT_EQ(forward.bytes_read, 4 * (operand + 2 * operand * groups / heads));
}

TEST(Attention, ReadsItsMaskAndGivesABiasItsGradient) {
  // A Boolean mask for all samples and heads becomes a bias, whose rows are padded to a multiple of 16 elements.
  const OpGraph masked = traced({width}, [](const Tensor& x, const Tensor& weight) {
    const Tensor mask = at::ones({positions, positions}, x.options().dtype(at::kBool));
    return at::scaled_dot_product_attention(x * weight, x, x, mask);
  });
  EXPECT_EQ(only(masked, OpKind::attention).bytes_read, 4 * (2 * operand + positions * positions));
  EXPECT_EQ(only(masked, OpKind::attention_backward).bytes_read, 4 * (4 * operand + positions * positions) + sums);

  const OpGraph biased = traced({1, heads, positions, positions}, [](const Tensor& x, const Tensor& bias) {
    return at::scaled_dot_product_attention(x, x, x, bias);
  });
  const Op& backward = only(biased, OpKind::attention_backward);
  const std::int64_t gradient = 4 * batch * heads * positions * positions;  // of each sample, then summed
  EXPECT_GE(backward.bytes_written, gradient);
  EXPECT_LE(backward.bytes_written, gradient + 3 * 4 * operand);
}

TEST(Attention, KeepsTheSeedOfItsDropout) {
  const auto step = [](double dropout) {
    return traced({width}, [dropout](const Tensor& x, const Tensor& weight) {
      return at::scaled_dot_product_attention(x * weight, x, x, {}, dropout);
    });
  };
  EXPECT_EQ(step(0.1).activation_bytes(), step(0).activation_bytes() + 16);
  EXPECT_EQ(step(0.1).totals(OpKind::bernoulli).ops, 0);
}

TEST(Attention, OfThreeAxesIsWrittenOut) {  // no device has a kernel for it
  const OpGraph step = traced({width}, [](const Tensor& x, const Tensor& weight) {
    const Tensor y = (x * weight).flatten(0, 1);
    return at::scaled_dot_product_attention(y, y, y).unflatten(0, {batch, heads});
  });
  EXPECT_EQ(step.totals(OpKind::attention).ops, 0);
  EXPECT_EQ(step.totals(Phase::forward).conv_matmul_flops, 2 * pair_product);
}

/// What autograd keeps for LibTorch's own kernel on a CPU, which keeps the same tensors as CUDA's.
TEST(Attention, KeepsWhatAutogradKeeps) {
  const auto made = [] { return at::randn({batch, heads, positions, width}).requires_grad_(); };
  const Tensor result = at::scaled_dot_product_attention(made(), made(), made(), {}, 0, true);
  const auto node =
      std::dynamic_pointer_cast<torch::autograd::generated::ScaledDotProductFlashAttentionForCpuBackward0>(
          result.grad_fn());
  ASSERT_NE(node, nullptr) << result.grad_fn()->name();
  std::size_t kept = 0;
  for (const Tensor& tensor : {node->query_.unpack(), node->key_.unpack(), node->value_.unpack(),
                               node->output_.unpack(node), node->logsumexp_.unpack(node)}) {
    kept += tensor.nbytes();
  }
  const OpGraph step = traced({3, width}, [](const Tensor& x, const Tensor& weight) {
    return at::scaled_dot_product_attention(x * weight[0], x * weight[1], x * weight[2], {}, 0, true);
  });
  const Op& backward = only(step, OpKind::attention_backward);
  std::int64_t counted = 0;
  for (const TensorId id : step.inputs(backward).subspan(1)) counted += step.bytes(id);
  EXPECT_NEAR(static_cast<double>(counted) / static_cast<double>(kept), 1, 0.01);
}

std::map<std::string, int>* executed = nullptr;  // operators by name

std::unique_ptr<at::ObserverContext> count_operator(const at::RecordFunction& function) {
  if (executed != nullptr) ++(*executed)[function.name()];
  return nullptr;
}

TEST(Attention, OfAViTIsExecutedByLibTorchsFusedKernel) {
  const auto handle =
      at::addThreadLocalCallback(at::RecordFunctionCallback(count_operator).scopes({at::RecordScope::FUNCTION}));
  for (const Attention attention : {Attention::sdpa, Attention::eager}) {
    Workload workload = Workload::zoo("vit_b_32", 1);
    workload.attention = attention;
    NetworkModule module(workload);
    std::map<std::string, int> counts;
    executed = &counts;
    module.forward(at::randn({1, 3, 224, 224})).sum().backward();
    executed = nullptr;
    const int fused = attention == Attention::sdpa ? 12 : 0;
    EXPECT_EQ(counts["aten::_scaled_dot_product_flash_attention_for_cpu"], fused);
    EXPECT_EQ(counts["aten::_scaled_dot_product_flash_attention_for_cpu_backward"], fused);
    EXPECT_EQ(counts["aten::softmax"], 12 - fused);
  }
  at::removeCallback(handle);
}

TEST(Attention, WrittenOutAndFusedGiveTheSameLogits) {
  std::vector<Tensor> logits;
  for (const Attention attention : {Attention::sdpa, Attention::eager}) {
    Workload workload = Workload::zoo("transformer:layers=2,hidden=32,heads=4,vocab=50", 3, {20});
    workload.attention = attention;
    NetworkModule module(workload);
    module.eval();
    logits.push_back(module.forward(at::arange(60).remainder(50).view({3, 20})));
  }
  EXPECT_TRUE(at::allclose(logits[0], logits[1], 1e-4, 1e-5));
}

}  // namespace
}  // namespace perfpred
