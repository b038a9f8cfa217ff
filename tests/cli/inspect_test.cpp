// SPDX-License-Identifier: Apache-2.0
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "spawn.h"

namespace perfpred::testing {
namespace {

using nlohmann::json;

Finished inspect(std::vector<std::string> arguments) {
  arguments.insert(arguments.begin(), program("inspect"));
  return spawn(arguments);
}

TEST(InspectProgram, HasTheKeysOfTheInterface) {
  const Finished finished = inspect({"--network", "ResNet50", "--batch-size", "32", "--device", "T4", "--json"});
  EXPECT_EQ(finished.err, "");
  const json step = json_of(finished);
  for (const char* key : {"network", "batch_size", "params", "flops", "conv_matmul_flops", "bytes",
                          "arithmetic_intensity", "phases", "kinds", "memory", "unknown_ops", "device"}) {
    EXPECT_TRUE(step.contains(key)) << key;
  }
  for (const char* key :
       {"peak_bytes", "parameters", "gradients", "optimizer", "activations", "loader", "workspace", "context"}) {
    EXPECT_TRUE(step["memory"].contains(key)) << key;
  }
  for (const char* key : {"name", "fits", "largest_batch", "bound", "time_at_peak_sec"}) {
    EXPECT_TRUE(step["device"].contains(key)) << key;
  }
  EXPECT_EQ(step["network"], "resnet50");
  EXPECT_EQ(step["params"], 25'557'032);
  EXPECT_NEAR(step["phases"]["forward"]["conv_matmul_flops"].get<double>() / 32e9, 8.18, 0.005);
  EXPECT_TRUE(step["unknown_ops"].empty());
}

TEST(InspectProgram, SaysWhatADeviceExecutes) {
  const auto kinds = [](std::vector<std::string> more) {
    more.insert(more.end(), {"--network", "transformer:layers=2,hidden=32,heads=4,vocab=50", "--json"});
    return json_of(inspect(more)).at("kinds");
  };
  const json neutral = kinds({});
  EXPECT_EQ(neutral.at("attention").at("ops"), 2);
  EXPECT_TRUE(neutral.contains("bernoulli"));
  const json gpu = kinds({"--device", "T4"});
  EXPECT_EQ(gpu.at("attention_backward").at("ops"), 2);
  EXPECT_TRUE(gpu.contains("native_dropout") && !gpu.contains("bernoulli"));
  EXPECT_FALSE(kinds({"--attention", "eager"}).contains("attention"));
  EXPECT_EQ(kinds({"--device", "T4", "--optimizer-impl", "foreach"}).at("lerp").at("ops"), 1);
  const json forward = kinds({"--device", "T4", "--phases", "forward"});
  EXPECT_TRUE(forward.contains("attention") && !forward.contains("attention_backward"));
}

TEST(InspectProgram, RefusesWithOneLine) {
  struct Wrong {
    std::vector<std::string> arguments;
    const char* message;
  };
  for (const Wrong& wrong : std::vector<Wrong>{
           {{}, "--network is missing"},
           {{"--network", "resent50"}, "did you mean resnet50?"},
           {{"--network", "yolov8n"}, "perfpred.capture records a step of any other"},
           {{"--network", "resnet50", "--nproc-per-node=4"}, "several devices are the fields gpus_per_node"},
           {{"--network", "resnet50", "--batch-size", "0"}, "batch_size \"0\" is not"},
           {{"--network", "resnet50", "--input", "3x4"}, "channels x height x width"},
           {{"--network", "vgg16", "--batch-size", "99999999999999"}, "too large for any device"},
           {{"--network", "resnet50", "--device", "no such card"}, "is not known"},
           {{"--network", "cifar_cnn"}, "depth is missing"},
           {{"--network", "gpt2", "--attention", "flash"}, "is not one of sdpa, eager"},
           {{"--network", "resnet18", "--attention", "eager"}, "resnet18 has no attention"},
           {{"--network", "gpt2", "--optimizer", "rmsprop", "--optimizer-impl", "foreach"},
            "no effect on optimizer rmsprop"},
           {{"--network", "resnet18", "--depth", "3"}, "only cifar_cnn"},
           {{"--network", "resnet18", "--device-file", "own.csv"}, "--device"},
           {{"--tables", "t", "--networks", "alexnet", "--depth", "3"}, "only cifar_cnn"},
           {{"--tables", "t", "--networks", "alexnet", "--device", "T4"}, "--device is for --network"},
           {{"--tables", "t", "--networks", "alexnet", "--ops", "o.csv"}, "--ops is for --network"},
           {{"--tables", "t", "--networks", "alexnet", "--batch-size", "3", "--batch-sizes", "1,2"},
            "--batch-size beside --batch-sizes"}}) {
    const Finished finished = inspect(wrong.arguments);
    EXPECT_EQ(finished.exit_code, 2);
    EXPECT_EQ(finished.out, "");
    EXPECT_NE(finished.err.find(wrong.message), std::string::npos) << finished.err;
    EXPECT_EQ(finished.err.find('\n'), finished.err.size() - 1);
  }
}

TEST(InspectProgram, CifarCnnIsFoundInAnyCase) {
  EXPECT_EQ(json_of(inspect({"--network", "CIFAR_CNN", "--depth", "3", "--base-filters", "8", "--json"})).at("network"),
            "cifar_cnn");
}

TEST(InspectProgram, MemoryOnTrainiumIsUnknown) {
  const Finished finished = inspect({"--network", "resnet18", "--device", "Trainium2", "--json"});
  EXPECT_NE(finished.err.find("how the device allocates memory is unknown"), std::string::npos) << finished.err;
  const json step = json_of(finished);
  EXPECT_TRUE(step["memory"].is_null());
  EXPECT_TRUE(step["device"]["fits"].is_null());
  EXPECT_TRUE(step["device"]["largest_batch"].is_null());
  EXPECT_EQ(inspect({"--network", "resnet18", "--device", "Trainium2"}).exit_code, 0);
}

TEST(InspectProgram, WritesOperatorsAndTables) {
  const TemporaryFolder folder;
  const std::string ops = folder.path() + "/ops.csv";
  EXPECT_EQ(inspect({"--network", "resnet18", "--batch-size", "2", "--ops", ops}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(ops));
  const std::string tables = folder.path() + "/tables";
  EXPECT_EQ(inspect({"--tables", tables, "--networks", "alexnet,gpt2", "--batch-sizes", "1,2"}).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(tables + "/models.csv"));
  EXPECT_TRUE(std::filesystem::exists(tables + "/batches.csv"));
  EXPECT_EQ(
      json_of(inspect({"--network", "vgg11", "--tables", tables, "--batch-sizes", "4,8,16", "--json"})).at("network"),
      "vgg11");
  const std::string rows = slurp(tables + "/batches.csv");
  EXPECT_EQ(std::count(rows.begin(), rows.end(), '\n'), 4);
  EXPECT_EQ(json_of(inspect({"--tables", tables, "--networks", "alexnet", "--json"})).at("files").size(), 2u);
  EXPECT_EQ(inspect({"--tables", tables}).exit_code, 2);
  EXPECT_EQ(inspect({"--tables", tables, "--networks", "alexnet", "--batch-sizes", "0"}).exit_code, 2);
}

TEST(InspectProgram, TablesNetworksAsTheOptionsSay) {
  const TemporaryFolder folder;
  const std::string tables = folder.path() + "/tables";
  ASSERT_EQ(
      inspect({"--tables", tables, "--networks", "ResNet18,CIFAR_CNN,transformer:layers=1,hidden=8,heads=2,vocab=10",
               "--depth", "1", "--base-filters", "1"})
          .exit_code,
      0);
  std::string rows = slurp(tables + "/models.csv");
  EXPECT_NE(rows.find("\nresnet18,3x224x224,1000,11689512,"), std::string::npos) << rows;
  EXPECT_NE(rows.find("\ncifar_cnn,3x32x32,10,34224,"), std::string::npos) << rows;  // 28 + 10 + 32896 + 1290
  EXPECT_NE(rows.find("\n\"transformer:layers=1,hidden=8,heads=2,vocab=10\",512,10,"), std::string::npos) << rows;
  ASSERT_EQ(inspect({"--tables", tables, "--networks", "resnet18", "--input", "3x64x64", "--classes", "10"}).exit_code,
            0);
  rows = slurp(tables + "/models.csv");
  EXPECT_NE(rows.find("\nresnet18,3x64x64,10,11181642,"), std::string::npos) << rows;  // 990 x 513 fewer
}

TEST(InspectProgram, TakesOwnDevices) {
  const TemporaryFolder folder;
  const std::string own = folder.write("own.csv",
                                       "name,kind,vendor,fp32_tflops,mem_bw_gbs,mem_gb,launch_us\n"
                                       "Mine,gpu,NVIDIA,1,100,0.001,1000\n"
                                       "Other,gpu,NVIDIA,1,100,100,\n");
  const auto answer = [&](const char* device) {
    return json_of(inspect({"--network", "CIFAR_CNN", "--depth", "1", "--base-filters", "1", "--device", device,
                            "--device-file", own, "--json"}))
        .at("device");
  };
  EXPECT_EQ(answer("mine").at("name"), "Mine");
  EXPECT_FALSE(answer("mine").at("fits"));
  EXPECT_EQ(answer("mine").at("bound"), "launch");  // a millisecond for each of its small operators
  EXPECT_TRUE(answer("other").at("fits"));
}

TEST(InspectProgram, SaysTheBoundOfPredict) {
  for (const auto& [network, batch, device] : {std::array{"mobilenet_v2", "1", "T4"},
                                               {"cifar_resnet18", "1", "A100-SXM4-80GB"},
                                               {"resnet50", "32", "T4"},
                                               {"vgg16", "64", "T4"},
                                               {"vit_b_16", "64", "L4"},
                                               {"gpt2", "4", "H100-SXM5-80GB"}}) {
    const std::vector<std::string> job = {"--network", network, "--batch-size", batch, "--device", device, "--json"};
    std::vector<std::string> asked = job;
    asked.insert(asked.begin(), program("predict"));
    EXPECT_EQ(json_of(inspect(job)).at("device").at("bound"), json_of(spawn(asked)).at("bound")) << network;
  }
}

TEST(InspectProgram, SaysTheMemoryOfPredict) {
  const std::vector<std::vector<std::string>> jobs = {
      {"--network", "gpt2", "--batch-size", "8", "--weights", "nf4", "--adapter", "lora:r=16", "--precision", "bf16",
       "--device", "H100-SXM5-80GB"},
      {"--network", "bert_base", "--batch-size", "16", "--padding", "padded", "--device", "T4"},
      {"--network", "bert_base", "--batch-size", "32", "--device", "L4"},  // only_just
      {"--network", "gpt2", "--batch-size", "4", "--checkpoint", "1", "--precision", "fp16", "--device", "T4"},
      {"--network", "resnet50", "--batch-size", "32", "--precision", "default", "--device", "A100-SXM4-80GB"},
  };
  for (std::vector<std::string> job : jobs) {
    job.emplace_back("--json");
    std::vector<std::string> asked = job;
    asked.insert(asked.begin(), program("predict"));
    const json step = json_of(inspect(job)), answer = json_of(spawn(asked));
    EXPECT_EQ(step.at("memory").at("peak_bytes"), answer.at("memory_bytes")) << job[1];
    EXPECT_EQ(step.at("device").at("largest_batch"), answer.at("largest_batch")) << job[1];
    EXPECT_EQ(step.at("device").at("verdict"), answer.at("verdict")) << job[1];
  }
}

}  // namespace
}  // namespace perfpred::testing
