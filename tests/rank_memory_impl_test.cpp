// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/parallel_layout.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "network/zoo/pretrained.h"
#include "parallel/layer_bytes.h"
#include "parallel/megatron_program.h"
#include "parallel/rank_memory.h"
#include "parallel/stages.h"
#include "refusal.h"

namespace perfpred::testing {
namespace {

constexpr double mebibyte = 1 << 20;

RankRequest request_of(std::string_view network, std::int64_t words, std::string_view layout,
                       std::string_view placement) {
  RankRequest request;
  request.network = find_transformer(network).value();
  request.layout = ParallelLayout::parse(layout).on(Placement::parse(placement));
  request.words = words;
  return request;
}

/// The GPT of Megatron-LM's own tests: 12 layers of 512 with 8 heads, 1,024 words, batches of 4.
RankRequest small_gpt(std::string_view layout, std::string_view placement = "8") {
  RankRequest request = request_of("transformer:layers=12,hidden=512,heads=8,vocab=50257", 1024, layout, placement);
  request.micro_batch = 4;
  request.micro_batches = 8;
  return request;
}

double part(const RankMemory& rank, std::string_view name) {
  const auto found = std::find_if(rank.parts.begin(), rank.parts.end(), [&](const auto& p) { return p.name == name; });
  return found == rank.parts.end() ? 0 : found->bytes;
}

double of_kind(const RankMemory& rank, PartKind kind) {
  double bytes = 0;
  for (const RankPart& p : rank.parts) bytes += p.kind == kind ? p.bytes : 0;
  return bytes;
}

double saved(const RankRequest& request, AttentionKernel attention) {
  double bytes = 0;
  for (const RankPart& p : layer_bytes(request, attention).saved) bytes += p.bytes;
  return bytes / mebibyte;
}

TEST(RankMemory, ALayerSavesWhatMegatronsTestsShow) {
  // Differences of peaks between tests with more and fewer layers on a rank.
  EXPECT_NEAR(saved(small_gpt("pp=4"), AttentionKernel::unfused), 228, 0.5);
  EXPECT_NEAR(saved(small_gpt("pp=4"), AttentionKernel::flash), 72, 0.5);
  EXPECT_NEAR(saved(small_gpt("tp=2"), AttentionKernel::unfused), 124, 0.5);
}

TEST(RankMemory, TheLastStageHoldsWhatMegatronsTestShows) {
  // tp1 pp4: 1,875 MiB more at the peak than after the step. The first stage holds four micro-batches of its layers.
  RankRequest request = small_gpt("pp=4");
  request.program.attention = AttentionKernel::unfused;
  const std::vector<RankMemory> ranks = rank_memory(request);
  ASSERT_EQ(ranks.size(), 4U);
  EXPECT_NEAR(of_kind(ranks[3], PartKind::activations) / mebibyte, 1875, 19);
  EXPECT_NEAR(part(ranks[3], "logits") + part(ranks[3], "loss"), 6.0 * 4096 * 50304, 1);
  EXPECT_NEAR(part(ranks[0], "softmax"), 12 * 64 * mebibyte, 1);
  EXPECT_EQ(part(ranks[0], "logits"), 0);
  EXPECT_EQ(fullest(ranks).stage, 0);
}

TEST(RankMemory, SequenceAndContextParallelismShareWords) {
  const LayerBytes whole = layer_bytes(small_gpt("tp=2"), AttentionKernel::flash);
  const LayerBytes shared = layer_bytes(small_gpt("tp=2,sp=1"), AttentionKernel::flash);
  EXPECT_EQ(shared.saved.front().name, "norm_inputs");
  EXPECT_EQ(shared.saved.front().bytes, whole.saved.front().bytes / 2);
  EXPECT_NEAR(saved(small_gpt("cp=2"), AttentionKernel::flash), 36, 0.5);
  // Scores of half of the rows with all keys.
  EXPECT_NEAR(saved(small_gpt("cp=2"), AttentionKernel::unfused), 114, 0.5);
}

TEST(RankMemory, RecomputationKeepsLayerInputs) {
  RankRequest request = small_gpt("tp=2");
  request.program.recompute = Recompute::layers;
  EXPECT_NEAR(saved(request, AttentionKernel::unfused), 4, 0.01);
  request.program.recompute = Recompute::core_attention;
  EXPECT_NEAR(saved(request, AttentionKernel::unfused), 124 - 80, 0.5);  // softmax, its dropout's output and mask
}

TEST(RankMemory, CountsGpt2sParameters) {
  // Transformers' GPT2LMHeadModel has 124,439,808; its 50,257 words are padded to 50,304.
  RankRequest request = request_of("gpt2", 1024, "zero1", "8");
  const RankMemory one = rank_memory(request).front();
  const double count = 124'439'808 + 47 * 768;
  EXPECT_EQ(part(one, "parameters"), 2 * count);
  EXPECT_EQ(part(one, "gradients"), 4 * count);
  EXPECT_NEAR(part(one, "master_weights"), 4 * count / 8, 1);
  EXPECT_NEAR(part(one, "optimizer_states"), 8 * count / 8, 1);

  // Two devices: columns of the first matrices, rows of the second; norms, positions and biases of rows are not shared.
  request = request_of("gpt2", 1024, "tp=2", "8");
  const double layer = (768 * 2304 + 2304) / 2 + (768 * 768 / 2 + 768) + 4 * 768 + (2 * 768 * 3072 + 3072) / 2 + 768;
  EXPECT_EQ(part(rank_memory(request).front(), "parameters"),
            2 * (12 * layer + 50432 / 2 * 768 + 1024 * 768 + 2 * 768));
}

TEST(RankMemory, StagesOfLlamaHaveItsParametersInAll) {
  // Touvron et al. 2023 and Hugging Face's LlamaForCausalLM: 6,738,415,616; 32,000 words need no padding.
  double bytes = 0;
  for (const RankMemory& rank : rank_memory(request_of("llama2_7b", 4096, "pp=8", "8")))
    bytes += part(rank, "parameters");
  EXPECT_EQ(bytes, 2.0 * 6'738'415'616);
}

TEST(RankMemory, ExpertsOfMixtralAreShared) {
  // Hugging Face's MixtralForCausalLM has 46,702,792,704, of them 32 x 8 experts of 3 x 4096 x 14336.
  const double all = 46'702'792'704.0, experts = 32 * 8 * 3.0 * 4096 * 14336;
  const std::string name =
      "transformer:layers=32,hidden=4096,heads=32,vocab=32000,norm=rms,positions=rotary,kv_heads=8,mlp=swiglu,"
      "mlp_hidden=14336,experts=8,bias=0,tied=0,dropout=0";
  EXPECT_EQ(part(rank_memory(request_of(name, 4096, "ddp", "8")).front(), "parameters"), 2 * all);
  const RankMemory rank = rank_memory(request_of(name, 4096, "zero1+ep=4", "8")).front();
  EXPECT_EQ(part(rank, "parameters"), 2 * (all - experts + experts / 4));
  EXPECT_NEAR(part(rank, "optimizer_states"), 8 * ((all - experts) / 8 + experts / 4 / 2), 1);
}

TEST(RankMemory, Fp16CopiesItsGradientsAfterTheBackwardPass) {
  RankRequest request = request_of("gpt2_xl", 1024, "ddp", "2");
  request.precision = Precision::fp16;
  const RankMemory rank = rank_memory(request).front();
  const double count = part(rank, "parameters") / 2;
  EXPECT_EQ(part(rank, "gradients"), 2 * count);
  EXPECT_NEAR(of_kind(rank, PartKind::activations) + part(rank, "main_gradients"), 4 * count, 64);
}

TEST(RankMemory, BoundsWhatTheSoftwareMayDo) {
  RankRequest request = small_gpt("ddp");
  request.program.deterministic = true;
  const RankMemory unknown = rank_memory(request).front();
  request.program.deterministic_flash = true;
  const RankMemory flash = rank_memory(request).front();
  request.program.deterministic_flash = false;
  const RankMemory unfused = rank_memory(request).front();
  EXPECT_EQ(unknown.tensors.p50, flash.tensors.p50);
  EXPECT_EQ(unknown.tensors.upper, unfused.tensors.upper);
  EXPECT_GT(unfused.tensors.p50, flash.tensors.p50);
  EXPECT_GT(flash.tensors.upper, flash.tensors.p50);
  // Of other stages than the last no peak is known.
  const std::vector<RankMemory> ranks = rank_memory(small_gpt("pp=2"));
  const auto ratio = [](const RankMemory& r) {
    return static_cast<double>(r.tensors.upper) / static_cast<double>(r.tensors.p50);
  };
  EXPECT_GT(ratio(ranks[0]), ratio(ranks[1]) + 0.01);
}

TEST(RankMemory, HoldsMicroBatchesAsItsScheduleDoes) {
  // Narayanan et al. 2021, section 2.2.1: at most as many as there are stages.
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    EXPECT_EQ(in_flight(stage, 4, 1, 8), std::vector<std::int64_t>{4 - stage});
  }
  EXPECT_EQ(in_flight(0, 4, 1, 2), std::vector<std::int64_t>{2});
  // Korthikanti et al. 2022, section 4.2.3: L (1 + (p - 1) / (p m)) layers on the first stage; L = 12, p = 4, m = 3.
  EXPECT_EQ(in_flight(0, 4, 3, 8), (std::vector<std::int64_t>{7, 4, 4}));
  EXPECT_EQ(in_flight(3, 4, 3, 8), (std::vector<std::int64_t>{4, 4, 1}));
  EXPECT_EQ(in_flight(0, 4, 2, 4), (std::vector<std::int64_t>{4, 4}));  // 8 passes in all, fewer than 11
}

TEST(RankMemory, RefusesWhatDoesNotDivide) {
  struct Wrong {
    const char* layout;
    const char* message;
  };
  for (const Wrong& wrong :
       std::vector<Wrong>{{"tp=3", "tp = 3 of parallel does not divide 8 heads; 2 and 4 do"},
                          {"pp=8", "pp x vp = 8 of parallel does not divide 12 layers; 6 and 12 do"},
                          {"tp=16", "does not divide 8 heads; 8 does"},
                          {"pp=4,vp=2", "pp x vp = 8"},
                          {"cp=3", "2 cp = 6 of parallel does not divide 1024 words"},
                          {"ep=2", "for networks with experts"},
                          {"fsdp", "only ddp and zero1 are known"}}) {
    const std::string message = refusal([&] { static_cast<void>(rank_memory(small_gpt(wrong.layout, "48"))); });
    EXPECT_NE(message.find(wrong.message), std::string::npos) << wrong.layout << ": " << message;
  }
}

TEST(RankMemory, RefusesSizesOutOfRange) {
  const auto message = [](const RankRequest& request) {
    return refusal([&] { static_cast<void>(rank_memory(request)); });
  };
  RankRequest request = request_of("gpt2", 2048, "tp=2", "2");
  EXPECT_EQ(message(request), "input 2048 does not fit gpt2: it has 1024 positions");
  request.words = 1024;
  request.micro_batches = std::int64_t{1} << 62;
  EXPECT_EQ(message(request), "accumulate is larger than 2^30");
  request.micro_batches = 1;
  request.micro_batch = std::int64_t{1} << 62;
  EXPECT_EQ(message(request), "the network is too large for any device");
}

TEST(RankMemory, ALatentLayerHasTheParametersOfDeepSeeks) {
  // torch: sum(p.numel() for p in DeepseekV3DecoderLayer(DeepseekV3Config(), 0).parameters()), transformers 5.24
  RankRequest request = request_of(
      "transformer:layers=61,hidden=7168,heads=128,vocab=129280,mlp=swiglu,mlp_hidden=18432,positions=rotary,bias=0,"
      "norm=rms",
      4096, "ddp", "8");
  request.program = parse_megatron_program("multi-latent-attention,q-lora-rank=1536,kv-lora-rank=512");
  EXPECT_EQ(layer_parameters(request).dense, 583'483'392);
  request.program = parse_megatron_program("multi-latent-attention,kv-lora-rank=512");
  EXPECT_EQ(layer_parameters(request).dense, 710'883'840);
}

TEST(RankMemory, LatentAttentionIsWithinASixteenthOfMegatronsTest) {
  RankRequest request = request_of("transformer:layers=4,hidden=512,heads=8,vocab=50257", 1024, "tp=2,pp=2,sp=1", "8");
  request.micro_batch = 4;
  request.micro_batches = 4;
  request.program = parse_megatron_program(
      "multi-latent-attention,attention-backend=unfused,deterministic-mode,"
      "deterministic-flash=yes");
  // gpt3_mcore_te_tp2_pp2_mla on A100 and H100: mem-max-allocated-bytes of the last rank
  for (const auto& [since_hopper, measured] : {std::pair(false, 1216200192.0), std::pair(true, 1248256512.0)}) {
    request.since_hopper = since_hopper;
    const RankMemory last = rank_memory(request).back();
    EXPECT_NEAR(static_cast<double>(last.tensors.p50), measured, measured / 16);
    EXPECT_GT(static_cast<double>(last.tensors.upper), measured);
  }
}

TEST(MegatronProgram, ReadsFlags) {
  const MegatronProgram program = parse_megatron_program(
      "attention-backend=flash, deterministic-mode,transformer-impl=local,moe-grouped-gemm=0,deterministic-flash=no");
  EXPECT_EQ(program.attention, AttentionKernel::flash);
  EXPECT_TRUE(program.deterministic);
  EXPECT_FALSE(program.transformer_engine);
  EXPECT_FALSE(program.grouped_gemm);
  EXPECT_EQ(program.deterministic_flash, false);
  const auto message = [](const char* text) {
    return refusal([&] { static_cast<void>(parse_megatron_program(text)); });
  };
  EXPECT_NE(message("determinstic-mode").find("did you mean deterministic-mode?"), std::string::npos);
  EXPECT_NE(message("attention-backend=slow").find("one of auto, flash, fused, unfused, local"), std::string::npos);
  EXPECT_NE(message("fp8=2").find("fp8 \"2\""), std::string::npos);
  EXPECT_EQ(message("kv-lora-rank=8"),
            "program: kv-lora-rank is a width of multi-latent-attention, which is not given");
  EXPECT_NE(message("multi-latent-attention,v-head-dim=65537").find("a number up to 65536"), std::string::npos);
}

}  // namespace
}  // namespace perfpred::testing
