// SPDX-License-Identifier: Apache-2.0
// perfpred-predict: whether a job fits, what would, how many tokens, at what price.
#include <perfpred/device.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;
using testing::expect_refusal;
using testing::Finished;
using ::testing::HasSubstr;
using testing::TemporaryFolder;

Finished predict(std::vector<std::string> options) {
  options.insert(options.begin(), testing::program("predict"));
  return testing::spawn(options);
}

Json answer(std::vector<std::string> options) {
  options.emplace_back("--json");
  const Finished finished = predict(std::move(options));
  EXPECT_EQ(finished.exit_code, 0) << finished.err;
  return Json::parse(finished.out, nullptr, false);
}

std::vector<std::string> resnet50(const std::string& batch, const std::string& device) {
  return {"--network", "resnet50", "--batch-size", batch, "--device", device, "--precision", "fp32"};
}

std::vector<std::string> with(std::vector<std::string> options, const std::vector<std::string>& more) {
  options.insert(options.end(), more.begin(), more.end());
  return options;
}

TEST(Fit, TheLargestBatchIsTheLastWhoseVerdictIsFits) {
  const Json large = answer(resnet50("512", "T4"));
  EXPECT_EQ(large.at("verdict"), "does_not_fit");
  EXPECT_EQ(large.at("fits"), false);
  EXPECT_EQ(large.at("memory_bytes"), large.at("memory").at("device").at("p50"));
  const int largest = large.at("largest_batch");
  const Json fits = answer(resnet50(std::to_string(largest), "T4"));
  EXPECT_EQ(fits.at("verdict"), "fits");
  EXPECT_EQ(fits.at("fits"), true);
  EXPECT_EQ(fits.at("fit_advice"), Json::array());
  EXPECT_EQ(fits.at("largest_batch"), largest);
  const Json next = answer(resnet50(std::to_string(largest + 1), "T4"));
  EXPECT_EQ(next.at("verdict"), "only_just");
  EXPECT_EQ(next.at("fits"), false);
}

TEST(Fit, EachNumberHoldsTheOneBefore) {
  const Json memory = answer(resnet50("32", "V100-SXM2-16GB")).at("memory");
  for (const char* quantile : {"p50", "upper"}) {
    EXPECT_GE(memory["reserved"][quantile], memory["tensors"][quantile]);
    EXPECT_GT(memory["device"][quantile], memory["reserved"][quantile]);
  }
  for (const char* kind : {"tensors", "reserved", "device"}) EXPECT_GT(memory[kind]["upper"], memory[kind]["p50"]);
}

TEST(Fit, WhatOthersHoldIsNotUsable) {
  const Json alone = answer(resnet50("32", "T4"));
  const Json beside = answer(with(resnet50("32", "T4"), {"--reserved-by-others", "3GB"}));
  EXPECT_EQ(alone["memory"]["usable"].get<double>() - beside["memory"]["usable"].get<double>(), 3e9);
  EXPECT_LT(beside["largest_batch"], alone["largest_batch"]);
  expect_refusal(predict(with(resnet50("32", "T4"), {"--reserved-by-others", "-3"})), 2,
                 "reserved_by_others is negative");
}

TEST(Fit, AdviceNamesTheLargestBatchAndTheSmallestOrCheapestCard) {
  const TemporaryFolder folder;
  const std::string prices =
      folder.write("prices.csv", "device,price_per_hour,currency\nA100-SXM4-80GB,1.5,USD\nL40S,1.6,USD\nT4,0.3,USD\n");
  const Json plain = answer(resnet50("256", "T4"));
  const Json priced = answer(with(resnet50("256", "T4"), {"--prices", prices}));
  const auto card_of = [](const Json& json) {
    for (const Json& advice : json.at("fit_advice")) {
      const std::string change = advice.at("change");
      if (change.rfind("device=", 0) == 0) return change.substr(7);
    }
    return std::string();
  };
  EXPECT_EQ(plain["fit_advice"][0]["change"], "batch_size=" + std::to_string(plain["largest_batch"].get<int>()));
  EXPECT_EQ(plain["fit_advice"][0]["verdict"], "fits");
  EXPECT_GE(plain["fit_advice"][0]["time_factor"], 0.9);
  EXPECT_EQ(card_of(priced), "A100-SXM4-80GB");
  const DeviceCatalogue devices;
  const std::string smallest = card_of(plain);
  ASSERT_NE(smallest, "");
  EXPECT_LT(*devices.find(smallest).usable_bytes(), *devices.find("A100-SXM4-80GB").usable_bytes());
  EXPECT_EQ(priced.at("currency"), "USD");
  EXPECT_NEAR(priced["price"]["p50"].get<double>(), 0.3 * priced["total_sec"]["p50"].get<double>() / 3600, 1e-9);
  EXPECT_THAT(predict(resnet50("256", "T4")).out, HasSubstr("device=" + smallest));
}

TEST(Fit, AJobOfWhichNoSampleFitsIsToldWhatWould) {
  const std::vector<std::string> llama = {"--network", "llama2_7b", "--batch-size", "1",           "--input",
                                          "512",       "--device",  "RTX 4090",     "--precision", "bf16"};
  const Json json = answer(llama);
  EXPECT_EQ(json.at("verdict"), "does_not_fit");
  EXPECT_EQ(json.at("largest_batch"), 0);
  bool fits = false;
  for (const Json& advice : json.at("fit_advice")) {
    const std::string change = advice.at("change");
    if (change.rfind("device=", 0) != 0) {
      EXPECT_LT(advice.at("memory_bytes"), json.at("memory_bytes")) << change;
    }
    fits = fits || (change.find("weights=nf4") != std::string::npos && advice.at("verdict") == "fits");
  }
  EXPECT_TRUE(fits) << json.at("fit_advice");
}

TEST(Fit, PricesAreChecked) {
  const TemporaryFolder folder;
  for (const auto& [text, message] :
       {std::pair("device,price_per_hour\nnone such,1\n", "prices.csv:2: device \"none such\" is not known"),
        std::pair("device,price_per_hour\nT4,-1\n", "prices.csv:2: price_per_hour -1 is negative"),
        std::pair("device,price_per_hour\nT4,1\nTesla T4,2\n", "prices.csv:3: device \"T4\" appears twice"),
        std::pair("device,price_per_hour,currency\nT4,1,USD\nL4,1,EUR\n", "prices.csv:3: currency \"EUR\""),
        std::pair("device\nT4\n", "price_per_hour")}) {
    expect_refusal(predict(with(resnet50("8", "T4"), {"--prices", folder.write("prices.csv", text)})), 2, message);
  }
}

TEST(Fit, NetworksOfSequencesHaveTokens) {
  const std::vector<std::string> gpt2 = {"--network", "gpt2",     "--batch-size",   "8",           "--input",
                                         "512",       "--device", "A100-SXM4-80GB", "--precision", "bf16"};
  const Json json = answer(with(gpt2, {"--train-tokens", "1000000"}));
  EXPECT_DOUBLE_EQ(json["tokens_per_sec"]["p50"].get<double>(), 512 * json["images_per_sec"]["p50"].get<double>());
  EXPECT_THAT(json.at("key").get<std::string>(), HasSubstr(";train_images=1954;"));  // 1,000,000 / 512, rounded up
  EXPECT_GT(json.at("mfu"), 0.05);
  EXPECT_LT(json.at("mfu"), 1);
  // Products of weights in half precision have its peak (312 TFLOP/s of an A100), whatever else is computed in;
  // what checkpoints compute anew is no use.
  std::vector<std::string> half = gpt2;
  half.back() = "fp32";
  half.insert(half.end(), {"--weights", "fp16"});
  const Json in_half = answer(half), again = answer(with(half, {"--checkpoint", "all"}));
  EXPECT_LT(in_half.at("mfu"), 1);
  const auto flops = [](const Json& of) { return of["mfu"].get<double>() * of["step_sec"]["p50"].get<double>(); };
  EXPECT_NEAR(flops(again) / flops(in_half), 1, 1e-12);
  EXPECT_THAT(predict(gpt2).out, HasSubstr("tokens/s"));
  EXPECT_EQ(answer(resnet50("8", "T4")).at("tokens_per_sec"), nullptr);
  expect_refusal(predict(with(resnet50("8", "T4"), {"--train-tokens", "5"})), 2, "train_tokens is for networks of");
}

TEST(Fit, ATableOfDevicesShowsMemoryAndPrice) {
  const TemporaryFolder folder;
  const std::string prices = folder.write("prices.csv", "device,price_per_hour\nT4,0.3\nL4,0.7\n");
  const Finished table = predict({"--network", "resnet50", "--batch-size", "256", "--precision", "fp32", "--sweep",
                                  "device=T4,A100-SXM4-80GB", "--prices", prices});
  EXPECT_EQ(table.exit_code, 0) << table.err;
  for (const char* part : {"memory GB", "of GB", "price", "does not fit", " fits"}) {
    EXPECT_THAT(table.out, HasSubstr(part));
  }
  EXPECT_THAT(table.out, Not(HasSubstr("nan")));  // no price of an A100
  for (const char* others : {"device=A100-SXM4-80GB,L40S", "batch_size=8,16"}) {
    const bool of_batches = std::string(others).starts_with("batch");
    expect_refusal(predict({"--network", "resnet50", of_batches ? "--device" : "--batch-size",
                            of_batches ? "K80" : "8", "--sweep", others, "--prices", prices}),
                   2, of_batches ? "prices has no device \"K80\"" : "prices has no device \"A100-SXM4-80GB\"");
  }
  const Finished all =
      predict({"--network", "resnet50", "--batch-size", "64", "--precision", "bf16", "--sweep", "device=all"});
  EXPECT_EQ(all.exit_code, 0) << all.err;
  EXPECT_THAT(all.out, HasSubstr("H200-SXM-141GB"));
  EXPECT_THAT(all.out, Not(HasSubstr("V100")));  // has no bf16
}

}  // namespace
}  // namespace perfpred
