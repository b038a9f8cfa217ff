// SPDX-License-Identifier: Apache-2.0
#include "parallel/megatron_program.h"

#include <perfpred/error.h>

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <set>
#include <string>
#include <utility>

#include "text/nearest_name.h"
#include "text/parse.h"

namespace perfpred {
namespace {

struct ProgramWord {
  std::string_view name;
  bool MegatronProgram::*flag = nullptr;  ///< set by the word alone, or =0 or =1
  void (*set)(MegatronProgram& program, std::string_view value, const ValuePlace& place) = nullptr;
  bool is_latent_width = false;  ///< of multi-latent-attention
};

template <class Value, std::size_t n>
Value one_of(const std::array<std::pair<std::string_view, Value>, n>& values, std::string_view text,
             const ValuePlace& place) {
  std::string names;
  for (const auto& [name, value] : values) {
    if (name == text) return value;
    names += fmt::format("{}{}", names.empty() ? "" : ", ", name);
  }
  throw_bad_value(place, text, "one of " + names);
}

void set_attention(MegatronProgram& program, std::string_view value, const ValuePlace& place) {
  using Kernel = std::optional<AttentionKernel>;
  static constexpr std::array<std::pair<std::string_view, Kernel>, 5> kernels = {{{"auto", Kernel()},
                                                                                  {"flash", AttentionKernel::flash},
                                                                                  {"fused", AttentionKernel::fused},
                                                                                  {"unfused", AttentionKernel::unfused},
                                                                                  {"local", AttentionKernel::unfused}}};
  program.attention = one_of(kernels, value, place);
}

void set_flash(MegatronProgram& program, std::string_view value, const ValuePlace& place) {
  static constexpr std::array<std::pair<std::string_view, std::optional<bool>>, 3> answers = {
      {{"unknown", {}}, {"yes", true}, {"no", false}}};
  program.deterministic_flash = one_of(answers, value, place);
}

void set_implementation(MegatronProgram& program, std::string_view value, const ValuePlace& place) {
  static constexpr std::array<std::pair<std::string_view, bool>, 2> answers = {
      {{"transformer_engine", true}, {"local", false}}};
  program.transformer_engine = one_of(answers, value, place);
}

void set_recompute(MegatronProgram& program, std::string_view value, const ValuePlace& place) {
  if (value != "selective") throw_bad_value(place, value, "selective; full is checkpoint all");
  program.recompute = Recompute::core_attention;
}

constexpr std::int64_t largest_width = 1 << 16;

/// A width of multi-latent attention. @param width  of MegatronProgram::latent
template <std::int64_t LatentAttention::*width>
void set_latent(MegatronProgram& program, std::string_view value, const ValuePlace& place) {
  const std::int64_t numbers = parse_positive_integer(value, place);
  if (numbers > largest_width) throw_bad_value(place, value, fmt::format("a number up to {}", largest_width));
  program.latent.*width = numbers;
}

const std::array<ProgramWord, 18>& program_words() {
  static const std::array<ProgramWord, 18> all = {
      {{"attention-backend", nullptr, set_attention},
       {"deterministic-mode", &MegatronProgram::deterministic},
       {"deterministic-flash", nullptr, set_flash},
       {"transformer-impl", nullptr, set_implementation},
       {"fp8", &MegatronProgram::fp8},
       {"moe-grouped-gemm", &MegatronProgram::grouped_gemm},
       {"tp-comm-overlap", &MegatronProgram::tp_overlap},
       {"defer-embedding-wgrad-compute", &MegatronProgram::defers_head},
       {"grad-reduce-in-bf16", &MegatronProgram::half_gradients},
       {"num-distributed-optimizer-instances", nullptr,
        [](MegatronProgram& program, std::string_view value, const ValuePlace& place) {
          program.instances = parse_positive_integer(value, place);
        }},
       {"make-vocab-size-divisible-by", nullptr,
        [](MegatronProgram& program, std::string_view value, const ValuePlace& place) {
          program.vocabulary = parse_positive_integer(value, place);
          if (program.vocabulary > 1 << 20) throw_bad_value(place, value, "a number up to 2^20");
        }},
       {"recompute-granularity", nullptr, set_recompute},
       {"multi-latent-attention", &MegatronProgram::is_latent},
       {"q-lora-rank", nullptr, set_latent<&LatentAttention::query_rank>, true},
       {"kv-lora-rank", nullptr, set_latent<&LatentAttention::rank>, true},
       {"qk-head-dim", nullptr, set_latent<&LatentAttention::plain>, true},
       {"qk-pos-emb-head-dim", nullptr, set_latent<&LatentAttention::turned>, true},
       {"v-head-dim", nullptr, set_latent<&LatentAttention::value>, true}}};
  return all;
}

void set_word(MegatronProgram& program, std::string_view item) {
  const std::size_t equals = std::min(item.find('='), item.size());
  const std::string_view name = trimmed(item.substr(0, equals));
  NearestName nearest{std::string(name)};
  for (const ProgramWord& word : program_words()) {
    nearest.offer(word.name, word.name);
    if (word.name != name) continue;
    const bool has_value = equals < item.size();
    const ValuePlace place = {{}, 0, word.name};
    const std::string_view value = has_value ? trimmed(item.substr(equals + 1)) : "";
    if (word.flag != nullptr) {
      program.*word.flag = !has_value || parse_flag(value, place);
    } else {
      word.set(program, value, place);
    }
    return;
  }
  throw InputError(fmt::format("program \"{}\" is not known{}", shown(name),
                               nearest.found() ? fmt::format(" (did you mean {}?)", *nearest.found()) : ""));
}

}  // namespace

MegatronProgram parse_megatron_program(std::string_view text) {
  MegatronProgram program;
  if (trimmed(text).empty()) return program;
  std::set<std::string_view> given;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min(text.find(',', begin), text.size());
    const std::string_view item = text.substr(begin, end - begin);
    const std::string_view name = trimmed(item.substr(0, item.find('=')));
    if (!given.insert(name).second) throw InputError(fmt::format("program: {} is given twice", shown(name)));
    set_word(program, item);
    begin = end + 1;
  }
  for (const ProgramWord& word : program_words()) {
    if (word.is_latent_width && given.contains(word.name) && !program.is_latent)
      throw InputError(fmt::format("program: {} is a width of multi-latent-attention, which is not given", word.name));
  }
  return program;
}

}  // namespace perfpred
