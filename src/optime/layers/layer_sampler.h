// SPDX-License-Identifier: Apache-2.0
#pragma once
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "optime/layers/layer_case.h"

namespace perfpred {

/// `uniform`, or `log`: uniform in the logarithm; `zoo`: layers of the zoo's networks.
enum class LayerShapes : std::uint8_t { uniform, log, zoo };

/// @throws InputError, listing the choices, for any other text
[[nodiscard]] LayerShapes parse_layer_shapes(std::string_view text);

struct SamplerOptions {
  LayerShapes shapes = LayerShapes::uniform;
  std::uint64_t seed = 0;
  std::vector<std::string> ranges;    ///< `linear.seq_len=1:512`: instead of the range in LayerForm
  std::vector<std::string> networks;  ///< of the zoo; empty: all
  std::vector<std::string> left_out;  ///< layers of these networks are not drawn, whatever their batch
  std::vector<Optimizer> optimizers = {Optimizer::none};
  std::vector<Precision> precisions = {Precision::fp32};
  double backprop_share = 1;  ///< of the layers that have a backward
  bool first_layer = false;   ///< no gradient of the input
};

/// Draws layers; equal options draw equal layers.
class LayerSampler {
 public:
  /// @throws InputError naming a range, network or share that cannot be used
  explicit LayerSampler(SamplerOptions options);

  /// `count` layers of a type, all different. Fewer if the ranges or networks have no more.
  [[nodiscard]] std::vector<LayerCase> draw(LayerType type, std::size_t count);

 private:
  struct Range {
    std::int64_t low, high;
  };
  [[nodiscard]] Range range_of(LayerType type, const LayerSize& size) const;
  void add_range(const std::string& text);  ///< `conv2d.in=16:256`; @throws InputError
  /// Range of a size, beside those of the layer that were drawn before it.
  [[nodiscard]] Range possible(const LayerCase& layer, const LayerSize& size) const;
  void draw_sizes(LayerCase& layer);
  void draw_groups(LayerCase& layer);  ///< of a convolution
  [[nodiscard]] LayerCase sized(LayerType type);
  [[nodiscard]] bool in_ranges(const LayerCase& layer) const;  ///< of the options
  [[nodiscard]] const std::vector<LayerCase>& zoo_layers(LayerType type, std::size_t network, std::int64_t batch);
  void train(LayerCase& layer);
  std::uint64_t below(std::uint64_t count);
  std::int64_t within(Range range);

  SamplerOptions options_;
  std::map<std::pair<LayerType, std::string>, Range> ranges_;
  std::set<std::string> left_out_;  // keys
  std::map<std::tuple<std::size_t, std::int64_t>, std::map<LayerType, std::vector<LayerCase>>>
      zoo_;  // by network, batch
  std::uint64_t state_ = 0;
};

}  // namespace perfpred
