// SPDX-License-Identifier: Apache-2.0
// Sizes as in the config.json that the authors publish with the weights on the Hugging Face Hub.
#include <algorithm>
#include <array>
#include <map>

#include <perfpred/network.h>

#include "network/zoo/pretrained.h"

namespace perfpred {
namespace {

using Description = TransformerDescription;

template <int percent>
void rotary_share(Description& d) {
  d.rotary = percent / 100.0;
}

template <std::int64_t inner, std::int64_t experts, std::int64_t top_k>
void expert_sizes(Description& d) {
  d.expert_inner = inner;
  d.experts = experts;
  d.top_k = top_k;
}

void two_norms(Description& d) { d.form = BlockForm::parallel2; }
void qkv_bias(Description& d) { d.qkv_bias = true; }
void one_token_type(Description& d) { d.token_types = 1; }

void dinov2_giant(Description& d) {
  d.gated = true;
  d.activation = LayerKind::silu;
}

constexpr std::int64_t k128 = 131072;

const auto hub_networks = std::to_array<KnownTransformer>({
    // name, on the Hub, architecture, layers, hidden, heads, of keys, MLP, words, positions, tied, width of a head
    {"baichuan2_7b", "baichuan-inc/baichuan2-7b-base", "baichuan", 32, 4096, 32, 32, 11008, 125696, 4096},
    {"chatglm3_6b", "thudm/chatglm3-6b", "chatglm", 28, 4096, 32, 2, 13696, 65024, 8192},
    {"codellama_7b", "codellama/codellama-7b-hf", "llama", 32, 4096, 32, 32, 11008, 32016, 16384},
    {"deepseek_r1_llama_8b", "deepseek-ai/deepseek-r1-distill-llama-8b", "llama", 32, 4096, 32, 8, 14336, 128256, k128},
    {"deepseek_r1_qwen_7b", "deepseek-ai/deepseek-r1-distill-qwen-7b", "qwen2", 28, 3584, 28, 4, 18944, 152064, k128},
    {"deit_b_16", "facebook/deit-base-patch16-224", "vit", 12, 768, 12, 0, 3072, 0, 0},
    {"deit_s_16", "facebook/deit-small-patch16-224", "vit", 12, 384, 6, 0, 1536, 0, 0},
    {"deit_ti_16", "facebook/deit-tiny-patch16-224", "vit", 12, 192, 3, 0, 768, 0, 0},
    {"dinov2_b14", "facebook/dinov2-base", "dinov2", 12, 768, 12, 0, 3072, 0, 0},
    {"dinov2_g14", "facebook/dinov2-giant", "dinov2", 40, 1536, 24, 0, 4096, 0, 0, false, 0, dinov2_giant},
    {"dinov2_l14", "facebook/dinov2-large", "dinov2", 24, 1024, 16, 0, 4096, 0, 0},
    {"distilbert_base", "distilbert/distilbert-base-uncased", "distilbert", 6, 768, 12, 12, 3072, 30522, 512, true},
    {"distilgpt2", "distilbert/distilgpt2", "gpt2", 6, 768, 12, 12, 3072, 50257, 1024, true},
    {"distilroberta_base", "distilbert/distilroberta-base", "roberta", 6, 768, 12, 12, 3072, 50265, 514, true, 0,
     one_token_type},
    {"falcon_40b", "tiiuae/falcon-40b", "falcon", 60, 8192, 128, 8, 32768, 65024, 2048, true, 0, two_norms},
    {"falcon_7b", "tiiuae/falcon-7b", "falcon", 32, 4544, 71, 1, 18176, 65024, 2048, true},
    {"gemma2_27b", "google/gemma-2-27b", "gemma2", 46, 4608, 32, 16, 36864, 256000, 8192, true, 128},
    {"gemma2_2b", "google/gemma-2-2b", "gemma2", 26, 2304, 8, 4, 9216, 256000, 8192, true, 256},
    {"gemma2_9b", "google/gemma-2-9b", "gemma2", 42, 3584, 16, 8, 14336, 256000, 8192, true, 256},
    {"gemma3_12b", "google/gemma-3-12b", "gemma3", 48, 3840, 16, 8, 15360, 262208, k128, true, 256},
    {"gemma3_1b", "google/gemma-3-1b", "gemma3", 26, 1152, 4, 1, 6912, 262144, 32768, true, 256},
    {"gemma3_270m", "google/gemma-3-270m", "gemma3", 18, 640, 4, 1, 2048, 262144, 32768, true, 256},
    {"gemma3_27b", "google/gemma-3-27b", "gemma3", 62, 5376, 32, 16, 21504, 262208, k128, true, 128},
    {"gemma3_4b", "google/gemma-3-4b", "gemma3", 34, 2560, 8, 4, 10240, 262208, k128, true, 256},
    {"gemma_2b", "google/gemma-2b", "gemma", 18, 2048, 8, 1, 16384, 256000, 8192, true, 256},
    {"gemma_7b", "google/gemma-7b", "gemma", 28, 3072, 16, 16, 24576, 256000, 8192, true, 256},
    {"gpt_neox_20b", "eleutherai/gpt-neox-20b", "gpt_neox", 44, 6144, 64, 64, 24576, 50432, 2048},
    {"granite3_1b_a400m", "ibm-granite/granite-3.0-1b-a400m-base", "granitemoe", 24, 1024, 16, 8, 512, 49155, 4096,
     true, 0, expert_sizes<512, 32, 8>},
    {"granite3_3b_a800m", "ibm-granite/granite-3.0-3b-a800m-base", "granitemoe", 32, 1536, 24, 8, 512, 49155, 4096,
     true, 0, expert_sizes<512, 40, 8>},
    {"llama2_13b", "meta-llama/llama-2-13b-hf", "llama", 40, 5120, 40, 40, 13824, 32000, 4096},
    {"llama2_70b", "meta-llama/llama-2-70b-hf", "llama", 80, 8192, 64, 8, 28672, 32000, 4096},
    {"llama2_7b", "meta-llama/llama-2-7b-hf", "llama", 32, 4096, 32, 32, 11008, 32000, 4096},
    {"llama3.1_405b", "meta-llama/llama-3.1-405b", "llama", 126, 16384, 128, 8, 53248, 128256, k128},
    {"llama3.1_70b", "meta-llama/llama-3.1-70b", "llama", 80, 8192, 64, 8, 28672, 128256, k128},
    {"llama3.1_8b", "meta-llama/llama-3.1-8b", "llama", 32, 4096, 32, 8, 14336, 128256, k128},
    {"llama3.2_1b", "meta-llama/llama-3.2-1b", "llama", 16, 2048, 32, 8, 8192, 128256, k128, true},
    {"llama3.2_3b", "meta-llama/llama-3.2-3b", "llama", 28, 3072, 24, 8, 8192, 128256, k128, true},
    {"llama3.3_70b", "meta-llama/llama-3.3-70b", "llama", 80, 8192, 64, 8, 28672, 128256, k128},
    {"llama3_70b", "meta-llama/meta-llama-3-70b", "llama", 80, 8192, 64, 8, 28672, 128256, 8192},
    {"llama3_8b", "meta-llama/meta-llama-3-8b", "llama", 32, 4096, 32, 8, 14336, 128256, 8192},
    {"llama_13b", "huggyllama/llama-13b", "llama", 40, 5120, 40, 40, 13824, 32000, 2048},
    {"llama_30b", "huggyllama/llama-30b", "llama", 60, 6656, 52, 52, 17920, 32000, 2048},
    {"llama_65b", "huggyllama/llama-65b", "llama", 80, 8192, 64, 64, 22016, 32000, 2048},
    {"llama_7b", "huggyllama/llama-7b", "llama", 32, 4096, 32, 32, 11008, 32000, 2048},
    {"ministral_8b", "mistralai/ministral-8b-instruct-2410", "mistral", 36, 4096, 32, 8, 12288, 131072, 32768, false,
     128},
    {"mistral_7b", "mistralai/mistral-7b-v0.1", "mistral", 32, 4096, 32, 8, 14336, 32000, 4096},
    {"mistral_nemo_12b", "mistralai/mistral-nemo-base-2407", "mistral", 40, 5120, 32, 8, 14336, 131072, k128, false,
     128},
    {"mistral_small_24b", "mistralai/mistral-small-24b-base-2501", "mistral", 40, 5120, 32, 8, 32768, 131072, 32768,
     false, 128},
    {"mixtral_8x22b", "mistralai/mixtral-8x22b-v0.1", "mixtral", 56, 6144, 48, 8, 16384, 32000, 65536, false, 0,
     expert_sizes<16384, 8, 2>},
    {"mixtral_8x7b", "mistralai/mixtral-8x7b-v0.1", "mixtral", 32, 4096, 32, 8, 14336, 32000, 32768},
    {"opt_1.3b", "facebook/opt-1.3b", "opt", 24, 2048, 32, 32, 8192, 50272, 2050, true},
    {"opt_125m", "facebook/opt-125m", "opt", 12, 768, 12, 12, 3072, 50272, 2050, true},
    {"opt_13b", "facebook/opt-13b", "opt", 40, 5120, 40, 40, 20480, 50272, 2050, true},
    {"opt_2.7b", "facebook/opt-2.7b", "opt", 32, 2560, 32, 32, 10240, 50272, 2050, true},
    {"opt_30b", "facebook/opt-30b", "opt", 48, 7168, 56, 56, 28672, 50272, 2050, true},
    {"opt_6.7b", "facebook/opt-6.7b", "opt", 32, 4096, 32, 32, 16384, 50272, 2050, true},
    {"opt_66b", "facebook/opt-66b", "opt", 64, 9216, 72, 72, 36864, 50272, 2050, true},
    {"phi1.5", "microsoft/phi-1_5", "phi", 24, 2048, 32, 32, 8192, 51200, 2048},
    {"phi2", "microsoft/phi-2", "phi", 32, 2560, 32, 32, 10240, 51200, 2048, false, 0, rotary_share<40>},
    {"phi3.5_mini", "microsoft/phi-3.5-mini-instruct", "phi3", 32, 3072, 32, 32, 8192, 32064, k128},
    {"phi3_medium", "microsoft/phi-3-medium-4k-instruct", "phi3", 40, 5120, 40, 10, 17920, 32064, 4096},
    {"phi3_mini", "microsoft/phi-3-mini-4k-instruct", "phi3", 32, 3072, 32, 32, 8192, 32064, 4096},
    {"phi4", "microsoft/phi-4", "phi3", 40, 5120, 40, 10, 17920, 100352, 16384},
    {"phi4_mini", "microsoft/phi-4-mini-instruct", "phi3", 32, 3072, 24, 8, 8192, 200064, k128, true, 0,
     rotary_share<75>},
    {"pythia_1.4b", "eleutherai/pythia-1.4b", "gpt_neox", 24, 2048, 16, 16, 8192, 50304, 2048},
    {"pythia_12b", "eleutherai/pythia-12b", "gpt_neox", 36, 5120, 40, 40, 20480, 50688, 2048},
    {"pythia_160m", "eleutherai/pythia-160m", "gpt_neox", 12, 768, 12, 12, 3072, 50304, 2048},
    {"pythia_1b", "eleutherai/pythia-1b", "gpt_neox", 16, 2048, 8, 8, 8192, 50304, 2048},
    {"pythia_2.8b", "eleutherai/pythia-2.8b", "gpt_neox", 32, 2560, 32, 32, 10240, 50304, 2048},
    {"pythia_410m", "eleutherai/pythia-410m", "gpt_neox", 24, 1024, 16, 16, 4096, 50304, 2048},
    {"pythia_6.9b", "eleutherai/pythia-6.9b", "gpt_neox", 32, 4096, 32, 32, 16384, 50432, 2048},
    {"pythia_70m", "eleutherai/pythia-70m", "gpt_neox", 6, 512, 8, 8, 2048, 50304, 2048},
    {"qwen1.5_7b", "qwen/qwen1.5-7b", "qwen2", 32, 4096, 32, 32, 11008, 151936, 32768},
    {"qwen1.5_moe_a2.7b", "qwen/qwen1.5-moe-a2.7b", "qwen2_moe", 24, 2048, 16, 16, 5632, 151936, 8192},
    {"qwen2.5_0.5b", "qwen/qwen2.5-0.5b", "qwen2", 24, 896, 14, 2, 4864, 151936, 32768, true},
    {"qwen2.5_1.5b", "qwen/qwen2.5-1.5b", "qwen2", 28, 1536, 12, 2, 8960, 151936, k128, true},
    {"qwen2.5_14b", "qwen/qwen2.5-14b", "qwen2", 48, 5120, 40, 8, 13824, 152064, k128},
    {"qwen2.5_32b", "qwen/qwen2.5-32b", "qwen2", 64, 5120, 40, 8, 27648, 152064, k128},
    {"qwen2.5_3b", "qwen/qwen2.5-3b", "qwen2", 36, 2048, 16, 2, 11008, 151936, 32768, true},
    {"qwen2.5_72b", "qwen/qwen2.5-72b", "qwen2", 80, 8192, 64, 8, 29568, 152064, k128},
    {"qwen2.5_7b", "qwen/qwen2.5-7b", "qwen2", 28, 3584, 28, 4, 18944, 152064, k128},
    {"qwen2_0.5b", "qwen/qwen2-0.5b", "qwen2", 24, 896, 14, 2, 4864, 151936, k128, true},
    {"qwen2_1.5b", "qwen/qwen2-1.5b", "qwen2", 28, 1536, 12, 2, 8960, 151936, k128, true},
    {"qwen2_72b", "qwen/qwen2-72b", "qwen2", 80, 8192, 64, 8, 29568, 152064, k128},
    {"qwen2_7b", "qwen/qwen2-7b", "qwen2", 28, 3584, 28, 4, 18944, 152064, k128},
    {"qwen3_0.6b", "qwen/qwen3-0.6b", "qwen3", 28, 1024, 16, 8, 3072, 151936, 40960, true, 128},
    {"qwen3_1.7b", "qwen/qwen3-1.7b", "qwen3", 28, 2048, 16, 8, 6144, 151936, 40960, true, 128},
    {"qwen3_14b", "qwen/qwen3-14b", "qwen3", 40, 5120, 40, 8, 17408, 151936, 40960, false, 128},
    {"qwen3_30b_a3b", "qwen/qwen3-30b-a3b", "qwen3_moe", 48, 2048, 32, 4, 6144, 151936, 40960, false, 128},
    {"qwen3_32b", "qwen/qwen3-32b", "qwen3", 64, 5120, 64, 8, 25600, 151936, 40960, false, 128},
    {"qwen3_4b", "qwen/qwen3-4b", "qwen3", 36, 2560, 32, 8, 9728, 151936, 40960, true, 128},
    {"qwen3_8b", "qwen/qwen3-8b", "qwen3", 36, 4096, 32, 8, 12288, 151936, 40960, false, 128},
    {"qwen_7b", "qwen/qwen-7b", "qwen", 32, 4096, 32, 32, 11008, 151936, 8192},
    {"roberta_base", "facebookai/roberta-base", "roberta", 12, 768, 12, 12, 3072, 50265, 514, true, 0, one_token_type},
    {"roberta_large", "facebookai/roberta-large", "roberta", 24, 1024, 16, 16, 4096, 50265, 514, true, 0,
     one_token_type},
    {"smollm2_1.7b", "huggingfacetb/smollm2-1.7b", "llama", 24, 2048, 32, 32, 8192, 49152, 8192, true},
    {"smollm2_135m", "huggingfacetb/smollm2-135m", "llama", 30, 576, 9, 3, 1536, 49152, 8192, true},
    {"smollm2_360m", "huggingfacetb/smollm2-360m", "llama", 32, 960, 15, 5, 2560, 49152, 8192, true},
    {"smollm_1.7b", "huggingfacetb/smollm-1.7b", "llama", 24, 2048, 32, 32, 8192, 49152, 2048, true},
    {"smollm_135m", "huggingfacetb/smollm-135m", "llama", 30, 576, 9, 3, 1536, 49152, 2048, true},
    {"smollm_360m", "huggingfacetb/smollm-360m", "llama", 32, 960, 15, 5, 2560, 49152, 2048, true},
    {"stablelm2_1.6b", "stabilityai/stablelm-2-1_6b", "stablelm", 24, 2048, 32, 32, 5632, 100352, 4096, false, 0,
     qkv_bias},
    {"stablelm_3b", "stabilityai/stablelm-3b-4e1t", "stablelm", 32, 2560, 32, 32, 6912, 50304, 4096},
    {"tinyllama_1.1b", "tinyllama/tinyllama-1.1b-intermediate-step-1431k-3t", "llama", 22, 2048, 32, 4, 5632, 32000,
     2048},
    {"vicuna_13b", "lmsys/vicuna-13b-v1.5", "llama", 40, 5120, 40, 40, 13824, 32000, 4096},
    {"vicuna_7b", "lmsys/vicuna-7b-v1.5", "llama", 32, 4096, 32, 32, 11008, 32000, 4096},
    {"vit_s_16", "winkawaks/vit-small-patch16-224", "vit", 12, 384, 6, 0, 1536, 0, 0},
    {"vit_ti_16", "winkawaks/vit-tiny-patch16-224", "vit", 12, 192, 3, 0, 768, 0, 0},
    {"xlm_roberta_base", "facebookai/xlm-roberta-base", "roberta", 12, 768, 12, 12, 3072, 250002, 514, true, 0,
     one_token_type},
    {"xlm_roberta_large", "facebookai/xlm-roberta-large", "roberta", 24, 1024, 16, 16, 4096, 250002, 514, true, 0,
     one_token_type},
    {"yi_34b", "01-ai/yi-34b", "llama", 60, 7168, 56, 8, 20480, 64000, 4096},
    {"yi_6b", "01-ai/yi-6b", "llama", 32, 4096, 32, 4, 11008, 64000, 4096},
});

/// Without what says how the weights were trained further.
std::string_view stem(std::string_view name) {
  for (const std::string_view ending : {"-instruct", "-chat-hf", "-chat", "-it", "-pt", "-base", "-hf"}) {
    if (name.ends_with(ending)) name.remove_suffix(ending.size());
  }
  return name;
}

}  // namespace

std::span<const KnownTransformer> known_networks() { return hub_networks; }

std::span<const std::string_view> known_transformers() {
  static const std::vector<std::string_view> names = [] {
    std::vector<std::string_view> all;
    for (const KnownTransformer& network : hub_networks) all.push_back(network.name);
    std::sort(all.begin(), all.end());
    return all;
  }();
  return names;
}

const KnownTransformer* find_known_network(std::string_view name) {
  // By name, alias, and alias without its owner, the last two also without what says how weights were trained further.
  static const std::map<std::string_view, const KnownTransformer*> by_text = [] {
    std::map<std::string_view, const KnownTransformer*> all;
    for (const KnownTransformer& network : hub_networks) all.emplace(network.name, &network);
    for (const KnownTransformer& network : hub_networks) {
      for (const std::string_view text : {network.alias, network.alias.substr(network.alias.find('/') + 1)}) {
        all.emplace(text, &network);
        all.emplace(stem(text), &network);
      }
    }
    return all;
  }();
  auto found = by_text.find(name);
  if (found == by_text.end()) found = by_text.find(stem(name));
  return found == by_text.end() ? nullptr : found->second;
}

TransformerDescription describe(const KnownTransformer& network) {
  TransformerDescription d = usual_of(network.architecture);
  d.name = network.name;
  d.layers = network.layers;
  d.hidden = network.hidden;
  d.heads = network.heads;
  d.kv_heads = network.kv_heads;
  d.inner = network.inner;
  d.words = network.words;
  d.positions = network.positions;
  d.tied = network.tied;
  d.head_dim = network.head_dim;
  if (network.more != nullptr) network.more(d);
  return d;
}

}  // namespace perfpred
