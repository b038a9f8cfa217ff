// SPDX-License-Identifier: Apache-2.0
// --layer of perfpred-predict and perfpred-inspect.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred::testing {
namespace {

using nlohmann::json;

const std::string conv = "conv2d:in=64,out=128,kernel=3,size=56";

Finished ask(const char* of, std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program(of));
  return spawn(arguments);
}

TEST(LayerOption, PredictsTheLayersParts) {
  const json answer = json_of(
      ask("predict", {"--layer", conv, "--device", "T4", "--batch-size", "32", "--precision", "fp16", "--json"}));
  for (const char* part : {"forward", "backward", "optimizer"}) {
    const json& sec = answer.at("layer_sec").at(part);
    EXPECT_LT(sec.at("p05"), sec.at("p50"));
    EXPECT_LT(sec.at("p50"), sec.at("p95"));
  }
  EXPECT_EQ(answer.at("batch_size"), 32);
  EXPECT_EQ(answer.at("precision"), "fp16");
  EXPECT_EQ(answer.at("device"), "T4");
  const Finished text = ask("predict", {"--layer", conv, "--device", "T4", "--batch-size", "32"});
  EXPECT_THAT(text.out, ::testing::AllOf(::testing::HasSubstr("backward"), ::testing::HasSubstr("ms  (90 %:")));
}

TEST(LayerOption, InspectsTheLayersWork) {
  const json answer = json_of(ask("inspect", {"--layer", conv + ",padding=same", "--batch-size", "32", "--json"}));
  EXPECT_EQ(answer.at("params"), 64 * 128 * 9 + 128);
  EXPECT_EQ(answer.at("phases").at("forward").at("conv_matmul_flops"), 2.0 * 32 * 128 * 56 * 56 * 64 * 9);
  EXPECT_TRUE(answer.at("kinds").contains("convolution_backward"));
}

TEST(LayerOption, RefusesWhatHasNoEffect) {
  const auto refused = [](const char* of, const std::vector<std::string>& more, const char* word) {
    std::vector<std::string> arguments = {"--layer", conv, "--batch-size", "32"};
    arguments.insert(arguments.end(), more.begin(), more.end());
    expect_refusal(ask(of, arguments), 2, word);
  };
  refused("predict", {}, "--device is missing");
  refused("predict", {"--device", "T4", "--classes", "10"}, "classes is given");
  refused("predict", {"--device", "T4", "--epochs", "3"}, "--epochs is for jobs");
  refused("predict", {"--device", "T4", "--network", "resnet18"}, "network is given");
  refused("predict", {"--device", "T5"}, "T5");
  refused("inspect", {"--input", "3x32x32"}, "--input is for --network");
  expect_refusal(ask("predict", {"--layer", "conv2d:in=64", "--device", "T4", "--batch-size", "1"}), 2,
                 "image_size is missing");
}

// A model of single layers is a model, too, but not of networks.
TEST(LayerOption, AModelOfSingleLayersIsNotAskedForNetworks) {
  const TemporaryFolder folder;
  const std::string model = folder.write("layers.json", R"({"format":1,"kind":"layers","layers":{}})");
  expect_refusal(ask("predict", {"--model", model, "--network", "resnet18", "--batch-size", "8", "--device", "T4"}), 2,
                 "is a model of single layers, for single layers (--layer) alone");
  const std::string rows = folder.write("runs_agg.csv",
                                        "depth,base_filters,batch_size,params,n,steps_per_epoch,avg_time_mean,"
                                        "avg_time_std,thr_mean,thr_std,acc_mean,acc_std\n"
                                        "2,16,64,280218,2,782,4.0,0.1,12500,300,0.7,0.01\n");
  expect_refusal(ask("evaluate", {"--model", model, "--measured", rows}), 2, "is a model of single layers");
  // What is asked for layers says of another model that it is none of layers.
  expect_refusal(ask("predict", {"--model", model, "--layer", conv, "--device", "T4", "--batch-size", "8"}), 2,
                 "the model has no layers of type conv2d");
}

}  // namespace
}  // namespace perfpred::testing
