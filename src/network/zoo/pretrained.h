// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "network/network_builder.h"

namespace perfpred {

/// How a block joins attention and MLP to what goes through it.
enum class BlockForm : std::uint8_t {
  sequential,  ///< x + attention(norm(x)), then x + mlp(norm(x))
  parallel,    ///< x + attention(y) + mlp(y), y = norm(x)
  parallel2,   ///< with a norm for each
  sandwich,    ///< sequential, with a norm behind each, too
  post         ///< norm(x + attention(x)), then norm(x + mlp(x)): BERT's
};

/// Stages of a Swin, each of which halves the image and doubles the width.
struct SwinStages {
  std::vector<std::int64_t> depths, heads;  ///< a number for each stage; empty: no Swin
  std::int64_t window = 7;                  ///< rows and columns
  double mlp_ratio = 4, stochastic_depth = 0.1;
  bool positions = false;  ///< a learned embedding of each patch's
};

/// Names of a transformer's parts. What a file of weights calls them; of most families of transformers, Llama's.
struct PartNames {
  std::string_view root = "model", words = "embed_tokens", types = "token_type_embeddings",
                   positions = "embed_positions", first_norm = "embed_norm";
  std::string_view block = "model.layers.";  ///< before its number; the next ones are inside a block
  std::string_view norm1 = "input_layernorm", norm2 = "post_attention_layernorm";
  std::string_view qkv = "self_attn.qkv_proj", q = "self_attn.q_proj", k = "self_attn.k_proj", v = "self_attn.v_proj",
                   out = "self_attn.o_proj", attention = "attention", attention_norm = "attention.norm";
  std::string_view gate = "mlp.gate_proj", up = "mlp.up_proj", gate_up = "mlp.gate_up_proj", down = "mlp.down_proj",
                   mlp = "mlp", mlp_norm = "output.norm";
  std::string_view last_norm = "model.norm", head_root = {}, transform = "head.transform", head_norm = "head.norm",
                   head = "lm_head";
  std::string_view patches = "projection", token = "cls_token";  ///< of images
};

inline constexpr PartNames llama_parts;

/// A transformer in numbers: one of the package transformers, or another that is built of the same parts.
struct TransformerDescription {
  std::string name = "the network";  ///< in messages
  const PartNames* names = &llama_parts;
  /// Else attention's sum is x's second term, queries, keys and values are chunks of equal width, few heads of keys
  /// need sdpa, and the loss is not the network's own.
  bool of_transformers = true;
  std::int64_t layers = 0, hidden = 0, heads = 0;
  std::int64_t kv_heads = 0;  ///< 0: as many as heads
  std::int64_t head_dim = 0;  ///< 0: hidden / heads
  std::int64_t inner = 0;     ///< of the MLP; 0: 4 hidden
  std::int64_t words = 0;
  std::int64_t positions = 0;       ///< 0: as many as the input has
  std::int64_t padding_places = 0;  ///< of the positions, those that no word has: they begin behind that of padding

  BlockForm form = BlockForm::sequential;
  LayerKind norm = LayerKind::llama_norm, activation = LayerKind::silu;
  double norm_epsilon = 1e-6;
  bool gated = true;  ///< the MLP: down(activation(gate(x)) up(x)), else down(activation(up(x)))
  bool fused_qkv = false, fused_gate_up = false;
  bool qkv_bias = false, out_bias = false, mlp_bias = false, head_bias = false;
  bool qk_norm = false;  ///< of each head
  bool tied = false;     ///< the head has the embedding's weight
  bool causal = true;
  bool masked = false;  ///< causal attention by a mask of all pairs of positions
  double rotary = 1;    ///< share of each head that is turned; 0: none
  bool learned_positions = false;
  bool scaled_embedding = false, scaled_residuals = false, scaled_logits = false;
  bool attention_cap = false, logit_cap = false;  ///< tanh of scores, of logits
  bool drops_embedding = true;                    ///< `dropout` also behind the embedding
  double dropout = 0;                             ///< behind the embedding, attention and MLP
  double attention_dropout = 0;

  std::int64_t experts = 0, top_k = 0;  ///< 0: one MLP
  std::int64_t expert_inner = 0;        ///< of each expert
  std::int64_t shared_inner = 0;        ///< of the MLP that every word goes through, too; 0: none
  bool shared_gate = false;             ///< the shared MLP times a sigmoid

  // Of words without a head over the next one.
  std::int64_t token_types = 0;  ///< an embedding of them; a norm follows the embeddings
  // Of images: NxSxC of patches, and a class token.
  std::int64_t patch = 0, image = 0, channels = 3, labels = 1000;
  bool unit_scales = false;   ///< of what attention and MLP add
  bool mean_patches = false;  ///< the classifier also sees the mean of all patches
  SwinStages stages = {};

  std::string quantization;  ///< how a file says that the weights are packed: `gptq, 4 bits`; empty: they are not
};

/// A class of networks of transformers, and how its config.json says what a network is like.
struct Architecture {
  std::string_view model_type;   ///< `llama`
  std::string_view names;        ///< of classes, a space between two
  TransformerDescription usual;  ///< what holds where config.json is silent, as in the class's configuration
};

/// A network by name: `llama3.2_1b`, as its config.json says.
struct KnownTransformer {
  std::string_view name;
  std::string_view alias;         ///< on the Hub, in lower case
  std::string_view architecture;  ///< Architecture::model_type
  std::int64_t layers, hidden, heads, kv_heads, inner, words, positions;
  bool tied = false;
  std::int64_t head_dim = 0;
  void (*more)(TransformerDescription& description) = nullptr;
};

[[nodiscard]] std::span<const Architecture> architectures();
/// What holds where a class's config.json is silent. @param model_type  of one of architectures()
[[nodiscard]] const TransformerDescription& usual_of(std::string_view model_type);
[[nodiscard]] std::span<const KnownTransformer> known_networks();
/// By name or alias; null if there is none.
[[nodiscard]] const KnownTransformer* find_known_network(std::string_view name);
[[nodiscard]] TransformerDescription describe(const KnownTransformer& network);

/// A transformer of words: `transformer:layers=12,hidden=768,heads=12,vocab=30522` and options (docs/networks.md). Its
/// name is canonical.
/// @throws InputError for sizes that are missing, and values that an option does not have
[[nodiscard]] TransformerDescription parse_transformer(std::string_view name);

/// The network that a config.json describes.
/// @param place  of the text, in front of messages
/// @throws InputError for a text that is not JSON, an architecture that is not known, a size that is missing or wrong
[[nodiscard]] TransformerDescription read_config(std::string_view text, const std::string& place);

/// The description of a network that add_config() or add_config_text() was given; nothing if it is not known.
[[nodiscard]] std::optional<TransformerDescription> find_config(std::string_view name);

/// The description of a transformer by its canonical name: one of the zoo, known_networks(), a config.json's,
/// `transformer:...`; nothing for other networks.
/// @throws InputError for a file that was not given, and as parse_transformer()
[[nodiscard]] std::optional<TransformerDescription> find_transformer(std::string_view name);
/// The same for ViT, BERT and GPT-2 of the zoo alone.
[[nodiscard]] std::optional<TransformerDescription> find_zoo_transformer(std::string_view name);

[[nodiscard]] inline bool is_config(std::string_view name) { return name.starts_with("config:"); }

/// @throws InputError if the builder's input or classes do not fit
void build_pretrained(NetworkBuilder& builder, const TransformerDescription& description);
void build_swin(NetworkBuilder& builder, const TransformerDescription& description);  ///< @copydoc build_pretrained

}  // namespace perfpred
