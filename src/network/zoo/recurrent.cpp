// SPDX-License-Identifier: Apache-2.0
// Word language models of recurrent layers: Zaremba et al. 2014, "Recurrent Neural Network Regularization", whose
// medium one is lstm:layers=2,hidden=650,vocab=10000; PyTorch's example word_language_model is built alike.
#include <perfpred/error.h>

#include <fmt/format.h>

#include <array>
#include <utility>

#include "network/zoo/sized_name.h"
#include "network/zoo/zoo.h"
#include "text/enum_names.h"

namespace perfpred {
namespace {

constexpr double drop_probability = 0.5;  // before, between and after the recurrent layers

}  // namespace

RecurrentSpec parse_recurrent(std::string_view text) {
  constexpr std::array<std::string_view, 3> sizes = {"layers", "hidden", "vocab"};
  SizedName name(text, sizes, recurrent_example);
  RecurrentSpec spec;
  spec.layers = name.size(0);
  spec.hidden = name.size(1);
  spec.words = name.size(2);
  spec.bidirectional = name.flag("bidirectional", false);
  spec.cell = static_cast<RnnCell>(name.choice("cell", enumerator_names<RnnCell::relu>));
  spec.name = std::move(name).finish();
  return spec;
}

void build_recurrent(NetworkBuilder& b, const RecurrentSpec& spec) {
  const LayerId words = b.words_of(spec.words);
  LayerId x = b.embedding(words, "encoder", spec.words, spec.hidden);
  x = b.with_value(LayerKind::dropout, x, drop_probability);
  x = b.rnn(x, "rnn",
            {spec.cell, spec.layers, spec.hidden, spec.bidirectional, spec.layers > 1 ? drop_probability : 0});
  x = b.with_value(LayerKind::dropout, x, drop_probability);
  b.linear(x, "decoder", spec.words);
}

}  // namespace perfpred
