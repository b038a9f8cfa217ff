// SPDX-License-Identifier: Apache-2.0
// What config.json leaves out is as in the configuration classes of transformers 5.24 (configuration_llama.py and its
// like); of Qwen, Baichuan and ChatGLM as in the code that their authors publish beside the weights.
#include <perfpred/error.h>
#include <perfpred/network.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <deque>
#include <map>
#include <mutex>
#include <nlohmann/json.hpp>
#include <numeric>
#include <optional>
#include <utility>

#include "network/zoo/pretrained.h"
#include "network/zoo/sized_name.h"
#include "text/files.h"
#include "text/json.h"
#include "text/nearest_name.h"
#include "text/parse.h"
#include "text/text_hash.h"

namespace perfpred {
namespace {

using Description = TransformerDescription;
using nlohmann::json;

constexpr std::int64_t places_to_padding = 2;  ///< of RoBERTa and OPT, whose words of padding have the number 1

/// @param inner  of the MLP; 0: 4 hidden
Description sized(Description d, std::int64_t layers, std::int64_t hidden, std::int64_t heads, std::int64_t inner,
                  std::int64_t words, std::int64_t kv_heads = 0) {
  d.layers = layers;
  d.hidden = hidden;
  d.heads = heads;
  d.kv_heads = kv_heads;
  d.inner = inner;
  d.words = words;
  return d;
}

Description llama(std::int64_t kv_heads = 0, std::int64_t inner = 11008, std::int64_t words = 32000) {
  Description d = sized({}, 32, 4096, 32, inner, words, kv_heads);
  d.positions = 2048;
  return d;
}

Description qwen2() {
  Description d = llama(0, 22016, 151936);
  d.qkv_bias = true;
  return d;
}

Description qwen3() {
  Description d = llama(0, 22016, 151936);
  d.head_dim = 128;
  d.qk_norm = true;
  return d;
}

Description mixture(Description d, std::int64_t experts, std::int64_t top_k, std::int64_t inner) {
  d.experts = experts;
  d.top_k = top_k;
  d.expert_inner = inner;
  return d;
}

Description qwen2_moe() {
  Description d = mixture(sized(qwen2(), 24, 2048, 16, 5632, 151936), 60, 4, 1408);
  d.shared_inner = 5632;
  d.shared_gate = true;
  return d;
}

Description qwen3_moe() {
  Description d = mixture(sized(qwen3(), 24, 2048, 32, 6144, 151936, 4), 128, 8, 768);
  d.head_dim = 0;
  return d;
}

Description granite_moe() {
  Description d = mixture(llama(), 8, 2, 11008);
  d.scaled_embedding = d.scaled_residuals = d.scaled_logits = true;
  return d;
}

Description gemma(BlockForm form) {
  Description d =
      form == BlockForm::sequential ? sized({}, 28, 3072, 16, 24576, 256000) : sized({}, 26, 2304, 8, 9216, 256000, 4);
  d.norm = LayerKind::gemma_norm;
  d.activation = LayerKind::gelu_tanh;
  d.tied = d.scaled_embedding = true;
  d.head_dim = 256;
  d.positions = 8192;
  d.form = form;
  return d;
}

Description gemma2() {
  Description d = gemma(BlockForm::sandwich);
  d.attention_cap = d.logit_cap = true;
  return d;
}

Description gemma3() {
  Description d = gemma(BlockForm::sandwich);
  d.words = 262208;
  d.qk_norm = true;
  return d;
}

/// A decoder with layer norms and an MLP without gate.
Description plain(LayerKind activation, bool bias) {
  Description d;
  d.norm = LayerKind::layer_norm;
  d.activation = activation;
  d.gated = false;
  d.qkv_bias = d.out_bias = d.mlp_bias = bias;
  d.positions = 2048;
  return d;
}

Description phi() {
  Description d = sized(plain(LayerKind::gelu_new, true), 24, 2048, 32, 8192, 51200);
  d.form = BlockForm::parallel;
  d.head_bias = true;
  d.rotary = 0.5;
  return d;
}

Description phi3() {
  Description d = sized(llama(), 32, 3072, 32, 8192, 32064);
  d.fused_qkv = d.fused_gate_up = true;
  return d;
}

Description falcon() {
  Description d = sized(plain(LayerKind::gelu, false), 32, 4544, 71, 0, 65024, 1);
  d.form = BlockForm::parallel;
  d.fused_qkv = d.tied = d.masked = true;
  return d;
}

Description stablelm() {
  Description d = sized(plain(LayerKind::silu, false), 32, 2560, 32, 6912, 50304);
  d.gated = true;
  d.rotary = 0.25;
  return d;
}

/// With learned positions and dropout, of 12 layers of 768 numbers.
Description base(LayerKind activation, std::int64_t words) {
  Description d = sized(plain(activation, true), 12, 768, 12, 0, words);
  d.tied = d.learned_positions = true;
  d.rotary = 0;
  d.dropout = d.attention_dropout = 0.1;
  return d;
}

Description gpt2() {
  Description d = base(LayerKind::gelu_new, 50257);
  d.fused_qkv = true;
  d.positions = 1024;
  return d;
}

Description gpt_neox() {
  Description d = sized(plain(LayerKind::gelu, true), 44, 6144, 64, 24576, 50432);
  d.form = BlockForm::parallel2;
  d.fused_qkv = true;
  d.rotary = 0.25;
  return d;
}

Description bert(std::int64_t words) {
  Description d = base(LayerKind::gelu, words);
  d.form = BlockForm::post;
  d.head_bias = true;
  d.causal = false;
  d.token_types = 2;
  d.positions = 512;
  return d;
}

Description roberta() {
  Description d = bert(50265);
  d.padding_places = places_to_padding;
  return d;
}

Description distilbert() {
  Description d = bert(30522);
  d.token_types = 0;
  return d;
}

Description opt() {
  Description d = base(LayerKind::relu, 50272);
  d.attention_dropout = 0;
  d.drops_embedding = false;
  d.padding_places = places_to_padding;
  d.positions += places_to_padding;
  return d;
}

constexpr PartNames vit_parts = {
    .root = "embeddings", .positions = "position_embeddings", .last_norm = "layernorm", .head = "classifier"};

Description vit(std::int64_t patch) {
  Description d = sized(plain(LayerKind::gelu, true), 12, 768, 12, 0, 0);
  d.names = &vit_parts;
  d.causal = false;
  d.rotary = 0;
  d.patch = patch;
  d.image = 224;
  d.positions = 0;
  return d;
}

Description dinov2() {
  Description d = vit(14);
  d.unit_scales = d.mean_patches = true;
  return d;
}

Description swin() {
  Description d = vit(4);
  d.hidden = 96;
  d.stages.depths = {2, 2, 6, 2};
  d.stages.heads = {3, 6, 12, 24};
  return d;
}

Description qwen() {
  Description d = llama(0, 11008, 151936);
  d.qkv_bias = d.fused_qkv = true;
  return d;
}

Description baichuan() {
  Description d = llama(0, 11008, 125696);
  d.fused_qkv = true;
  return d;
}

Description chatglm() {
  Description d = llama(2, 13696, 65024);
  d.layers = 28;
  d.fused_qkv = d.fused_gate_up = d.qkv_bias = true;
  d.rotary = 0.5;
  return d;
}

const std::array<Architecture, 28>& architecture_rows() {
  static const std::array<Architecture, 28> rows = {{
      {"llama", "LlamaForCausalLM", llama()},
      {"mistral", "MistralForCausalLM", llama(8, 14336)},
      {"qwen", "QWenLMHeadModel", qwen()},
      {"qwen2", "Qwen2ForCausalLM", qwen2()},
      {"qwen3", "Qwen3ForCausalLM", qwen3()},
      {"baichuan", "BaichuanForCausalLM BaiChuanForCausalLM", baichuan()},
      {"chatglm", "ChatGLMModel ChatGLMForConditionalGeneration", chatglm()},
      {"gemma", "GemmaForCausalLM", gemma(BlockForm::sequential)},
      {"gemma2", "Gemma2ForCausalLM", gemma2()},
      {"gemma3_text", "Gemma3ForCausalLM", gemma3()},
      {"gemma3", "Gemma3ForConditionalGeneration", gemma3()},
      {"phi", "PhiForCausalLM", phi()},
      {"phi3", "Phi3ForCausalLM", phi3()},
      {"falcon", "FalconForCausalLM RWForCausalLM", falcon()},
      {"stablelm", "StableLmForCausalLM", stablelm()},
      {"gpt2", "GPT2LMHeadModel", gpt2()},
      {"gpt_neox", "GPTNeoXForCausalLM", gpt_neox()},
      {"bert", "BertForMaskedLM BertForPreTraining", bert(30522)},
      {"roberta", "RobertaForMaskedLM XLMRobertaForMaskedLM", roberta()},
      {"distilbert", "DistilBertForMaskedLM", distilbert()},
      {"opt", "OPTForCausalLM", opt()},
      {"vit", "ViTForImageClassification ViTModel", vit(16)},
      {"dinov2", "Dinov2ForImageClassification Dinov2Model", dinov2()},
      {"swin", "SwinForImageClassification SwinModel", swin()},
      {"mixtral", "MixtralForCausalLM", mixture(llama(8, 14336), 8, 2, 14336)},
      {"qwen2_moe", "Qwen2MoeForCausalLM", qwen2_moe()},
      {"qwen3_moe", "Qwen3MoeForCausalLM", qwen3_moe()},
      {"granitemoe", "GraniteMoeForCausalLM", granite_moe()},
  }};
  return rows;
}

/// A config.json.
class Config {
 public:
  Config(json object, std::string place) : object_(std::move(object)), place_(std::move(place)) {}

  [[nodiscard]] const json* find(std::string_view key) const {
    const auto found = object_.find(key);
    return found == object_.end() || found->is_null() ? nullptr : &*found;
  }
  [[nodiscard]] bool has_null(const char* key) const {
    const auto found = object_.find(key);
    return found != object_.end() && found->is_null();
  }
  [[nodiscard]] std::string text(const char* key) const {
    const json* value = find(key);
    return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
  }
  [[noreturn]] void refuse(const std::string& what) const { throw InputError(fmt::format("{}: {}", place_, what)); }

  /// Sets a number that one of these keys has, a space between two.
  void set(std::int64_t& number, std::string_view keys) const {
    constexpr std::int64_t largest = std::int64_t{1} << 30;
    const auto fits = [](const json& x) { return x.is_number_integer() && x >= 0 && x <= largest; };
    for (const std::string_view key : words_of(keys)) {
      if (set_if(number, key, fits, fmt::format("an integer from 0 to {}", largest))) return;
    }
  }
  /// A list of positive numbers.
  void set(std::vector<std::int64_t>& numbers, std::string_view key) const {
    constexpr std::int64_t largest = 1 << 16;
    const auto fits = [](const json& x) { return x.is_number_integer() && x >= 1 && x <= largest; };
    set_if(
        numbers, key,
        [&](const json& x) { return x.is_array() && !x.empty() && std::all_of(x.begin(), x.end(), fits); },
        fmt::format("a list of integers from 1 to {}", largest));
  }
  void set(bool& flag, std::string_view key) const {
    set_if(
        flag, key, [](const json& x) { return x.is_boolean(); }, "true or false");
  }
  void set(double& number, std::string_view key) const {
    set_if(
        number, key, [](const json& x) { return x.is_number() && x >= 0 && x <= 1; }, "in 0..1");
  }

  /// @returns whether the key is there. @throws InputError for a value that does not fit
  template <class T, class Fits>
  bool set_if(T& to, std::string_view key, Fits fits, std::string_view what) const {
    const json* value = find(key);
    if (value == nullptr) return false;
    if (!fits(*value)) refuse(fmt::format("{} {} is not {}", key, shown(value->dump()), what));
    to = value->get<T>();
    return true;
  }

 private:
  json object_;
  std::string place_;
};

LayerKind activation_of(const Config& config, LayerKind usual) {
  constexpr std::array<std::pair<std::string_view, LayerKind>, 9> kinds = {{{"silu", LayerKind::silu},
                                                                            {"swish", LayerKind::silu},
                                                                            {"gelu", LayerKind::gelu},
                                                                            {"gelu_new", LayerKind::gelu_new},
                                                                            {"gelu_fast", LayerKind::gelu_new},
                                                                            {"gelu_pytorch_tanh", LayerKind::gelu_tanh},
                                                                            {"relu", LayerKind::relu},
                                                                            {"tanh", LayerKind::tanh},
                                                                            {"quick_gelu", LayerKind::gelu_tanh}}};
  for (const char* key : {"hidden_activation", "hidden_act", "activation_function", "activation"}) {
    const std::string name = config.text(key);
    if (name.empty()) continue;
    const auto* const found =
        std::find_if(kinds.begin(), kinds.end(), [&](const auto& kind) { return kind.first == name; });
    if (found == kinds.end()) config.refuse(fmt::format("{} \"{}\" is not known", key, shown(name)));
    return found->second;
  }
  return usual;
}

/// Sizes, by the names that configurations have for them.
void read_sizes(const Config& config, Description& d) {
  config.set(d.layers, "num_hidden_layers n_layer n_layers num_layers");
  config.set(d.hidden, "hidden_size n_embd dim");
  config.set(d.heads, "num_attention_heads n_head n_heads");
  if (config.find("num_attention_heads") != nullptr && d.kv_heads > 0 && d.heads % d.kv_heads != 0) d.kv_heads = 0;
  config.set(d.kv_heads, "num_key_value_heads num_kv_heads multi_query_group_num");
  config.set(d.head_dim, "head_dim kv_channels");
  config.set(d.inner, "intermediate_size n_inner ffn_hidden_size ffn_dim hidden_dim");
  config.set(d.words, "padded_vocab_size vocab_size");
  config.set(d.positions, "max_position_embeddings n_positions seq_length");
  config.set(d.experts, "num_local_experts num_experts");
  config.set(d.top_k, "num_experts_per_tok");
  config.set(d.expert_inner, "moe_intermediate_size");
  if (d.experts > 0 && config.find("moe_intermediate_size") == nullptr) config.set(d.expert_inner, "intermediate_size");
  config.set(d.shared_inner, "shared_expert_intermediate_size");
  config.set(d.token_types, "type_vocab_size");
  config.set(d.patch, "patch_size");
  config.set(d.image, "image_size");
  config.set(d.channels, "num_channels");
}

/// Of weights that were packed before they were saved: `gptq, 4 bits`.
std::string quantization_of(const Config& config) {
  const json* packed = config.find("quantization_config");
  if (packed == nullptr || !packed->is_object()) return {};
  const Config own(*packed, "quantization_config");
  bool four = false, eight = false;
  own.set(four, "load_in_4bit");
  own.set(eight, "load_in_8bit");
  std::int64_t bits = four ? 4 : eight ? 8 : 0;
  own.set(bits, "bits");
  const std::string method = own.text("quant_method");
  return shown(method.empty() ? "by an unnamed method" : method) + (bits > 0 ? fmt::format(", {} bits", bits) : "");
}

void read_style(const Config& config, Description& d) {
  d.activation = activation_of(config, d.activation);
  config.set(d.tied, "tie_word_embeddings");
  config.set(d.qkv_bias, "attention_bias");
  config.set(d.out_bias, "attention_bias");
  config.set(d.mlp_bias, "mlp_bias");
  config.set(d.qkv_bias, "use_qkv_bias");
  config.set(d.qkv_bias, "qkv_bias");
  config.set(d.qkv_bias, "add_qkv_bias");
  config.set(d.qk_norm, "qk_layernorm");
  for (const char* key : {"resid_pdrop", "dropout", "hidden_dropout", "hidden_dropout_prob"})
    config.set(d.dropout, key);
  for (const char* key : {"attn_pdrop", "attention_dropout", "attention_probs_dropout_prob"}) {
    config.set(d.attention_dropout, key);
  }
  for (const char* key : {"rotary_pct", "partial_rotary_factor"}) config.set(d.rotary, key);
  if (const json* rope = config.find("rope_parameters"); rope != nullptr && rope->is_object()) {
    Config(*rope, "rope_parameters").set(d.rotary, "partial_rotary_factor");
  }
  if (const json* labels = config.find("id2label"); labels != nullptr)
    d.labels = static_cast<std::int64_t>(labels->size());
  config.set(d.labels, "num_labels");
}

void read_stages(const Config& config, Description& d) {
  d.hidden = 96;  // hidden_size is the last stage's
  config.set(d.hidden, "embed_dim");
  config.set(d.stages.depths, "depths");
  config.set(d.stages.heads, "num_heads");
  config.set(d.stages.window, "window_size");
  config.set(d.stages.stochastic_depth, "drop_path_rate");
  config.set(d.stages.positions, "use_absolute_embeddings");
  config.set_if(
      d.stages.mlp_ratio, "mlp_ratio", [](const json& x) { return x.is_number() && x > 0 && x <= 64; }, "in 0..64");
  constexpr std::size_t most_stages = 8;
  if (d.stages.depths.size() != d.stages.heads.size() || d.stages.depths.size() > most_stages) {
    config.refuse(fmt::format("depths are of {} stages and num_heads of {}: not as many, or more than {}",
                              d.stages.depths.size(), d.stages.heads.size(), most_stages));
  }
  if (d.stages.window < 1) config.refuse("window_size 0 is not positive");
  d.layers = std::accumulate(d.stages.depths.begin(), d.stages.depths.end(), std::int64_t{0});
  d.heads = d.stages.heads.front();
  for (std::size_t i = 0; i < d.stages.heads.size(); ++i) {
    const std::int64_t width = d.hidden << i;
    if (width % d.stages.heads[i] != 0)
      config.refuse(fmt::format("{} heads are no divisor of {} channels", d.stages.heads[i], width));
  }
}

/// What only some architectures have.
void read_particulars(std::string_view type, const Config& config, Description& d) {
  bool flag = false;
  if (type == "qwen") {
    d.inner /= 2;  // of gate and up together
    d.words = std::max<std::int64_t>(d.words, 1);
  } else if (type == "falcon") {
    bool new_form = false, multi_query = true, parallel = true, bias = false;
    config.set(new_form, "new_decoder_architecture");
    config.set(multi_query, "multi_query");
    config.set(parallel, "parallel_attn");
    config.set(bias, "bias");
    config.set(flag, "alibi");
    if (!new_form) d.kv_heads = multi_query ? 1 : d.heads;
    std::int64_t norms = new_form ? 2 : 1;
    config.set(norms, "num_ln_in_parallel_attn");
    d.form = !parallel && !new_form ? BlockForm::sequential : norms == 2 ? BlockForm::parallel2 : BlockForm::parallel;
    d.qkv_bias = d.out_bias = d.mlp_bias = bias;
    if (flag) d.rotary = 0;
  } else if (type == "opt") {
    std::int64_t embedded = d.hidden;
    bool norm_first = true;
    config.set(embedded, "word_embed_proj_dim");
    config.set(norm_first, "do_layer_norm_before");
    if (embedded != d.hidden || !norm_first)
      config.refuse("an OPT with projected embeddings or norms behind is not known");
    if (config.find("max_position_embeddings") != nullptr) d.positions += places_to_padding;
  } else if (type == "gpt_neox" || type == "stablelm") {
    flag = d.form != BlockForm::sequential;
    config.set(flag, "use_parallel_residual");
    d.form = !flag ? BlockForm::sequential : type == "gpt_neox" ? BlockForm::parallel2 : BlockForm::parallel;
  } else if (type == "chatglm") {
    bool grouped = true;
    config.set(grouped, "multi_query_attention");
    if (!grouped) d.kv_heads = 0;
    config.set(d.mlp_bias, "add_bias_linear");
    d.out_bias = d.mlp_bias;
  } else if (type == "baichuan" && d.hidden > 4096) {
    d.rotary = 0;  // the 13B has ALiBi
  } else if (type == "dinov2") {
    std::int64_t ratio = 4;
    config.set(ratio, "mlp_ratio");
    d.inner = ratio * d.hidden;
    config.set(flag, "use_swiglu_ffn");
    if (flag) {
      d.inner = (2 * d.inner / 3 + 7) / 8 * 8;
      d.gated = true;
      d.activation = LayerKind::silu;
    }
  } else if (type == "swin") {
    read_stages(config, d);
  } else if (type.starts_with("gemma2")) {
    for (const auto& [cap, key] :
         {std::pair(&d.attention_cap, "attn_logit_softcapping"), std::pair(&d.logit_cap, "final_logit_softcapping")}) {
      if (config.has_null(key)) *cap = false;
    }
  }
}

void check(const Config& config, const Description& d) {
  const auto need = [&](std::int64_t number, const char* what) {
    if (number < 1) config.refuse(fmt::format("{} is missing or 0", what));
  };
  need(d.layers, "the number of layers");
  need(d.hidden, "the hidden size");
  need(d.heads, "the number of heads");
  if (d.patch == 0) need(d.words, "the size of the vocabulary");
  if (d.learned_positions) need(d.positions, "the number of positions");
  if (d.layers > max_network_blocks)
    config.refuse(fmt::format("{} layers are more than {}", d.layers, max_network_blocks));
  if (d.head_dim == 0 && d.hidden % d.heads != 0) {
    config.refuse(fmt::format("hidden size {} is not a multiple of {} heads", d.hidden, d.heads));
  }
  if (d.kv_heads > 0 && d.heads % d.kv_heads != 0) {
    config.refuse(fmt::format("{} heads of keys are no divisor of {} heads", d.kv_heads, d.heads));
  }
  if (d.experts > 0 && (d.top_k < 1 || d.top_k > d.experts)) {
    config.refuse(fmt::format("{} of {} experts are chosen", d.top_k, d.experts));
  }
}

/// Sizes that every file has: whoever leaves them out did not mean a class's default.
void check_stated(const Config& config) {
  const auto states = [&](auto... keys) { return ((config.find(keys) != nullptr) || ...); };
  if (!states("num_hidden_layers", "n_layer", "n_layers", "num_layers")) config.refuse("num_hidden_layers is missing");
  if (!states("hidden_size", "n_embd", "dim")) config.refuse("hidden_size is missing");
}

const Architecture& architecture_of(const Config& config) {
  std::vector<std::string> names = {config.text("model_type")};
  if (const json* listed = config.find("architectures"); listed != nullptr && listed->is_array()) {
    for (const json& name : *listed) {
      if (name.is_string()) names.insert(names.begin(), name.get<std::string>());
    }
  }
  std::erase(names, "");
  if (names.empty()) config.refuse("has neither architectures nor model_type: it is no config.json of a network");
  NearestName nearest{names.front()};
  const std::string type = config.text("model_type");
  for (const Architecture& row : architectures()) {
    if (row.model_type == type) nearest = NearestName(type);  // the class has another head
  }
  for (const Architecture& row : architectures()) {
    const std::vector<std::string_view> own = words_of(row.names);
    for (const std::string_view name : own) {
      if (name == names.front()) return row;
      nearest.offer(std::string(name), name);
    }
    if (names.size() == 1 && row.model_type == names.front()) return row;
    nearest.offer(std::string(row.model_type), own.front());
  }
  config.refuse(fmt::format("architecture \"{}\" is not known{}", shown(names.front()),
                            nearest.found() ? fmt::format("; the nearest is {}", *nearest.found()) : ""));
}

/// The networks of the files that the process named, and of the texts that it gave last.
class ConfigsRead {
 public:
  void keep(const std::string& name, TransformerDescription description, bool of_file) {
    const std::lock_guard lock(mutex_);
    const auto [known, is_new] = known_.insert_or_assign(name, std::move(description));
    if (of_file) {
      std::erase(texts_, name);
    } else if (is_new) {
      texts_.push_back(name);
    }
    if (texts_.size() <= most_texts) return;
    known_.erase(texts_.front());
    texts_.pop_front();
  }

  [[nodiscard]] std::optional<TransformerDescription> find(std::string_view name) const {
    const std::lock_guard lock(mutex_);
    const auto found = known_.find(name);
    return found == known_.end() ? std::nullopt : std::optional(found->second);
  }

 private:
  static constexpr std::size_t most_texts = 10'000;  // of half a kilobyte each
  mutable std::mutex mutex_;
  std::map<std::string, TransformerDescription, std::less<>> known_;
  std::deque<std::string> texts_;  // names, the oldest first
};

ConfigsRead& configs_read() {
  static ConfigsRead configs;
  return configs;
}

}  // namespace

std::span<const Architecture> architectures() { return architecture_rows(); }

const TransformerDescription& usual_of(std::string_view model_type) {
  const auto& rows = architecture_rows();
  return std::find_if(rows.begin(), rows.end(), [&](const auto& row) { return row.model_type == model_type; })->usual;
}

TransformerDescription read_config(std::string_view text, const std::string& place) {
  json object = parse_json<json>(text);
  if (!object.is_object()) throw InputError(place + ": is not a JSON object, or is cut off");
  const Config whole(object, place);
  const Architecture& architecture = architecture_of(whole);
  if (const auto inner = object.find("text_config"); inner != object.end() && inner->is_object()) object = *inner;
  const Config config(std::move(object), place);
  TransformerDescription description = architecture.usual;
  read_sizes(config, description);
  read_style(config, description);
  read_particulars(architecture.model_type, config, description);
  check(config, description);
  if (description.stages.depths.empty()) check_stated(config);
  description.quantization = quantization_of(whole);
  return description;
}

std::optional<TransformerDescription> find_config(std::string_view name) { return configs_read().find(name); }

std::string add_config(const std::string& path) {
  const std::string text = read_file(path);
  TransformerDescription description = read_config(text, path);
  std::string name = "config:" + text_hash(text);
  configs_read().keep(name, std::move(description), true);
  return name;
}

std::string add_config_text(std::string_view text) {
  TransformerDescription description = read_config(text, "config");
  std::string name = "config:" + text_hash(text);
  configs_read().keep(name, std::move(description), false);
  return name;
}

}  // namespace perfpred
