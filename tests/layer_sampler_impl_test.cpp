// SPDX-License-Identifier: Apache-2.0
// Which layers are measured, and the table that they are written to.
#include <perfpred/device.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "network/layers.h"
#include "optime/layers/layer_rows.h"
#include "optime/layers/layer_sampler.h"
#include "optime/layers/layer_step.h"
#include "refusal.h"
#include "temporary_folder.h"
#include "text/csv.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using testing::refusal;
using testing::TemporaryFolder;

std::vector<LayerType> all_types() {
  std::vector<LayerType> types;
  for (std::size_t i = 0; i < layer_types; ++i) types.push_back(static_cast<LayerType>(i));
  return types;
}

SamplerOptions some(LayerShapes shapes, std::uint64_t seed = 3) {
  SamplerOptions options;
  options.shapes = shapes;
  options.seed = seed;
  return options;
}

void expect_within(std::int64_t value, std::int64_t low, std::int64_t high) {
  EXPECT_GE(value, low);
  EXPECT_LE(value, high);
}

/// The ranges of PreNeT's collector.
void expect_in_ranges(const LayerCase& c) {
  expect_within(c.batch_size, 1, 64);
  switch (c.type) {
    case LayerType::conv2d:
      expect_within(c.image_size, 1, 512);
      expect_within(c.kernel_size, 1, std::min<std::int64_t>(7, c.image_size));
      expect_within(c.stride, 1, 4);
      EXPECT_LE(c.in * c.image_size, std::max<std::int64_t>(10000, c.image_size));
      EXPECT_LE(c.out * c.image_size, std::max<std::int64_t>(10000, c.image_size));
      EXPECT_EQ(c.in % c.groups, 0);
      EXPECT_EQ(c.out % c.groups, 0);
      break;
    case LayerType::linear:
      expect_within(c.in, 1, 4096);
      expect_within(c.out, 1, 4096);
      break;
    case LayerType::rnn:
      expect_within(c.seq_len, 1, 128);
      expect_within(c.in, 1, 128);
      expect_within(c.out, 1, 128);
      expect_within(c.num_layers, 1, 4);
      break;
    case LayerType::attention:
      expect_within(c.seq_len, 1, 1024);
      expect_within(c.num_heads, 1, 16);
      expect_within(c.in, 1, 1024);
      EXPECT_EQ(c.in % c.num_heads, 0);
      break;
    case LayerType::embedding:
      expect_within(c.in, 1000, 100000);
      expect_within(c.out, 32, 1024);
      break;
    case LayerType::layernorm:
    case LayerType::rmsnorm:
      expect_within(c.seq_len, 1, 512);
      expect_within(c.in, 32, 4096);
      break;
    default:
      break;
  }
}

TEST(LayerSampler, DrawsWithinTheRanges) {
  for (const LayerShapes shapes : {LayerShapes::uniform, LayerShapes::log}) {
    for (const LayerType type : all_types()) {
      SCOPED_TRACE(to_string(type));
      const auto layers = LayerSampler(some(shapes)).draw(type, 500);
      ASSERT_EQ(layers.size(), 500U);
      for (const LayerCase& layer : layers) {
        expect_in_ranges(layer);
        EXPECT_NO_THROW(check_layer(layer));
      }
    }
  }
}

TEST(LayerSampler, ReachesBothKindsOfPaddingGroupsAndAllVariants) {
  std::map<std::string, int> seen;
  for (const LayerType type : all_types()) {
    for (const LayerCase& c : LayerSampler(some(LayerShapes::uniform)).draw(type, 300)) {
      if (type == LayerType::conv2d) {
        ++seen[c.padding == same_padding ? "same" : "valid"];
        ++seen[c.groups == 1 ? "one group" : c.groups == c.in && c.in > 1 ? "depthwise" : "groups"];
      }
      if (type == LayerType::rnn) ++seen[c.bidirectional ? "bidirectional" : "one way"];
      if (c.num_kv_heads != 0) ++seen["grouped queries"];
      if (!c.variant.empty()) ++seen[c.variant];
    }
  }
  for (const char* what :
       {"same", "valid", "one group", "depthwise", "groups", "bidirectional", "one way", "lstm", "gru", "rnn", "sdpa",
        "eager", "grouped queries", "learned", "sinusoidal", "max", "avg", "add", "gelu"}) {
    EXPECT_GT(seen[what], 4) << what;
  }
}

TEST(LayerSampler, EqualOptionsDrawEqualLayers) {
  for (const LayerType type : all_types()) {
    const auto first = LayerSampler(some(LayerShapes::log)).draw(type, 50);
    EXPECT_EQ(first, LayerSampler(some(LayerShapes::log)).draw(type, 50));
    EXPECT_NE(first, LayerSampler(some(LayerShapes::log, 4)).draw(type, 50));
    // A longer table begins like a shorter one, so that it can be resumed.
    const auto longer = LayerSampler(some(LayerShapes::log)).draw(type, 80);
    EXPECT_TRUE(std::equal(first.begin(), first.end(), longer.begin()));
  }
}

TEST(LayerSampler, LogarithmsAreUniform) {
  // Half of the widths of 1 to 4096 are below 64; uniform ones are in 1.5 of 100.
  const auto below = [](LayerShapes shapes) {
    const auto layers = LayerSampler(some(shapes)).draw(LayerType::linear, 1000);
    return static_cast<double>(
        std::count_if(layers.begin(), layers.end(), [](const LayerCase& c) { return c.in < 64; }));
  };
  EXPECT_NEAR(below(LayerShapes::log), 500, 80);  // five standard deviations
  EXPECT_LT(below(LayerShapes::uniform), 50);
}

TEST(LayerSampler, ZooShapesAreThoseOfTheNetworks) {
  SamplerOptions options = some(LayerShapes::zoo);
  options.networks = {"resnet18"};
  const Network network = build_network(Workload::zoo("resnet18", 1));
  const auto layers = LayerSampler(options).draw(LayerType::conv2d, 40);
  ASSERT_GT(layers.size(), 20U);
  for (const LayerCase& c : layers) {
    const bool met = std::any_of(network.layers.begin(), network.layers.end(), [&](const Layer& layer) {
      return layer.kind == LayerKind::conv2d && layer.in_channels == c.in && layer.out_channels == c.out &&
             layer.kernel[0] == c.kernel_size && layer.stride[0] == c.stride && layer.output[2] == output_pixels(c);
    });
    EXPECT_TRUE(met) << layer_key(c);
    EXPECT_EQ(c.input_gradient, c.in != 3);  // the image has none
  }
}

TEST(LayerSampler, LeavesOutShapesWhateverTheBatch) {
  SamplerOptions options = some(LayerShapes::zoo);
  options.networks = {"resnet18", "vgg11"};
  options.left_out = {"resnet18"};
  for (const LayerCase& c : LayerSampler(options).draw(LayerType::conv2d, 60)) {
    EXPECT_EQ(c.kernel_size, 3);
    EXPECT_TRUE(c.bias) << layer_key(c);  // VGG's have one, ResNet's have none
  }
}

TEST(LayerSampler, RangesCanBeChanged) {
  SamplerOptions options = some(LayerShapes::uniform);
  options.ranges = {"linear.seq_len=5:6", "linear.batch_size=2:2"};
  for (const LayerCase& c : LayerSampler(options).draw(LayerType::linear, 30)) {
    expect_within(c.seq_len, 5, 6);
    EXPECT_EQ(c.batch_size, 2);
  }
  options.ranges = {"conv2d.kernel_size=7:7", "conv2d.image_size=1:5", "conv2d.in_channels=5:5",
                    "attention.embed_dim=100:100"};
  LayerSampler draws(options);
  const std::vector<LayerCase> large_kernels = draws.draw(LayerType::conv2d, 30);
  EXPECT_EQ(large_kernels.size(), 30U);
  for (const LayerCase& c : large_kernels) {
    EXPECT_NO_THROW(check_layer(c));
    EXPECT_EQ(c.in, 5);
  }
  const std::vector<LayerCase> narrow = draws.draw(LayerType::attention, 10);
  EXPECT_EQ(narrow.size(), 10U);
  for (const LayerCase& c : narrow) EXPECT_EQ(c.in, 100);
  const auto refused = [](const std::string& range) {
    return refusal([&] {
      SamplerOptions bad;
      bad.ranges = {range};
      LayerSampler sampler(bad);
    });
  };
  EXPECT_THAT(refused("linear"), HasSubstr("layer.column=low:high"));
  EXPECT_THAT(refused("linear.kernel_size=1:2"), HasSubstr("no size \"kernel_size\""));
  EXPECT_THAT(refused("linear.seq_len=9:2"), HasSubstr("empty"));
  EXPECT_THAT(refused("liner.seq_len=1:2"), HasSubstr("liner"));
  EXPECT_THAT(refused("conv2d.groups=2:2"), HasSubstr("no range"));
}

TEST(LayerCase, PaddingGivesTheSizesOfItsDefinition) {
  LayerCase c;
  c.type = LayerType::conv2d;
  for (c.image_size = 1; c.image_size <= 20; ++c.image_size) {
    for (c.kernel_size = 1; c.kernel_size <= std::min<std::int64_t>(7, c.image_size); ++c.kernel_size) {
      for (c.stride = 1; c.stride <= 4; ++c.stride) {
        c.padding = same_padding;
        EXPECT_EQ(output_pixels(c), (c.image_size + c.stride - 1) / c.stride);
        EXPECT_EQ(network_of(c).layers.back().output[2], output_pixels(c));
        c.padding = 0;
        EXPECT_EQ(output_pixels(c), (c.image_size - c.kernel_size) / c.stride + 1);
      }
    }
  }
}

TEST(LayerCase, ALayerOfANetworkIsMeasuredAsTheLayerThatItIs) {
  for (const LayerType type : {LayerType::rnn, LayerType::rmsnorm, LayerType::attention, LayerType::elementwise}) {
    for (LayerCase c : LayerSampler(some(LayerShapes::log)).draw(type, 100)) {
      if (c.variant == "eager") continue;  // many layers
      const auto found = layers_of(network_of(c));
      const auto same = std::find_if(found.begin(), found.end(), [&](const LayerCase& f) { return f.type == type; });
      ASSERT_NE(same, found.end()) << layer_key(c);
      c.input_gradient = same->input_gradient;
      EXPECT_EQ(layer_key(*same), layer_key(c));
    }
  }
  LayerCase grouped;
  grouped.type = LayerType::attention;
  grouped.variant = "sdpa";
  grouped.in = 64;
  grouped.num_heads = 8;
  grouped.num_kv_heads = 2;
  // Queries and their result are 64 wide, keys and values 16: torch.nn.Linear has weights and biases.
  EXPECT_EQ(network_of(grouped).params(), 2 * (64 * 64 + 64) + 2 * (64 * 16 + 16));
  grouped.num_kv_heads = 3;
  EXPECT_THAT(refusal([&] { check_layer(grouped); }), HasSubstr("num_kv_heads 3 does not divide"));
  grouped.num_kv_heads = 2;
  grouped.variant = "eager";
  EXPECT_THAT(refusal([&] { check_layer(grouped); }), HasSubstr("sdpa"));
}

TEST(LayerCase, TheInputsGradientIsAnOperatorOfItsOwn) {
  LayerCase c;
  c.in = 16;
  c.out = 32;
  c.batch_size = 8;
  const auto backward_flops = [&] {
    const auto step = layer_step(c, DeviceKind::gpu);
    double flops = 0;
    for (std::size_t i = 0; i < step.own.size(); ++i) {
      if (step.own[i] && step.executed.graph().ops()[i].phase == Phase::backward &&
          is_conv_or_matmul(step.executed.graph().ops()[i].kind)) {
        flops += step.executed.graph().ops()[i].flops;
      }
    }
    return flops;
  };
  const double product = 2.0 * 8 * 16 * 32;
  EXPECT_EQ(backward_flops(), 2 * product);
  c.input_gradient = false;
  EXPECT_EQ(backward_flops(), product);
}

TEST(LayerRows, ComeBackAsTheyWereWritten) {
  const TemporaryFolder folder;
  const std::string path = folder.file("layers.csv");
  std::vector<LayerRow> rows;
  SamplerOptions options = some(LayerShapes::uniform);
  options.optimizers = {Optimizer::adam, Optimizer::none};
  options.backprop_share = 0.5;
  for (const LayerType type : all_types()) {
    for (const LayerCase& layer : LayerSampler(options).draw(type, 5)) {
      LayerRow row;
      row.layer = layer;
      row.device = "T4";
      row.forward_sec = 0.25e-3;
      row.step_sec = 1e-3;
      rows.push_back(row);
    }
  }
  rows.back() = {};
  rows.back().device = "T4";
  rows.back().outcome = "oom";
  {
    LayerRecorder recorder(path);
    for (const LayerRow& row : rows) {
      EXPECT_FALSE(recorder.holds(row));
      recorder.append(row);
      EXPECT_TRUE(recorder.holds(row));
    }
  }
  const auto read = read_layer_rows(path);
  ASSERT_EQ(read.size(), rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    EXPECT_EQ(read[i].layer, rows[i].layer) << layer_key(rows[i].layer);
    EXPECT_EQ(read[i].outcome, rows[i].outcome);
    EXPECT_EQ(read[i].forward_sec.has_value(), rows[i].forward_sec.has_value());
  }
  EXPECT_NEAR(*read.front().forward_sec, 0.25e-3, 1e-9);
}

TEST(LayerRows, AnUnfinishedLineIsDroppedAndTheRestKept) {
  const TemporaryFolder folder;
  const std::string path = folder.file("layers.csv");
  LayerRow row;
  row.device = "T4";
  row.forward_sec = 1e-3;
  { LayerRecorder(path).append(row); }
  const std::string whole = testing::slurp(path);
  folder.write("layers.csv", whole + "linear,,7,");
  {
    LayerRecorder recorder(path);
    EXPECT_TRUE(recorder.holds(row));
    row.layer.batch_size = 2;
    recorder.append(row);
  }
  EXPECT_EQ(read_layer_rows(path).size(), 2U);
}

TEST(LayerRows, AnotherFileIsRefusedAndLeftAlone) {
  const TemporaryFolder folder;
  for (const std::string text : {"a,b\n1,2\n", "a,b\n1,2\n3,4", "a,b\n1", "one line", "\n"}) {
    const std::string path = folder.write("other.csv", text);
    EXPECT_THAT(refusal([&] { LayerRecorder other(path); }), HasSubstr("other.csv: is not a table of layers"));
    EXPECT_EQ(testing::slurp(path), text);
  }
  // What a killed writer leaves of a header is no other file.
  const std::string path = folder.write("cut.csv", csv_line(names_of(layer_row_columns())).substr(0, 20));
  { LayerRecorder recorder(path); }
  EXPECT_EQ(testing::slurp(path), csv_line(names_of(layer_row_columns())));
}

TEST(LayerRows, BadRowsAreRefusedWithFileAndLine) {
  const TemporaryFolder folder;
  const auto refused = [&](const std::string& row) {
    const std::string path = folder.write(
        "l.csv", "layer,batch_size,num_heads,embed_dim,seq_len,precision,device,outcome,forward_ms\n" + row);
    return refusal([&] { static_cast<void>(read_layer_rows(path)); });
  };
  EXPECT_EQ(refused("attention,1,2,8,16,fp32,T4,ok,1\n"), "");
  EXPECT_THAT(refused(""), HasSubstr("no layers"));
  EXPECT_THAT(refused("attention,1,3,8,16,fp32,T4,ok,1\n"), HasSubstr("l.csv:2: layer attention: num_heads 3"));
  EXPECT_THAT(refused("attention,1,2,8,,fp32,T4,ok,1\n"), HasSubstr("l.csv:2: seq_len"));
  EXPECT_THAT(refused("softmax,1,,,8,fp32,T4,ok,1\n"), HasSubstr("l.csv:2: "));  // it has a width
  EXPECT_THAT(refused("dense,1,,,,fp32,T4,ok,1\n"), HasSubstr("l.csv:2"));
  EXPECT_THAT(refused("linear,0,,,,fp32,T4,ok,1\n"), HasSubstr("l.csv:2: batch_size"));
  EXPECT_THAT(refused("linear,1,,,,fp33,T4,ok,1\n"), HasSubstr("l.csv:2"));
  EXPECT_THAT(refused("attention,1,2,8,16,fp32,T4,ok,\n"), HasSubstr("l.csv:2: forward_ms"));
  EXPECT_THAT(refused("attention,1,2,8,16,fp32,T4,fine,1\n"), HasSubstr("l.csv:2: outcome"));
}

}  // namespace
}  // namespace perfpred
