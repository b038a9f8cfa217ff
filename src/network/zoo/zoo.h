// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "network/network_builder.h"

namespace perfpred {

/// A network with fixed hyper-parameters: row `row` of its family's table, and what is usual to train it on.
struct ZooEntry {
  std::string_view name;
  void (*build)(NetworkBuilder& builder, std::size_t row);
  std::size_t row = 0;
  std::int64_t size = 224;      ///< side of the image; of token networks the sequence length
  std::int64_t classes = 1000;  ///< of token networks the words
  bool tokens = false;
};

void add_resnets(std::vector<ZooEntry>& zoo);              ///< ResNet, ResNeXt, Wide ResNet, RegNet
void add_plain_networks(std::vector<ZooEntry>& zoo);       ///< AlexNet, VGG, SqueezeNet
void add_branching_networks(std::vector<ZooEntry>& zoo);   ///< GoogLeNet, DenseNet, ShuffleNetV2
void add_mobile_networks(std::vector<ZooEntry>& zoo);      ///< MobileNetV2, MobileNetV3, MNASNet, EfficientNet
void add_vision_transformers(std::vector<ZooEntry>& zoo);  ///< ConvNeXt, ViT
void add_language_models(std::vector<ZooEntry>& zoo);      ///< BERT, GPT-2

void build_cifar_cnn(NetworkBuilder& builder, int depth, std::int64_t base_filters);

/// The size of a causal transformer: its name is `transformer:layers=12,hidden=768,heads=12,vocab=30522`.
struct TransformerSize {
  std::int64_t layers, hidden, heads, words;
};

/// @throws InputError if the text after `transformer:` is not the four sizes
[[nodiscard]] TransformerSize parse_transformer(std::string_view name);
void build_transformer(NetworkBuilder& builder, const TransformerSize& size);

}  // namespace perfpred
