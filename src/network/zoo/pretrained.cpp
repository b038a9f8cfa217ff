// SPDX-License-Identifier: Apache-2.0
// Transformers as the package transformers builds them (modeling_llama.py and its like, version 5.24), and as
// torchvision and others do.
#include "network/zoo/pretrained.h"

#include <perfpred/error.h>

#include <fmt/format.h>

namespace perfpred {
namespace {

constexpr PartNames shared_parts = {.gate = "mlp.shared_expert.gate_proj",
                                    .up = "mlp.shared_expert.up_proj",
                                    .gate_up = "mlp.shared_expert.gate_up_proj",
                                    .down = "mlp.shared_expert.down_proj"};

class PretrainedBuilder {
 public:
  PretrainedBuilder(NetworkBuilder& b, const TransformerDescription& d)
      : b_(b),
        d_(d),
        n_(*d.names),
        width_(d.head_dim > 0 ? d.head_dim : d.hidden / d.heads),
        kv_heads_(d.kv_heads > 0 ? d.kv_heads : d.heads),
        inner_(d.inner > 0 ? d.inner : 4 * d.hidden) {}

  void build() {
    if (d_.of_transformers) b_.gives_loss();
    d_.patch > 0 ? build_of_images() : build_of_words();
  }

 private:
  void build_of_words() {
    const LayerId words = b_.words_of(d_.words);
    const std::int64_t length = b_.shape(words)[1];
    const std::int64_t positions = d_.positions > 0 ? d_.positions : length;
    if (const std::int64_t places = positions - d_.padding_places; d_.learned_positions && length > places) {
      throw InputError(fmt::format("input {} does not fit {}: it has {} positions", length, d_.name, places));
    }
    b_.enter(n_.root);
    const LayerId table = b_.embedding(words, n_.words, d_.words, d_.hidden);
    LayerId x = scaled(table, d_.scaled_embedding);
    if (d_.token_types > 0) {
      x = b_.add(x, b_.embedding(b_.ids(LayerKind::type_ids, words), n_.types, d_.token_types, d_.hidden));
    }
    if (d_.learned_positions) {
      x = b_.add(x, b_.embedding(b_.ids(LayerKind::position_ids, words), n_.positions, positions, d_.hidden));
    }
    if (d_.form == BlockForm::post) x = norm(x, n_.first_norm);
    x = blocks(d_.drops_embedding ? dropped(x) : x);
    b_.enter(n_.head_root);
    if (d_.form == BlockForm::post) {  // of masked words
      x = b_.activation(d_.activation, b_.linear(x, n_.transform, d_.hidden));
      x = norm(x, n_.head_norm);
    } else {
      x = norm(x, n_.last_norm);
    }
    x = b_.head(x, n_.head, d_.words, d_.head_bias, d_.tied ? table : -1);
    x = scaled(x, d_.scaled_logits);
    if (d_.logit_cap) x = capped(x);
    if (d_.causal && d_.of_transformers) b_.view(LayerKind::to_float, x);
  }

  void build_of_images() {
    const LayerId images = b_.images();
    const Shape& given = b_.shape(images);
    if (given[2] % d_.patch != 0 || given[3] % d_.patch != 0) {
      throw InputError(fmt::format("input {}x{} does not fit {}: its patches have {} x {} pixels", given[2], given[3],
                                   d_.name, d_.patch, d_.patch));
    }
    b_.enter(n_.root);
    LayerId x = b_.conv(images, n_.patches, d_.hidden, {d_.patch, d_.patch}, true);
    x = b_.class_token(b_.view(LayerKind::to_tokens, x), n_.token);
    x = blocks(dropped(b_.position_embedding(x, n_.positions)));
    b_.enter(n_.head_root);
    x = norm(x, n_.last_norm);
    x = b_.view(d_.mean_patches ? LayerKind::token_and_mean : LayerKind::first_token, x);
    b_.linear(x, n_.head, b_.classes());
  }

  LayerId blocks(LayerId x) {
    for (std::int64_t layer = 0; layer < d_.layers; ++layer) {
      b_.enter(fmt::format("{}{}", n_.block, layer));
      b_.begin_block();
      x = block(x);
      b_.end_block();
    }
    return x;
  }

  LayerId block(LayerId x) {
    switch (d_.form) {
      case BlockForm::parallel: {
        const LayerId y = norm(x, n_.norm1);
        const LayerId attended = attention(y);
        return b_.add(b_.add(attended, mlp(y)), x);
      }
      case BlockForm::parallel2: {
        const LayerId attended = attention(norm(x, n_.norm1));
        return b_.add(b_.add(mlp(norm(x, n_.norm2)), attended), x);
      }
      case BlockForm::sandwich:
        x = b_.add(x, norm(attention(norm(x, n_.norm1)), n_.norm2));
        return b_.add(x, norm(mlp(norm(x, "pre_feedforward_layernorm")), "post_feedforward_layernorm"));
      case BlockForm::post:
        x = norm(b_.add(attention(x), x), n_.attention_norm);
        return norm(b_.add(mlp(x), x), n_.mlp_norm);
      case BlockForm::sequential:
        break;
    }
    const LayerId attended = attention(norm(x, n_.norm1));
    x = d_.of_transformers ? b_.add(x, attended) : b_.add(attended, x);
    return b_.add(x, mlp(norm(x, n_.norm2)));
  }

  /// What attention or the MLP adds, from its last product.
  LayerId added(LayerId x, std::string_view part) {
    x = dropped(b_.bottleneck(x, part));
    if (d_.unit_scales) x = b_.unit_scale(x, fmt::format("{}.scale", part));
    return scaled(x, d_.scaled_residuals);
  }

  LayerId attention(LayerId x) {
    const std::int64_t queries = d_.heads * width_, keys = kv_heads_ * width_;
    LayerId q = 0, k = 0, v = 0;
    if (d_.fused_qkv) {
      const LayerId all = b_.projection(x, n_.qkv, queries + 2 * keys, d_.qkv_bias, Projection::attention_in);
      q = d_.of_transformers ? b_.slice(all, queries) : b_.chunk(all, 3);
      k = d_.of_transformers ? b_.slice(all, keys) : q + 1;
      v = d_.of_transformers ? b_.slice(all, keys) : q + 2;
    } else {
      q = b_.projection(x, n_.q, queries, d_.qkv_bias, Projection::query);
      k = b_.projection(x, n_.k, keys, d_.qkv_bias, Projection::key);
      v = b_.projection(x, n_.v, keys, d_.qkv_bias, Projection::value);
    }
    if (d_.qk_norm) {
      q = head_norm(q, "self_attn.q_norm");
      k = head_norm(k, "self_attn.k_norm");
    }
    if (d_.rotary > 0) {
      const auto turned = static_cast<std::int64_t>(static_cast<double>(width_) * d_.rotary);
      q = b_.rotary(q, d_.heads, turned);
      k = b_.rotary(k, kv_heads_, turned);
    }
    AttentionStyle style = {d_.heads, d_.causal, d_.attention_dropout, kv_heads_};
    style.repeats_heads = d_.of_transformers;
    style.capped = d_.attention_cap;
    style.masked = d_.masked;
    const LayerId mixed = b_.attention(q, k, v, style);
    return added(b_.projection(mixed, n_.out, d_.hidden, d_.out_bias, Projection::mixed), n_.attention);
  }

  LayerId mlp(LayerId x) { return added(d_.experts == 0 ? dense(x, n_, inner_) : experts(x), n_.mlp); }

  LayerId experts(LayerId x) {
    if (!d_.gated)
      throw InputError(fmt::format("{}: operators of experts without a gate (mlp=gelu) are not known", d_.name));
    const LayerId scores = b_.linear(x, "mlp.gate", d_.experts, false);
    const LayerId chosen = b_.experts(x, scores, "mlp.experts", {d_.experts, d_.top_k, d_.expert_inner});
    if (d_.shared_inner == 0) return chosen;
    LayerId shared = dense(x, shared_parts, d_.shared_inner);
    if (d_.shared_gate) {
      shared = b_.mul(shared, b_.activation(LayerKind::sigmoid, b_.linear(x, "mlp.shared_expert_gate", 1, false)));
    }
    return b_.add(chosen, shared);
  }

  LayerId dense(LayerId x, const PartNames& names, std::int64_t inner) {
    LayerId y = 0;
    if (!d_.gated) {
      y = b_.activation(d_.activation, b_.projection(x, names.up, inner, d_.mlp_bias, Projection::up));
    } else if (d_.fused_gate_up) {
      const LayerId both = b_.chunk(b_.projection(x, names.gate_up, 2 * inner, d_.mlp_bias, Projection::gate_up), 2);
      y = b_.mul(b_.activation(d_.activation, both), both + 1);
    } else {
      y = b_.activation(d_.activation, b_.projection(x, names.gate, inner, d_.mlp_bias, Projection::gate));
      y = b_.mul(y, b_.projection(x, names.up, inner, d_.mlp_bias, Projection::up));
    }
    return b_.projection(y, names.down, d_.hidden, d_.mlp_bias, Projection::down);
  }

  LayerId norm(LayerId x, std::string_view name) { return b_.norm(d_.norm, x, name, d_.norm_epsilon); }

  LayerId head_norm(LayerId x, std::string_view name) {
    const Shape whole = b_.shape(x);
    return b_.reshape(norm(b_.reshape(x, {whole[0], whole.numel() / whole[0] / width_, width_}), name), whole);
  }

  LayerId scaled(LayerId x, bool scales) { return scales ? b_.with_value(LayerKind::scale, x, 1) : x; }
  LayerId capped(LayerId x) { return scaled(b_.activation(LayerKind::tanh, scaled(x, true)), true); }
  LayerId dropped(LayerId x) { return b_.at_chance(LayerKind::dropout, x, d_.dropout); }

  NetworkBuilder& b_;
  const TransformerDescription& d_;
  const PartNames& n_;
  std::int64_t width_, kv_heads_, inner_;
};

}  // namespace

void build_pretrained(NetworkBuilder& builder, const TransformerDescription& description) {
  if (!description.stages.depths.empty()) return build_swin(builder, description);
  PretrainedBuilder(builder, description).build();
}

}  // namespace perfpred
