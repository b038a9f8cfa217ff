// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/vocabulary.h>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <array>
#include <string>
#include <utility>

#include "text/enum_names.h"
#include "text/nearest_name.h"
#include "text/other_words.h"
#include "text/parse.h"

namespace perfpred {
namespace {

// In the order of the enum, whose last name is a word of the language.
constexpr std::array<std::string_view, 7> precisions = {"fp32", "tf32", "bf16", "fp16", "fp64", "unknown", "default"};

/// Of PyTorch's types, NumPy's, and of options of trainers.
constexpr std::array<std::pair<std::string_view, Precision>, 15> precision_words = {{{"amp", Precision::fp16},
                                                                                     {"mixed", Precision::fp16},
                                                                                     {"half", Precision::fp16},
                                                                                     {"float16", Precision::fp16},
                                                                                     {"amp_fp16", Precision::fp16},
                                                                                     {"16-mixed", Precision::fp16},
                                                                                     {"bfloat16", Precision::bf16},
                                                                                     {"amp_bf16", Precision::bf16},
                                                                                     {"bf16-mixed", Precision::bf16},
                                                                                     {"float32", Precision::fp32},
                                                                                     {"single", Precision::fp32},
                                                                                     {"float", Precision::fp32},
                                                                                     {"tensorfloat32", Precision::tf32},
                                                                                     {"float64", Precision::fp64},
                                                                                     {"double", Precision::fp64}}};

/// Of PyTorch's classes, and of the option `optim` of transformers' TrainingArguments.
constexpr std::array<std::pair<std::string_view, Optimizer>, 14> optimizer_words = {
    {{"SGD", Optimizer::sgd},
     {"Adam", Optimizer::adam},
     {"AdamW", Optimizer::adamw},
     {"Adagrad", Optimizer::adagrad},
     {"Adadelta", Optimizer::adadelta},
     {"RMSprop", Optimizer::rmsprop},
     {"Adafactor", Optimizer::adafactor},
     {"Muon", Optimizer::muon},
     {"adamw_torch", Optimizer::adamw},
     {"adamw_torch_fused", Optimizer::adamw},
     {"adamw_8bit", Optimizer::adamw8bit},
     {"adamw_bnb_8bit", Optimizer::adamw8bit},
     {"paged_adamw_8bit", Optimizer::paged_adamw8bit},
     {"lion_32bit", Optimizer::lion}}};

template <class Enum, std::size_t n>
Enum parse(const std::array<std::string_view, n>& names, std::string_view what, std::string_view text) {
  const auto found = std::find(names.begin(), names.end(), text);
  if (found == names.end()) {
    throw InputError(fmt::format("{} \"{}\" is not one of {}", what, shown(text), fmt::join(names, ", ")));
  }
  return static_cast<Enum>(found - names.begin());
}

/// A word of a vocabulary as it stands there, else by its letters and digits, or another word for it.
/// @param prefix  of PyTorch's modules, which a text may have
template <class Enum, std::size_t n>
Enum parse_loosely(const std::array<std::string_view, n>& names, OtherWords<Enum> others, std::string_view prefix,
                   std::string_view what, std::string_view text) {
  if (std::find(names.begin(), names.end(), text) != names.end()) return parse<Enum>(names, what, text);
  std::string word = bare(text);
  if (word.starts_with(prefix)) word.erase(0, prefix.size());
  const auto other =
      std::find_if(others.begin(), others.end(), [&](const auto& known) { return bare(known.first) == word; });
  if (other != others.end()) return other->second;
  const auto name =
      std::find_if(names.begin(), names.end(), [&](std::string_view known) { return bare(known) == word; });
  return parse<Enum>(names, what, name != names.end() ? *name : text);
}

}  // namespace

OtherWords<Precision> other_precisions() { return precision_words; }
OtherWords<Optimizer> other_optimizers() { return optimizer_words; }

std::string_view to_string(Precision precision) { return precisions.at(static_cast<std::size_t>(precision)); }
std::string_view to_string(Optimizer optimizer) { return enumerator_name_of<Optimizer::momentum>(optimizer); }
std::string_view to_string(Layout layout) { return enumerator_name_of<Layout::nhwc>(layout); }
std::string_view to_string(OptimizerImpl impl) { return enumerator_name_of<OptimizerImpl::foreach>(impl); }
std::string_view to_string(Attention attention) { return enumerator_name_of<Attention::eager>(attention); }
std::string_view to_string(Weights weights) { return enumerator_name_of<Weights::int4>(weights); }
std::string_view to_string(LossForm loss) { return enumerator_name_of<LossForm::chunked>(loss); }
std::string_view to_string(Padding padding) { return enumerator_name_of<Padding::max>(padding); }
std::string_view to_string(Software software) { return enumerator_name_of<Software::jax>(software); }
std::string_view to_string(Loader loader) { return enumerator_name_of<Loader::included>(loader); }
std::string_view to_string(Phases phases) { return enumerator_name_of<Phases::forward>(phases); }
std::string_view to_string(Phase phase) { return enumerator_name_of<Phase::optimizer>(phase); }
std::string_view to_string(Bound bound) { return enumerator_name_of<Bound::data>(bound); }

Precision parse_precision(std::string_view text) {
  return parse_loosely(precisions, other_precisions(), "torch", "precision", text);
}
Optimizer parse_optimizer(std::string_view text) {
  return parse_loosely(enumerator_names<Optimizer::momentum>, other_optimizers(), "torchoptim", "optimizer", text);
}
OptimizerImpl parse_optimizer_impl(std::string_view text) {
  return parse<OptimizerImpl>(enumerator_names<OptimizerImpl::foreach>, "optimizer_impl", text);
}
Layout parse_layout(std::string_view text) { return parse<Layout>(enumerator_names<Layout::nhwc>, "layout", text); }
Attention parse_attention(std::string_view text) {
  return parse<Attention>(enumerator_names<Attention::eager>, "attention", text);
}
Weights parse_weights(std::string_view text) {
  return parse<Weights>(enumerator_names<Weights::int4>, "weights", text);
}
LossForm parse_loss_form(std::string_view text) {
  return parse<LossForm>(enumerator_names<LossForm::chunked>, "loss", text);
}
Padding parse_padding(std::string_view text) {
  if (text == "longest") return Padding::padded;  // of tokenizers of Hugging Face's transformers
  return parse<Padding>(enumerator_names<Padding::max>, "padding", text);
}
Software parse_software(std::string_view text) {
  return parse<Software>(enumerator_names<Software::jax>, "software", text);
}
Loader parse_loader(std::string_view text) { return parse<Loader>(enumerator_names<Loader::included>, "loader", text); }
Phases parse_phases(std::string_view text) { return parse<Phases>(enumerator_names<Phases::forward>, "phases", text); }

}  // namespace perfpred
