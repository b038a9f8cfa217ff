// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace perfpred {

/// How a GPU computes softmax(q k^T) v.
enum class AttentionKernel : std::uint8_t {
  flash,   ///< FlashAttention
  fused,   ///< cuDNN's
  unfused  ///< products and a softmax of all pairs of positions
};

/// What a layer computes anew in the backward pass.
enum class Recompute : std::uint8_t {
  none,
  core_attention,  ///< Megatron's `selective` with its usual module, core_attn
  layers           ///< `full` and `uniform`, each layer alone
};

/// Multi-latent attention (DeepSeek-AI 2024, DeepSeek-V2, section 2.1), by Megatron-LM's flags and its defaults: keys
/// and values of all heads are made of one short vector of each word.
struct LatentAttention {
  std::int64_t query_rank = 0;  ///< q-lora-rank; 0: queries are made of the word itself
  std::int64_t rank = 32;       ///< kv-lora-rank
  std::int64_t plain = 128;     ///< qk-head-dim: of a head's queries and keys, what has no position
  std::int64_t turned = 64;     ///< qk-pos-emb-head-dim: what rotary embedding turns, one key for all heads
  std::int64_t value = 128;     ///< v-head-dim

  /// Of a head's queries and keys.
  [[nodiscard]] std::int64_t head() const { return plain + turned; }
};

/// How Megatron-LM is run, beside network, layout and precision: the flags of it that change the memory of a rank.
struct MegatronProgram {
  bool transformer_engine = true;            ///< transformer-impl is transformer_engine, else local
  std::optional<AttentionKernel> attention;  ///< attention-backend; empty: the program chooses (auto)
  bool deterministic = false;                ///< deterministic-mode
  /// Whether the software has a FlashAttention that is deterministic: flash-attn since 2.4.1 with Transformer Engine
  /// since 1.7. Empty: unknown; then the bound is that of unfused attention.
  std::optional<bool> deterministic_flash;
  bool fp8 = false;               ///< products of Transformer Engine in 8 bits (fp8-format)
  bool grouped_gemm = false;      ///< moe-grouped-gemm
  bool tp_overlap = false;        ///< tp-comm-overlap
  bool defers_head = false;       ///< defer-embedding-wgrad-compute
  bool half_gradients = false;    ///< gradients in 2 bytes (grad-reduce-in-bf16), as fp16 has them anyway
  std::int64_t instances = 1;     ///< num-distributed-optimizer-instances
  std::int64_t vocabulary = 128;  ///< make-vocab-size-divisible-by
  bool is_latent = false;         ///< multi-latent-attention
  LatentAttention latent;         ///< if it is
  Recompute recompute = Recompute::none;
};

/// Reads words joined by commas, named as Megatron-LM's flags: `attention-backend=flash,deterministic-mode`.
/// @throws InputError for a word that is not one of them, naming the one that is meant, and a value that it cannot have
[[nodiscard]] MegatronProgram parse_megatron_program(std::string_view text);

}  // namespace perfpred
