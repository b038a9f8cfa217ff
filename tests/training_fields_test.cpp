// SPDX-License-Identifier: Apache-2.0
// The fields of a workload that say how a network is trained: what they do to its step.
#include <perfpred/error.h>
#include <perfpred/executed_step.h>
#include <perfpred/memory_estimate.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <utility>

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using ::testing::ThrowsMessage;
using Fields = std::initializer_list<std::pair<const char*, const char*>>;

constexpr std::int64_t layers = 3, hidden = 512, inner = 1024, words = 1000, length = 64, batch = 2;

Workload with(Workload workload, Fields fields) {
  for (const auto& [field, value] : fields) workload = with_field(workload, field, value);
  return workload;
}

/// A decoder of which every count has a closed form: gated MLP, no biases, untied head.
Workload decoder(Fields fields = {}) {
  return with(Workload::zoo("transformer:layers=3,hidden=512,heads=8,vocab=1000,norm=rms,positions=rotary,mlp=swiglu,"
                            "mlp_hidden=1024,bias=0,tied=0,dropout=0",
                            batch, {length}),
              fields);
}

constexpr std::int64_t block_weights = 4 * hidden * hidden + 3 * hidden * inner;

MemoryEstimate memory(const Workload& workload) {
  return estimate_memory(execute(workload.graph(), DeviceKind::other), TrainingJob{.loader_batches = 1});
}

double products(const OpGraph& graph, Phase phase) { return graph.totals(phase).conv_matmul_flops; }

TEST(TrainingFields, StandInKeysWhereTheyAreUnusual) {
  const Workload usual = decoder();
  const Workload workload = decoder({{"weights", "nf4"},
                                     {"adapter", "lora:r=16,targets=all"},
                                     {"checkpoint", "all"},
                                     {"accumulate", "4"},
                                     {"loss", "chunked"},
                                     {"padding", "padded"},
                                     {"optimizer", "paged_adamw8bit"}});
  EXPECT_THAT(workload.key(), HasSubstr(";weights=nf4;adapter=lora:r=16,targets=all;checkpoint=all;accumulate=4;"));
  EXPECT_THAT(workload.key(), HasSubstr(";loss=chunked;padding=padded"));
  EXPECT_EQ(Workload::from_key(workload.key()), workload);
  EXPECT_EQ(usual.key().find("weights"), std::string::npos);
  EXPECT_EQ(with_field(usual, "checkpoint", "1"), with_field(usual, "checkpoint", "all"));
  EXPECT_EQ(field_text(with_field(usual, "checkpoint", "2"), "checkpoint"), "2");
  EXPECT_THAT(
      [&] { (void)with_field(usual, "checkpoint", "yes"); },
      ThrowsMessage<InputError>(HasSubstr("checkpoint \"yes\" is not none, all, selective, op or a positive integer")));
  EXPECT_EQ(field_text(with_field(usual, "adapter", "lora:targets=v+q,r=8"), "adapter"), "lora:r=8,targets=q+v");
  EXPECT_EQ(field_text(with_field(usual, "adapter", "ia3"), "adapter"), "ia3:targets=all");
}

/// As peft's print_trainable_parameters() shows them for Llama 2 7B.
TEST(TrainingFields, AdaptersHaveTheParametersOfPeft) {
  const Workload llama = Workload::zoo("llama2_7b", 1, {128});
  EXPECT_EQ(with(llama, {{"adapter", "lora:r=8,targets=q+v"}}).params(), 4'194'304);
  EXPECT_EQ(with(llama, {{"adapter", "lora:r=16,targets=all"}}).params(), 39'976'960);
  EXPECT_EQ(with(llama, {{"adapter", "lora:r=64,targets=attention"}}).params(), 67'108'864);
  EXPECT_EQ(with(llama, {{"adapter", "ia3"}}).params(), 32 * (2 * 4096 + 11008));
  const std::int64_t outputs = 32 * (4 * 4096 + 2 * 11008 + 4096);
  EXPECT_EQ(with(llama, {{"adapter", "dora:r=16,targets=all"}}).params(), 39'976'960 + outputs);
  EXPECT_EQ(with(llama, {{"adapter", "adapter:r=64"}}).params(), 32 * 2 * (2 * 64 * 4096 + 64 + 4096));
}

TEST(TrainingFields, FrozenWeightsHaveNoGradients) {
  const OpGraph full = decoder().graph(), lora = decoder({{"adapter", "lora:r=8,targets=all"}}).graph();
  const double adapter = 2.0 * batch * length * layers * 8 * (8 * hidden + 3 * (hidden + inner));
  EXPECT_EQ(products(lora, Phase::forward), products(full, Phase::forward) + adapter);
  // Of inputs only, but for the first block's, whose projections read an embedding without gradient.
  const double tokens = batch * length;
  const double of_weights = 2 * tokens * (layers * block_weights + hidden * words);
  const double first_inputs = 2 * tokens * 3 * hidden * hidden;
  const double no_first_input = 2 * tokens * 3 * hidden * 8;
  EXPECT_EQ(products(lora, Phase::backward),
            products(full, Phase::backward) - of_weights - first_inputs + 2 * adapter - no_first_input);
  const MemoryEstimate all = memory(decoder()), few = memory(decoder({{"adapter", "lora:r=8,targets=all"}}));
  EXPECT_EQ(few.optimizer, 2 * 4 * decoder({{"adapter", "lora:r=8,targets=all"}}).params() + 4);
  EXPECT_GT(few.parameters, all.parameters);
}

TEST(TrainingFields, HalfWeightsHalveParametersGradientsAndStates) {
  const MemoryEstimate single = memory(decoder({{"precision", "bf16"}}));
  const MemoryEstimate half = memory(decoder({{"precision", "bf16"}, {"weights", "bf16"}}));
  const std::int64_t params = decoder().params();
  EXPECT_NEAR(static_cast<double>(half.parameters), 2.0 * static_cast<double>(params),
              0.06 * static_cast<double>(params));
  EXPECT_EQ(half.optimizer, (single.optimizer - 4) / 2 + 4);
  EXPECT_EQ(half.gradients, single.gradients / 2);
  const OpGraph graph = decoder({{"precision", "bf16"}, {"weights", "bf16"}}).graph();
  for (const Op& op : graph.ops()) {
    if (is_conv_or_matmul(op.kind)) {
      EXPECT_EQ(op.type, DataType::bf16);
    }
  }
}

/// bitsandbytes: half a byte a number, a byte for 64 of them, four bytes for 256 of those; GPTQ: groups of 128.
TEST(TrainingFields, PackedWeightsHaveTheBytesOfTheirFormats) {
  const std::int64_t numbers = layers * block_weights;
  const auto bytes = [](const char* weights) {
    return memory(decoder({{"precision", "bf16"}, {"weights", weights}, {"adapter", "lora:r=8,targets=all"}}))
        .parameters;
  };
  const std::int64_t plain = bytes("bf16") - 2 * numbers;
  EXPECT_EQ(bytes("nf4"), plain + numbers / 2 + numbers / 64 + 4 * (numbers / 64 / 256));
  EXPECT_EQ(bytes("int8"), plain + numbers + 4 * layers * (5 * hidden + 2 * inner));
  EXPECT_NEAR(static_cast<double>(bytes("int4") - plain), static_cast<double>(numbers) * (0.5 + 2.5 / 128),
              4.5 * 7 * layers * inner);
}

TEST(TrainingFields, PackedWeightsAreUnpackedInEveryPass) {
  const Workload workload = decoder({{"precision", "bf16"}, {"weights", "nf4"}, {"adapter", "lora:r=8,targets=all"}});
  const OpGraph graph = workload.graph();
  std::int64_t forward = 0, backward = 0;
  for (const Op& op : graph.ops()) {
    if (graph.name(op) == "dequantize") ++(op.phase == Phase::forward ? forward : backward);
  }
  EXPECT_EQ(forward, 7 * layers);
  EXPECT_EQ(backward, 7 * layers - 3);  // not for the inputs of the first block, which have no gradient
  EXPECT_EQ(products(graph, Phase::forward),
            products(decoder({{"precision", "bf16"}, {"adapter", "lora:r=8,targets=all"}}).graph(), Phase::forward));
}

/// A block's forward pass is executed again up to its last product, whose operands alone are needed.
TEST(TrainingFields, CheckpointsAreComputedAnew) {
  const OpGraph plain = decoder().graph();
  const double tokens = batch * length;
  const double attention = 4.0 * tokens * length * hidden / 2;
  const double block = 2 * tokens * (block_weights - hidden * inner) + attention;
  EXPECT_EQ(products(decoder({{"checkpoint", "all"}}).graph(), Phase::backward),
            products(plain, Phase::backward) + layers * block);
  EXPECT_EQ(products(decoder({{"checkpoint", "2"}}).graph(), Phase::backward),
            products(plain, Phase::backward) + 2 * block);
  EXPECT_EQ(products(decoder({{"checkpoint", "all"}}).graph(), Phase::forward), products(plain, Phase::forward));
  Workload longer = with(decoder(), {{"input", "2048"}});
  const std::int64_t kept = memory(longer).activations;
  longer.checkpoint = 1;
  EXPECT_LT(memory(longer).activations, kept / 2);
}

/// torchtitan's selective_ac_option op: of the products q, k, v, o, gate, up, down the first and every second one after
/// it are kept, and the fused attention. PyTorch 2.11's create_selective_checkpoint_contexts with that rule computes
/// three products of a Llama block anew, and no attention.
TEST(TrainingFields, CheckpointsOfOperatorsKeepEverySecondProduct) {
  const OpGraph plain = decoder().graph(), op = decoder({{"checkpoint", "op"}}).graph();
  const double again = 2.0 * batch * length * (2 * hidden * hidden + hidden * inner);  // k, o, up
  EXPECT_EQ(products(op, Phase::backward), products(plain, Phase::backward) + layers * again);
  EXPECT_EQ(products(op, Phase::forward), products(plain, Phase::forward));
  EXPECT_EQ(field_text(decoder({{"checkpoint", "op"}}), "checkpoint"), "op");
}

/// Peaks of what PyTorch 2.11 holds beside the parameters in a step of TinyLlama (transformers 5.24, bf16 throughout, 2
/// x 2,048 words) by its own calls: every block checkpointed 4,873.2 MB; by operators 6,529.0, in which the result of
/// each block's last product, which no operator reads again, is 16.8 of 99.1 MB a block.
TEST(TrainingFields, CheckpointsOfOperatorsHoldWhatPyTorchHolds) {
  const auto tensors = [](const char* checkpoint) {
    const Workload llama = with(Workload::zoo("tinyllama_1.1b", 2, {2048}),
                                {{"precision", "bf16"}, {"weights", "bf16"}, {"checkpoint", checkpoint}});
    return static_cast<double>(estimate_memory(execute(llama.graph(), DeviceKind::gpu), {}).tensors.p50) / 1e6;
  };
  EXPECT_NEAR((tensors("op") - tensors("all")) / (6529.0 - 4873.2), 1, 0.2);
}

TEST(TrainingFields, AccumulatedBatchesShareAnUpdate) {
  const OpGraph one = decoder().graph(), four = decoder({{"accumulate", "4"}}).graph();
  EXPECT_EQ(products(four, Phase::forward), 4 * products(one, Phase::forward));
  EXPECT_EQ(products(four, Phase::backward), 4 * products(one, Phase::backward));
  EXPECT_EQ(four.totals(Phase::optimizer).flops, one.totals(Phase::optimizer).flops);
  EXPECT_EQ(decoder({{"accumulate", "4"}}).steps_per_epoch(), (decoder().steps_per_epoch() + 3) / 4);
  const std::int64_t gradients = 4 * decoder().params();
  const MemoryEstimate of_one = memory(decoder()), of_four = memory(decoder({{"accumulate", "4"}}));
  EXPECT_EQ(of_four.gradients, gradients);
  EXPECT_LE(of_four.peak_bytes, of_one.peak_bytes + gradients);
  EXPECT_EQ(memory(decoder({{"accumulate", "16"}})).peak_bytes, of_four.peak_bytes);
}

TEST(TrainingFields, StatesHaveTheBytesOfTheirOptimizers) {
  const std::int64_t params = decoder().params();
  const auto states = [](const char* optimizer) { return memory(decoder({{"optimizer", optimizer}})).optimizer; };
  const std::int64_t norms = (2 * layers + 1) * hidden;  // fewer than 4096 each: in single precision
  const std::int64_t in_bytes = 2 * (params - norms) + 2 * 4 * (params - norms) / 256 + 2 * 4 * norms;
  EXPECT_NEAR(static_cast<double>(states("adam8bit")), static_cast<double>(in_bytes), 8 * 30);
  EXPECT_EQ(states("adamw8bit"), states("adam8bit"));
  EXPECT_EQ(states("paged_adamw8bit"), states("adam8bit") - 2 * (params - norms));  // every matrix is large
  EXPECT_EQ(states("momentum"), 4 * params + 4);
  EXPECT_EQ(states("lion"), 4 * params + 4);
  EXPECT_EQ(states("lamb"), 8 * params + 4);
  const std::int64_t sides = layers * (4 * 2 * hidden + 3 * (hidden + inner)) + 2 * (hidden + words);
  EXPECT_EQ(states("adafactor"), 4 * (sides + norms) + 4);
  const std::int64_t others = 2 * hidden * words + norms;  // embedding, head and norms: AdamW's
  EXPECT_EQ(states("muon"), 4 * (layers * block_weights + 2 * others) + 4);
}

/// Newton-Schulz: five times X X^T, its square, and their product with X, of the side that is shorter.
TEST(TrainingFields, MuonMultipliesMatrices) {
  const double square = 5 * 6.0 * hidden * hidden * hidden;
  const double wide = 5 * (4.0 * hidden * hidden * inner + 2.0 * hidden * hidden * hidden);
  EXPECT_EQ(products(decoder({{"optimizer", "muon"}}).graph(), Phase::optimizer), layers * (4 * square + 3 * wide));
}

TEST(TrainingFields, AChunkedLossNeverHasAllLogits) {
  const Workload whole = Workload::zoo("transformer:layers=1,hidden=64,heads=4,vocab=50000,tied=0", 8, {128});
  const Workload chunked = with_field(whole, "loss", "chunked");
  const double head = 3 * 2.0 * 8 * 128 * 64 * 50'000;
  EXPECT_EQ(chunked.graph().totals().conv_matmul_flops, whole.graph().totals().conv_matmul_flops);
  EXPECT_EQ(chunked.graph().totals(Phase::loss).conv_matmul_flops, head);
  EXPECT_LT(memory(chunked).activations, memory(whole).activations / 8);
}

TEST(TrainingFields, AChunkedLossIsOfHeadsWithABiasToo) {
  const Workload whole = Workload::zoo("bert_base", 8, {128});
  const Workload chunked = with_field(whole, "loss", "chunked");
  EXPECT_EQ(chunked.graph().totals().conv_matmul_flops, whole.graph().totals().conv_matmul_flops);
  EXPECT_EQ(chunked.graph().params(), whole.graph().params());
}

/// A request of 100 bytes shall not take gigabytes: there are as many chunks as words for each unit.
TEST(TrainingFields, AChunkedLossOfTooManyChunksIsRefused) {
  const Workload narrow = Workload::zoo("transformer:layers=1,hidden=2,heads=1,vocab=16777216", 2, {4'194'304});
  EXPECT_THAT([&] { (void)with_field(narrow, "loss", "chunked").graph(); },
              ThrowsMessage<InputError>(HasSubstr("loss chunked takes 8388608 chunks of 1 positions")));
  EXPECT_GT(narrow.graph().ops().size(), 0U);
}

TEST(TrainingFields, AnUpdateHasAsManySamplesAsCanBeCounted) {
  const auto refused = [](std::int64_t size, std::int64_t accumulate) {
    Workload workload = Workload::zoo("resnet50", size);
    workload.accumulate = accumulate;
    EXPECT_THAT([&] { workload.validate(); },
                ThrowsMessage<InputError>(HasSubstr("accumulate " + std::to_string(accumulate) + " is too large")));
  };
  constexpr std::int64_t one = 1;
  refused(8, one << 62);  // 8 times this is 0 in 64 bits
  refused(8, one << 60);  // negative
  refused(8, std::numeric_limits<std::int64_t>::max());
  refused(4096, one << 52);
  refused(1, one << 40);  // 2^40 images of 2^17.2 numbers each
  Workload most = Workload::zoo("resnet50", 8);
  most.accumulate = one << 35;
  most.validate();
  EXPECT_EQ(most.steps_per_epoch(), 1);
}

TEST(TrainingFields, AStepThatMovesMoreThanCanBeCountedIsRefused) {
  Workload many = Workload::zoo("resnet50", 8);
  many.accumulate = std::int64_t{1} << 35;  // of 10^10 bytes each
  EXPECT_THAT([&] { (void)many.graph(); }, ThrowsMessage<InputError>(HasSubstr("moves")));
  many.accumulate = 1'000'000;
  EXPECT_GT(many.graph().totals().bytes(),
            1'000'000 * Workload::zoo("resnet50", 8).graph().totals(Phase::forward).bytes());
}

TEST(TrainingFields, PaddingIsMasked) {
  const OpGraph packed = decoder().graph(), padded = decoder({{"padding", "padded"}}).graph();
  EXPECT_EQ(padded.totals(OpKind::attention).flops, 2 * packed.totals(OpKind::attention).flops);
}

TEST(TrainingFields, ContradictionsAreRefused) {
  const auto refused = [](const char* network, Fields fields, const char* why) {
    EXPECT_THAT([&] { (void)with(Workload::zoo(network, 2), fields).graph(); },
                ThrowsMessage<InputError>(HasSubstr(why)));
  };
  refused("gpt2", {{"weights", "nf4"}}, "weights nf4 are frozen");
  refused("resnet18", {{"adapter", "lora:r=8"}},
          "resnet18 has no projections that adapter lora:r=8,targets=attention is for");
  refused("resnet18", {{"checkpoint", "all"}}, "no blocks");
  refused("resnet18", {{"loss", "chunked"}}, "no head over words");
  refused("resnet18", {{"padding", "padded"}}, "no attention over words");
  refused("gpt2", {{"weights", "bf16"}, {"precision", "fp64"}}, "contradict");
  for (const char* adapter :
       {"lora", "lora:r=0", "lora:r=8,targets=x", "qlora:r=8", "lora:r=8,r=8", "adapter:r=8,targets=all"}) {
    EXPECT_THROW((void)with_field(decoder(), "adapter", adapter), InputError) << adapter;
  }
  Workload cifar = Workload::cifar_cnn(2, 16, 8);
  cifar.adapter = "lora:r=8";
  EXPECT_THAT([&] { (void)cifar.params(); }, ThrowsMessage<InputError>(HasSubstr("adapter is for transformers")));
  Workload text = decoder();
  text.adapter = "rola";
  EXPECT_THAT([&] { (void)text.graph(); }, ThrowsMessage<InputError>(HasSubstr("rola")));
}

}  // namespace
}  // namespace perfpred
