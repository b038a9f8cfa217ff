// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "network/network_builder.h"

namespace perfpred {

constexpr std::int64_t imagenet_images = 1'281'167;  ///< training images of ImageNet-1k (Russakovsky et al. 2015)
constexpr std::int64_t cifar_images = 50'000;        ///< training images of CIFAR-10
constexpr std::int64_t coco_images = 118'287;        ///< training images of COCO 2017 (Lin et al. 2014)
constexpr std::int64_t token_sequences = 50'000;     ///< a convention: language models have no customary data set

/// A network with fixed hyper-parameters: row `row` of its family's table, and the data that it is usually trained on.
struct ZooEntry {
  std::string_view name;
  void (*build)(NetworkBuilder& builder, std::size_t row);
  std::size_t row = 0;
  std::int64_t size = 224;                ///< height and width of the image; of token networks the sequence length
  std::int64_t classes = 1000;            ///< of token networks the words
  std::int64_t images = imagenet_images;  ///< an epoch; of token networks sequences
  bool tokens = false;
};

/// One sample, the classes and the samples an epoch of the data that a network is trained on.
struct TrainingData {
  std::vector<std::int64_t> input;
  std::int64_t classes;
  std::int64_t images;
};

/// The data that this network is usually trained on. Here and below names are canonical.
/// @throws InputError for a network that is not known, with the nearest name
[[nodiscard]] TrainingData usual_data(std::string_view network);

/// Adds the layers of a network of the zoo, or of one whose name states its sizes.
/// @throws InputError as usual_data(), or if the builder's input or classes do not fit the network
void build_zoo_network(NetworkBuilder& builder, std::string_view name);

void add_resnets(std::vector<ZooEntry>& zoo);             ///< ResNet, ResNeXt, Wide ResNet, RegNet, SSD
void add_plain_networks(std::vector<ZooEntry>& zoo);      ///< AlexNet, VGG, SqueezeNet
void add_branching_networks(std::vector<ZooEntry>& zoo);  ///< GoogLeNet, Inception, DenseNet, ShuffleNetV2
void add_mobile_networks(std::vector<ZooEntry>& zoo);     ///< MobileNetV2, MobileNetV3, MNASNet, EfficientNet
void add_convnexts(std::vector<ZooEntry>& zoo);
void add_windowed_networks(std::vector<ZooEntry>& zoo);  ///< Swin, MaxViT
void add_transformers(std::vector<ZooEntry>& zoo);       ///< ViT, BERT, GPT-2

inline constexpr std::string_view transformer_example = "transformer:layers=12,hidden=768,heads=12,vocab=30522";
inline constexpr std::string_view recurrent_example = "lstm:layers=2,hidden=650,vocab=10000";

/// Whether a name states sizes: `cifar_cnn:...`, `transformer:...` or `lstm:...`.
[[nodiscard]] bool states_sizes(std::string_view network);

/// Whether a name states the sizes of a recurrent network: `lstm:layers=2,hidden=650,vocab=10000`.
[[nodiscard]] bool is_recurrent(std::string_view network);

/// A word language model: `lstm:layers=2,hidden=650,vocab=10000` and options (docs/networks.md).
struct RecurrentSpec {
  std::int64_t layers = 0, hidden = 0, words = 0;
  bool bidirectional = false;
  RnnCell cell = RnnCell::lstm;
  std::string name = {};  ///< canonical
};

/// @throws InputError for sizes that are missing, and values that an option does not have
[[nodiscard]] RecurrentSpec parse_recurrent(std::string_view name);
void build_recurrent(NetworkBuilder& builder, const RecurrentSpec& spec);

}  // namespace perfpred
