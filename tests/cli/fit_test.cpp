// SPDX-License-Identifier: Apache-2.0
// perfpred-predict: whether a job fits, what would, how many tokens, at what price.
#include <perfpred/device.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred {
namespace {

using Json = nlohmann::json;
using ::testing::AllOf;
using ::testing::Contains;
using testing::expect_refusal;
using testing::Finished;
using ::testing::HasSubstr;
using ::testing::Not;
using testing::TemporaryFolder;

Finished predict(std::vector<std::string> options) {
  options.insert(options.begin(), testing::program("predict"));
  return testing::spawn(options);
}

Json answer(std::vector<std::string> options) {
  options.emplace_back("--json");
  return json_of(predict(std::move(options)));
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

/// Whether one of the changes that are advised, all on the same device, has these parts and fits.
bool advises(const Json& answer, const std::vector<std::string>& parts) {
  return std::ranges::any_of(answer.at("fit_advice"), [&](const Json& advice) {
    const std::string change = advice.at("change");
    const auto has = [&](const std::string& part) { return change.find(part) != std::string::npos; };
    return advice.at("verdict") == "fits" && change.find("device=") == std::string::npos &&
           std::ranges::all_of(parts, has);
  });
}

std::vector<std::string> lora(const std::string& network, const std::string& weights, const std::string& batch) {
  return {"--network",   network,       "--batch-size", batch,       "--input", "1024",      "--device",
          "RTX 4090",    "--precision", "bf16",         "--weights", weights,   "--adapter", "lora:r=16,targets=all",
          "--optimizer", "adamw"};
}

TEST(Fit, ALoRAThatDoesNotFitIsToldOfQLoRA) {
  const Json json = answer(lora("llama2_13b", "bf16", "1"));
  EXPECT_EQ(json.at("verdict"), "does_not_fit");
  EXPECT_TRUE(advises(json, {"weights=nf4"})) << json.at("fit_advice");
}

TEST(Fit, AdviceOfLanguageModelsHasTheChunkedLoss) {
  const Json json = answer(
      {"--network", "gpt2", "--batch-size", "64", "--input", "1024", "--device", "RTX 4090", "--precision", "bf16"});
  EXPECT_EQ(json.at("verdict"), "does_not_fit");
  EXPECT_TRUE(std::ranges::any_of(json.at("fit_advice"), [](const Json& one) {
    return one.at("change") == "loss=chunked";
  })) << json.at("fit_advice");
}

/// Beside weights in bf16 and checkpoints, the logits of 128,256 words are most of what a step holds.
TEST(Fit, TheChunkedLossIsAdvisedTogetherWithWhatMakesTheLogitsMost) {
  const Json json =
      answer({"--network", "llama3_8b", "--batch-size", "1", "--device", "RTX 4090", "--precision", "bf16"});
  EXPECT_TRUE(advises(json, {"loss=chunked", "checkpoint=all", "weights=bf16"})) << json.at("fit_advice");
}

/// Packed weights are unpacked to the type of the products: in single precision they are slow.
TEST(Fit, QLoRAIsAdvisedInHalfPrecision) {
  for (const auto& [device, half] : {std::pair("RTX 4090", "bf16"), {"T4", "fp16"}}) {
    const Json json = answer({"--network", "llama2_7b", "--batch-size", "1", "--input", "512", "--device", device});
    EXPECT_EQ(json.at("verdict"), "does_not_fit");
    bool some = false;
    for (const Json& advice : json.at("fit_advice")) {
      const std::string change = advice.at("change");
      if (change.find("weights=nf4") == std::string::npos) continue;
      some = true;
      EXPECT_THAT(change, HasSubstr(std::string("precision=") + half));
      EXPECT_LT(advice.at("time_factor"), 1.5) << change;  // Dettmers et al.: QLoRA is somewhat slower than LoRA
    }
    EXPECT_TRUE(some) << device << json.at("fit_advice");
  }
}

/// The states of LoRA's few parameters are half a GB of 40.
TEST(Fit, WhatFreesNothingIsNotAdvised) {
  const Json json = answer(lora("llama2_13b", "bf16", "1"));
  const double bytes = json.at("memory_bytes");
  const double lacking =
      json.at("memory").at("device").at("upper").get<double>() - json.at("memory").at("usable").get<double>();
  for (const Json& advice : json.at("fit_advice")) {
    const std::string change = advice.at("change");
    EXPECT_NE(change, "optimizer=adamw8bit");
    if (change.find("device=") != std::string::npos || advice.at("verdict") != json.at("verdict")) continue;
    EXPECT_GT(bytes - advice.at("memory_bytes").get<double>(), 0.05 * lacking) << change;
  }
}

TEST(Fit, ASmallerBatchIsAdvisedTogetherWithOtherChanges) {
  const Json json = answer(with(lora("llama2_13b", "bf16", "64"), {"--accumulate", "2"}));
  EXPECT_EQ(json.at("largest_batch"), 0);
  EXPECT_TRUE(advises(json, {"checkpoint=all", "weights=nf4", "batch_size=", "accumulate="})) << json.at("fit_advice");
}

TEST(Fit, WhatIsInForceIsNotAdvised) {
  std::vector<std::string> options = with(lora("llama2_13b", "nf4", "64"), {"--checkpoint", "all"});
  *std::ranges::find(options, "adamw") = "adamw8bit";
  const Json json = answer(options);
  EXPECT_NE(json.at("verdict"), "fits");
  EXPECT_FALSE(json.at("fit_advice").empty());
  for (const Json& advice : json.at("fit_advice")) {
    const std::string change = advice.at("change");
    for (const char* field : {"checkpoint=", "weights=", "optimizer=", "adapter="}) {
      EXPECT_EQ(change.find(field), std::string::npos) << change;
    }
  }
}

TEST(Fit, NoPartOfAGPUIsTheSmallestCard) {
  for (const char* batch : {"128", "192", "256", "384", "512", "768", "1024"}) {
    for (const Json& advice : answer(resnet50(batch, "T4")).at("fit_advice")) {
      const std::string change = advice.at("change");
      EXPECT_TRUE(change.find("MIG") == std::string::npos && change.find("Jetson") == std::string::npos) << change;
    }
  }
}

/// Dettmers et al., QLoRA (2023): a model of 65 billion parameters is fine-tuned on a single GPU of 48 GB. The copies
/// from which its weights were packed stay with the allocator, until it needs them.
TEST(Fit, WhatTheAllocatorGivesBackMakesNoJobTooLarge) {
  const std::vector<std::string> qlora = {"--network",    "llama_65b",
                                          "--input",      "512",
                                          "--device",     "RTX A6000",
                                          "--precision",  "bf16",
                                          "--weights",    "nf4",
                                          "--adapter",    "lora:r=64,targets=all",
                                          "--optimizer",  "paged_adamw8bit",
                                          "--checkpoint", "all"};
  EXPECT_EQ(answer(with(qlora, {"--batch-size", "1"})).at("verdict"), "only_just");
  EXPECT_EQ(answer(with(qlora, {"--batch-size", "64"})).at("verdict"), "does_not_fit");
}

/// bitsandbytes 0.50 needs compute capability 6.0, or CDNA or RDNA.
TEST(Fit, PackedWeightsNeedADeviceWithKernelsForThem) {
  const auto on = [](const std::string& device, const std::string& weights) {
    std::vector<std::string> options = lora("llama2_7b", weights, "1");
    *std::ranges::find(options, "RTX 4090") = device;
    *std::ranges::find(options, "bf16") = "fp16";  // older cards have no bf16
    return predict(options);
  };
  expect_refusal(on("GTX 980", "nf4"), 2, "weights nf4 have no kernels on device \"GTX 980\" (NVIDIA Maxwell)");
  expect_refusal(on("MI60", "int8"), 2, "weights int8 have no kernels on device \"MI60\" (AMD GCN5)");
  expect_refusal(on("TPUv4", "nf4"), 2, "weights nf4 have no kernels on device");
  for (const char* device : {"GTX 1080 Ti", "T4", "MI250X"}) EXPECT_EQ(on(device, "nf4").exit_code, 0) << device;
  EXPECT_EQ(on("GTX 980", "fp16").exit_code, 0);
}

TEST(Fit, WhatContradictsOrIsTooLongIsRefused) {
  std::vector<std::string> options = lora("llama2_7b", "bf16", "1");
  *std::ranges::find(options, "1024") = "100000000";
  expect_refusal(predict(options), 2, "input 100000000 is not a sequence length from 1 to 4194304");
  options = lora("llama2_7b", "bf16", "1");
  *(std::ranges::find(options, "--precision") + 1) = "fp16";
  expect_refusal(predict(options), 2, "weights bf16 and precision fp16 contradict each other");
}

TEST(Fit, WhatNobodyStatedIsShownInALine) {
  const std::vector<std::string> gpt2 = {"--network", "gpt2", "--batch-size", "2",
                                         "--device",  "T4",   "--accumulate", "4"};
  EXPECT_EQ(answer(gpt2).at("assumed"), Json({{"input", "1024"}, {"padding", "packed"}}));
  EXPECT_THAT(predict(gpt2).out, HasSubstr("\n  assumed      --input 1024, --padding packed\n"));
  const std::vector<std::string> said = with(gpt2, {"--input", "1024", "--padding", "packed"});
  EXPECT_EQ(answer(said).at("assumed"), Json::object());
  EXPECT_THAT(predict(said).out, Not(HasSubstr("assumed")));
  EXPECT_EQ(answer(with(gpt2, {"--padding", "padded"})).at("assumed"), Json({{"input", "1024"}}));
  EXPECT_EQ(answer(resnet50("8", "T4")).at("assumed"), Json({{"train_images", "1281167"}}));
  EXPECT_THAT(predict(resnet50("8", "T4")).out, HasSubstr("\n  assumed      --train-images 1281167\n"));
  EXPECT_EQ(answer(with(resnet50("8", "T4"), {"--train-images", "7"})).at("assumed"), Json::object());
  EXPECT_EQ(
      answer({"--network", "lstm:layers=1,hidden=64,vocab=100", "--batch-size", "2", "--device", "T4"}).at("assumed"),
      Json({{"input", "35"}}));
}

TEST(Fit, TextsOfSeveralLengthsAreLeftOutUnlessTheyArePadded) {
  const std::vector<std::string> bert = {"--network", "bert_base", "--batch-size", "2", "--device", "T4"};
  const std::string line = "texts of several lengths, which take more memory and time: padding=padded";
  EXPECT_THAT(answer(bert).at("left_out"), Contains(line));
  EXPECT_THAT(predict(bert).out, HasSubstr("\n  left out     " + line + "\n"));
  for (const char* padding : {"packed", "padded"})
    EXPECT_THAT(answer(with(bert, {"--padding", padding})).at("left_out"), Not(Contains(line))) << padding;
  EXPECT_EQ(answer(resnet50("8", "T4")).at("left_out"), Json::array());
}

/// GPT-2 small, 8 x 1,024 words in mixed precision: an H200 held 13.31 GB of tensors, and 7.29 GB where it was compiled
/// (data/nvidia_h200/pytorch; transformers' GELU there is of eight operators, which a compiler makes one kernel).
TEST(Fit, ACompiledStepNeedsLessMemory) {
  const std::vector<std::string> eager = {"--network",   "gpt2",     "--batch-size", "8",           "--input",
                                          "1024",        "--device", "H200",         "--precision", "bf16",
                                          "--optimizer", "adamw",    "--padding",    "packed"};
  const auto tensors = [](const std::vector<std::string>& asked) {
    return answer(asked).at("memory").at("tensors").at("p50").get<double>() / 1e9;
  };
  EXPECT_NEAR(tensors(with(eager, {"--compiled", "1"})), 7.29, 0.05 * 7.29);
  EXPECT_GT(tensors(eager), 1.3 * 7.29);
}

TEST(Fit, ALanguageModelWithoutDataHasNoEpoch) {
  const std::vector<std::string> gpt2 = {"--network", "gpt2", "--batch-size", "2", "--device", "T4"};
  const Json json = answer(gpt2);
  for (const char* key : {"time_sec", "total_sec", "price"}) EXPECT_TRUE(json.at(key).is_null()) << key;
  const double step = json["step_sec"]["p50"].get<double>();
  EXPECT_NEAR(json["images_per_sec"]["p50"].get<double>() * step, 2, 1e-9);
  EXPECT_NEAR(json["tokens_per_sec"]["p50"].get<double>() * step, 2 * 1024, 1e-6);
  const std::string line = "epoch, total and price: train_images or train_tokens is not stated";
  EXPECT_THAT(json.at("left_out"), Contains(line));
  EXPECT_THAT(json.at("key").get<std::string>(), HasSubstr(";train_images=50000;"));
  EXPECT_THAT(predict(gpt2).out, AllOf(HasSubstr("\n  left out     " + line + "\n"), Not(HasSubstr("\n  epoch")),
                                       Not(HasSubstr("\n  total")), Not(HasSubstr("\n  price"))));
  for (const auto& [option, value] : {std::pair("--train-images", "1000"), {"--train-tokens", "1024000"}}) {
    const Json stated = answer(with(gpt2, {option, value}));
    EXPECT_NEAR(stated["time_sec"]["p50"].get<double>(), 500 * step, 1e-6 * 500 * step);
    EXPECT_THAT(stated.at("left_out"), Not(Contains(line)));
  }
}

TEST(Fit, TermsOfEpochsSayWhatIsMissing) {
  const TemporaryFolder folder;
  const std::string prices = folder.write("prices.csv", "device,price_per_hour\nT4,1\n");
  const std::vector<std::string> gpt2 = {"--network", "gpt2", "--batch-size", "2", "--device", "T4"};
  for (const auto& [option, value] : {std::pair<std::string, std::string>("--epochs", "3"),
                                      {"--startup-sec", "1"},
                                      {"--price-per-hour", "1"},
                                      {"--budget-sec", "60"},
                                      {"--prices", prices}}) {
    expect_refusal(
        predict(with(gpt2, {option, value})), 2,
        option + " needs train_images or train_tokens: network gpt2 has no data that it is usually trained on");
    EXPECT_EQ(predict(with(gpt2, {option, value, "--train-images", "8"})).exit_code, 0) << option;
  }
  // Of several jobs, those that know their epoch are answered.
  const Finished mixed =
      predict({"--batch-size", "2", "--device", "T4", "--sweep", "network=gpt2,resnet18", "--epochs", "3"});
  EXPECT_EQ(mixed.exit_code, 0);
  EXPECT_THAT(mixed.out, AllOf(HasSubstr("--epochs needs train_images"), HasSubstr("epoch s")));
}

TEST(Fit, TablesOfJobsWithoutAnEpochAreInSteps) {
  const TemporaryFolder folder;
  const Finished both = predict({"--batch-size", "2", "--device", "T4", "--sweep", "network=gpt2,resnet18"});
  EXPECT_THAT(both.out,
              AllOf(HasSubstr("step s"), Not(HasSubstr("epoch s")),
                    HasSubstr("\nleft out: epoch, total and price: train_images or train_tokens is not stated\n"),
                    HasSubstr("\nassumed --input 1024, --padding packed, --train-images 1281167\n")));
  const Finished images = predict({"--batch-size", "2", "--device", "T4", "--sweep", "network=resnet50,resnet18"});
  EXPECT_THAT(images.out, AllOf(HasSubstr("epoch s"), Not(HasSubstr("step s"))));
  const Finished table = predict({"--configs", folder.write("jobs.csv", "network,batch_size,device\ngpt2,2,T4\n")});
  const std::string header = table.out.substr(0, table.out.find('\n'));
  EXPECT_THAT(header, HasSubstr(",epochs_in_budget_p95,assumed,left_out"));
  EXPECT_THAT(table.out, AllOf(HasSubstr("\ngpt2,,,2,1024,50257,,"), HasSubstr(",,,,"),
                               HasSubstr(",input=1024;padding=packed,\"epoch, total and price: ")));
}

TEST(Fit, BatchesOfAStepAndPartsOfTheMemoryAreShown) {
  const std::vector<std::string> four = with(resnet50("8", "T4"), {"--accumulate", "4"});
  const Json json = answer(four);
  EXPECT_EQ(json.at("batches_per_step"), 4);
  EXPECT_EQ(answer(resnet50("8", "T4")).at("batches_per_step"), 1);
  const std::string text = predict(four).out;
  EXPECT_THAT(text, HasSubstr("4 batches of 8"));
  EXPECT_THAT(predict(resnet50("8", "T4")).out, Not(HasSubstr("batches of")));
  const auto gigabytes = [&](const char* kind) {
    std::array<char, 32> digits{};
    std::snprintf(digits.data(), digits.size(), "%.2f GB", json["memory"][kind]["p50"].get<double>() / 1e9);
    return std::string(digits.data());
  };
  EXPECT_THAT(text, HasSubstr(gigabytes("tensors") + " of it tensors, " + gigabytes("reserved") + " reserved"));
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
  expect_refusal(predict(with(resnet50("8", "T4"), {"--train-tokens", "5", "--train-images", "9"})), 2,
                 "train_images and train_tokens are both given");
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
    expect_refusal(predict({"--network", "resnet50", of_batches ? "--device" : "--batch-size", of_batches ? "K80" : "8",
                            "--sweep", others, "--prices", prices}),
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
