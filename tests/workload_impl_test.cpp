// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/network.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "refusal.h"
#include "temporary_folder.h"
#include "workload/workload_columns.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::ThrowsMessage;

TEST(Workload, ParameterCountsOfTheCifarFamily) {
  // As published with the reference collection.
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 32).params(), 280'218);
  EXPECT_EQ(Workload::cifar_cnn(2, 32, 32).params(), 591'274);
  EXPECT_EQ(Workload::cifar_cnn(3, 16, 32).params(), 204'570);
  EXPECT_EQ(Workload::cifar_cnn(3, 32, 32).params(), 550'570);
  EXPECT_EQ(Workload::cifar_cnn(3, 64, 32).params(), 1'671'114);
}

TEST(Workload, ParameterCountsByHand) {
  // Depth 1, base 1: convolutions 27+1 and 9+1, dense 16*16*128 + 128, dense 128*10 + 10.
  EXPECT_EQ(Workload::cifar_cnn(1, 1, 1).params(), 28 + 10 + 32'768 + 128 + 1'280 + 10);
  Workload workload = Workload::cifar_cnn(1, 1, 1);
  workload.input = {1, 28, 28};
  workload.classes = 100;
  EXPECT_EQ(workload.params(), 10 + 10 + 14 * 14 * 128 + 128 + 12'800 + 100);
}

TEST(Workload, TheDefaultIsValid) {
  EXPECT_NO_THROW(Workload().validate());
  EXPECT_EQ(Workload(), Workload::cifar_cnn(1, 1, 1));
  EXPECT_EQ(Workload::from_key(Workload().key()), Workload());
  EXPECT_EQ(Workload().params(), Workload::cifar_cnn(1, 1, 1).params());
}

TEST(Workload, ParametersOfAnInvalidWorkloadAreRefused) {
  const auto refused = [](const auto& change) {
    Workload workload = Workload::cifar_cnn(2, 16, 32);
    change(workload);
    EXPECT_THROW((void)workload.params(), InputError) << workload.key();
    EXPECT_THROW((void)workload.graph(), InputError) << workload.key();
  };
  refused([](Workload& w) { w.network = "cifar_cnn:base_filters=16"; });
  refused([](Workload& w) { w.network = "cifar_cnn:depth=2"; });
  refused([](Workload& w) { w.network = "cifar_cnn:depth=9,base_filters=16"; });
  refused([](Workload& w) { w.input = {}; });
  refused([](Workload& w) { w.input = {3, -32, -32}; });
  refused([](Workload& w) { w.batch_size = 0; });
  // What overflows 64 bits, or what no device could hold.
  constexpr std::int64_t huge = 4'000'000'000;
  refused([](Workload& w) { w.input = {3, huge, huge}; });
  refused([](Workload& w) { w.input = {huge, 100'000, 100'000}; });
  refused([](Workload& w) { w.classes = std::int64_t{1} << 62; });
  refused([](Workload& w) { w.batch_size = std::numeric_limits<std::int64_t>::max(); });
  refused([](Workload& w) { w.network = "cifar_cnn:depth=2,base_filters=65536", w.input = {1, 1 << 22, 1 << 22}; });
}

TEST(Workload, StepsAreRoundedUp) {
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 128).steps_per_epoch(), 391);
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 50'000).steps_per_epoch(), 1);
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 50'001).steps_per_epoch(), 1);
  Workload unset;
  unset.batch_size = 0;
  EXPECT_THROW((void)unset.steps_per_epoch(), InputError);
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 49'999).steps_per_epoch(), 2);
  Workload huge = Workload::cifar_cnn(2, 16, 1);
  huge.batch_size = std::numeric_limits<std::int64_t>::max();
  huge.train_images = std::numeric_limits<std::int64_t>::max();
  EXPECT_EQ(huge.steps_per_epoch(), 1);
}

TEST(Workload, TheKeyHasAllFieldsInOrder) {
  EXPECT_EQ(Workload::cifar_cnn(3, 32, 512).key(),
            "network=cifar_cnn;depth=3;base_filters=32;batch_size=512;input=3x32x32;classes=10;train_images=50000;"
            "optimizer=adam;precision=fp32;layout=nchw;cuda_graph=0;device=unknown;threads=");
}

TEST(Workload, KeysReadBack) {
  Workload workload = Workload::cifar_cnn(3, 32, 512);
  std::set<std::string> keys;
  const auto check = [&] {
    EXPECT_EQ(Workload::from_key(workload.key()), workload);
    EXPECT_TRUE(keys.insert(workload.key()).second) << workload.key();
  };
  check();
  workload.device = "A card, \"v=2\"";
  check();
  workload.threads = 4;
  check();
  workload.cuda_graph = true;
  check();
  workload.layout = Layout::nhwc;
  check();
  for (const Precision precision :
       {Precision::tf32, Precision::bf16, Precision::fp16, Precision::fp64, Precision::unknown, Precision::default_}) {
    workload.precision = precision;
    check();
  }
  for (const Optimizer optimizer : {Optimizer::none, Optimizer::sgd, Optimizer::nesterov, Optimizer::adamw,
                                    Optimizer::adagrad, Optimizer::adadelta, Optimizer::rmsprop}) {
    workload.optimizer = optimizer;
    check();
  }
  workload.network = "bert_base";
  workload.input = {512};
  workload.classes = 30522;
  workload.train_images = 1;
  check();
  workload.attention = Attention::eager;
  check();
  workload.optimizer = Optimizer::adamw;
  workload.optimizer_impl = OptimizerImpl::foreach;
  check();
  workload.compiled = true;
  check();
  workload.phases = Phases::forward;
  check();
  workload.compiled = false;
  for (const Software software :
       {Software::tensorflow, Software::xla, Software::mxnet, Software::paddle, Software::jax}) {
    workload.software = software;
    check();
  }
  workload.loader = Loader::included;
  check();
}

TEST(Workload, TheKeyHasRarerFieldsOnlyWhereTheyAreUnusual) {
  Workload workload = Workload::zoo("gpt2", 8);
  const std::string key = workload.key();
  EXPECT_EQ(key.find("attention"), std::string::npos);
  workload.attention = Attention::eager;
  EXPECT_EQ(workload.key(), key + ";attention=eager");
  EXPECT_EQ(with_field(Workload::zoo("gpt2", 8), "attention", "eager"), workload);
  for (const char* wrong : {";attention=sdpa", ";attention=", ";attention=flash", ";attention"}) {
    EXPECT_THROW((void)Workload::from_key(key + wrong), InputError) << wrong;
  }
  workload.optimizer_impl = OptimizerImpl::foreach;
  EXPECT_EQ(workload.key(), key + ";attention=eager;optimizer_impl=foreach");
  EXPECT_THROW((void)Workload::from_key(key + ";optimizer_impl=foreach;attention=eager"), InputError);
  workload.optimizer = Optimizer::rmsprop;
  EXPECT_THROW(workload.validate(), InputError);
  Workload pass = Workload::zoo("gpt2", 8);
  pass.software = Software::xla;
  pass.loader = Loader::included;
  pass.phases = Phases::forward;
  EXPECT_EQ(pass.key(), key + ";software=xla;loader=included;phases=forward");
  pass.compiled = true;  // of PyTorch
  EXPECT_THROW(pass.validate(), InputError);
  const testing::TemporaryFolder folder;
  CsvReader csv(folder.write("t.csv", "network,batch_size,attention\ngpt2,8,eager\ngpt2,8,\n"));
  const WorkloadReader reader(csv, unstated_workload());
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(reader.read(csv).attention, Attention::eager);
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(reader.read(csv).attention, Attention::sdpa);
}

TEST(Workload, RandomWorkloadsReadBackFromTheirKeys) {
  std::mt19937_64 random(11);
  const auto below = [&random](std::int64_t limit) {
    return std::uniform_int_distribution<std::int64_t>(0, limit - 1)(random);
  };
  const auto networks = zoo_networks();
  const std::array devices = {"unknown",    "tesla t4", "NVIDIA A100-SXM4-40GB", "V100", "Some, \"other\" card",
                              "CPU @ 2 GHz"};
  for (int i = 0; i < 2000; ++i) {
    Workload workload = Workload::cifar_cnn(1 + static_cast<int>(below(5)), 1 + static_cast<int>(below(300)), 1);
    if (below(2) == 0) {
      workload =
          Workload::zoo(networks[static_cast<std::size_t>(below(static_cast<std::int64_t>(networks.size())))], 1);
    }
    workload.batch_size = 1 + below(1 << 20);
    workload.classes = 2 + below(1'000'000);
    workload.train_images = 1 + below(std::numeric_limits<std::int64_t>::max());
    workload.optimizer = static_cast<Optimizer>(below(8));
    workload.precision = static_cast<Precision>(below(7));
    workload.layout = static_cast<Layout>(below(2));
    workload.cuda_graph = below(2) == 1;
    workload.device = devices[static_cast<std::size_t>(below(devices.size()))];
    if (below(2) == 1) workload.threads = 1 + static_cast<int>(below(256));
    if (!workload.depth() && below(2) == 1) workload.attention = Attention::eager;
    EXPECT_EQ(Workload::from_key(workload.key()), workload) << workload.key();
    EXPECT_EQ(Workload::from_key(workload.key()).key(), workload.key());
  }
}

TEST(Workload, TwoSpellingsGiveOneKeyThroughEveryDoor) {
  Workload expected = Workload::zoo("resnet18", 32);
  expected.device = "A100-SXM4-40GB";
  EXPECT_THAT(expected.key(), HasSubstr("network=resnet18;"));
  EXPECT_THAT(expected.key(), HasSubstr(";device=A100-SXM4-40GB;"));
  for (const auto& [network, device] : std::vector<std::pair<std::string, std::string>>{
           {"ResNet18", "NVIDIA A100-SXM4-40GB"}, {"RESNET18", "a100 sxm4 40gb"}, {"resnet18", "A100-SXM4-40GB"}}) {
    Workload assigned = Workload::zoo(network, 32);
    assigned.network = network;
    assigned.device = device;
    EXPECT_EQ(assigned, expected);
    EXPECT_EQ(assigned.key(), expected.key());

    Workload fields = with_field(Workload(), "network", network);
    fields = with_field(with_field(fields, "batch_size", "32"), "device", device);
    EXPECT_EQ(fields.key(), expected.key());

    std::string key = expected.key();
    key.replace(key.find("resnet18"), 8, network);
    key.replace(key.find("device=") + 7, std::string("A100-SXM4-40GB").size(), device);
    EXPECT_EQ(Workload::from_key(key).key(), expected.key());

    const testing::TemporaryFolder folder;
    CsvReader csv(folder.write("t.csv", "network,batch_size,device,input,classes,train_images,precision\n" + network +
                                            ",32," + device + ",3x224x224,1000,1281167,fp32\n"));
    const WorkloadReader reader(csv, unstated_workload());
    ASSERT_TRUE(csv.next());
    EXPECT_EQ(reader.read(csv).key(), expected.key());
  }
  Workload family = Workload::cifar_cnn(2, 16, 32);
  family.network = "CIFAR_CNN:Depth=2,Base_Filters=16";
  EXPECT_EQ(family, Workload::cifar_cnn(2, 16, 32));
}

TEST(Precision, HasTheWordsOfPyTorchAndOfTrainers) {
  for (const auto& [precision, words] : std::vector<std::pair<Precision, std::vector<const char*>>>{
           {Precision::fp16, {"fp16", "FP16", "amp", "AMP", "mixed", "half", "float16", "torch.float16", "16-mixed"}},
           {Precision::bf16, {"bf16", "BF16", "bfloat16", "torch.bfloat16", "bf16-mixed"}},
           {Precision::fp32, {"fp32", "float32", "torch.float32", "single"}},
           {Precision::tf32, {"tf32", "TF32", "TensorFloat-32"}},
           {Precision::fp64, {"fp64", "float64", "double"}},
           {Precision::default_, {"default"}}}) {
    for (const char* word : words) EXPECT_EQ(parse_precision(word), precision) << word;
  }
  for (const char* word : {"", "fp8", "torch", "16", "halfway"}) EXPECT_THROW((void)parse_precision(word), InputError);
}

TEST(Workload, TheSizesOfACifarCnnMayStandInItsNameOrApart) {
  const Workload expected = Workload::cifar_cnn(3, 32, 64);
  EXPECT_EQ(expected.network, "cifar_cnn:depth=3,base_filters=32");
  EXPECT_EQ(expected.network.family(), "cifar_cnn");
  EXPECT_EQ(Workload::zoo("CIFAR_CNN:depth=3,base_filters=32", 64), expected);
  EXPECT_THAT(expected.key(), ::testing::StartsWith("network=cifar_cnn;depth=3;base_filters=32;batch_size=64;"));
  Workload apart = with_field(Workload::zoo("resnet18", 64), "network", "cifar_cnn");
  EXPECT_EQ(testing::refusal([&] { apart.validate(); }), "depth is missing; cifar_cnn needs it");
  apart = with_field(with_field(apart, "base_filters", "32"), "depth", "3");
  EXPECT_EQ(apart, expected);
  EXPECT_EQ(testing::refusal([&] { (void)with_field(Workload::zoo("resnet18", 64), "depth", "3"); }),
            "network resnet18 has no depth and base_filters");
  std::string key = expected.key();
  key.replace(key.find("cifar_cnn"), 9, expected.network);  // keys have one form
  EXPECT_THROW((void)Workload::from_key(key), InputError);
}

TEST(Workload, WhatIsNoSizeOfACifarCnnIsRefused) {
  for (const char* name : {"cifar_cnn:", "cifar_cnn:depth=x,base_filters=32", "cifar_cnn:depth=03,base_filters=32",
                           "cifar_cnn:base_filters=32,depth=3", "cifar_cnn:depth=3,base_filters=32,",
                           "cifar_cnn:depth=3,base_filters=32,a=1", "cifar_cnn:depth=3,base_filters=99999999999",
                           "cifar_cnn:depth=3;base_filters=32", "cifar_cnn:depth=3,base_filters="}) {
    Workload workload;
    workload.network = name;
    EXPECT_THROW(workload.validate(), InputError) << name;
    EXPECT_THROW((void)Workload::zoo(name, 8), InputError) << name;
  }
  Workload workload;
  workload.network = "cifar_cnn:depth=6,base_filters=32";
  EXPECT_EQ(testing::refusal([&] { workload.validate(); }), "depth 6 is not in 1..5");
  workload.network = "cifar_cnn:depth=3,base_filters=0";
  EXPECT_EQ(testing::refusal([&] { workload.validate(); }), "base_filters 0 is not in 1..65536");
}

TEST(Workload, ASharedAliasAndAnUnknownNameStayAsTheyAre) {
  Workload workload;
  for (const char* name : {"V100", "A100", "Intel(R) Xeon(R) Processor", "my card", "cpu", "unknown"}) {
    workload.device = name;
    EXPECT_EQ(workload.device, name);
  }
}

TEST(Workload, AnotherNetworkBringsTheDataItIsUsuallyTrainedOn) {
  Workload small = Workload::cifar_cnn(3, 32, 64);
  small.optimizer = Optimizer::sgd;
  small.train_images = 1024;
  const Workload resnet = with_field(small, "network", "resnet50");
  EXPECT_EQ(resnet.depth(), std::nullopt);
  EXPECT_THAT(resnet.input, ElementsAre(3, 224, 224));
  EXPECT_EQ(resnet.classes, 1000);
  EXPECT_EQ(resnet.train_images, 1'281'167);
  EXPECT_EQ(resnet.batch_size, 64);
  EXPECT_EQ(resnet.optimizer, Optimizer::sgd);
  EXPECT_EQ(with_field(small, "network", "Cifar_CNN"), small);  // the same network changes nothing
  EXPECT_THROW((void)with_field(small, "network", "resent50"), InputError);
  EXPECT_EQ(
      testing::refusal([&] { (void)with_field(small, "no such field", "1"); }),
      "field \"no such field\" is not one of network, depth, base_filters, batch_size, input, classes, train_images, "
      "optimizer, precision, layout, cuda_graph, device, threads, attention, optimizer_impl, weights, adapter, "
      "checkpoint, accumulate, compiled, software, loader, loss, padding, phases, parallel, gpus_per_node, cluster");
  const Workload own = with_field(resnet, "network", "step:0123456789ab");
  EXPECT_EQ(own.train_images, resnet.train_images);
}

TEST(Workload, AFieldOutOfItsRangeIsRefusedWhenItIsSet) {
  const auto refused = [](const char* field, const char* text) {
    return testing::refusal([&] { (void)with_field(Workload(), field, text); });
  };
  EXPECT_EQ(refused("depth", "6"), "depth 6 is not in 1..5");
  EXPECT_EQ(refused("base_filters", "65537"), "base_filters 65537 is not in 1..65536");
  EXPECT_EQ(refused("classes", "1"), "classes 1 is not at least 2");
  EXPECT_EQ(refused("device", "a;b"), "device \"a;b\" is not free of ; and control characters");
  EXPECT_EQ(refused("input", "1x1x1x1x1x1x1x1"), "input 1x1x1x1x1x1x1x1 has too many sizes");
  // What depends on other fields may be set in any order.
  EXPECT_EQ(with_field(with_field(Workload(), "depth", "5"), "input", "3x64x64").depth(), 5);
  EXPECT_EQ(with_field(with_field(Workload(), "depth", "5"), "input", "3x16x16").depth(), 5);
}

TEST(Workload, TrainedLikeTakesWhereAndHowAnotherRuns) {
  Workload other = Workload::zoo("resnet18", 7);
  other.device = "T4";
  other.threads = 3;
  other.precision = Precision::bf16;
  other.optimizer = Optimizer::sgd;
  other.layout = Layout::nhwc;
  other.cuda_graph = true;
  Workload expected = other;
  expected.network = "cifar_cnn:depth=2,base_filters=16";
  expected.batch_size = 32;
  expected.input = {3, 32, 32};
  expected.classes = 10;
  expected.train_images = 50'000;
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 32).trained_like(other), expected);
}

TEST(Workload, WhatIsNoKeyIsRefused) {
  const std::string key = Workload::cifar_cnn(3, 32, 512).key();
  for (std::size_t size = 0; size + 1 < key.size() - std::string("threads=").size(); ++size) {
    EXPECT_THROW((void)Workload::from_key(key.substr(0, size)), InputError) << key.substr(0, size);
  }
  EXPECT_THROW((void)Workload::from_key(key + ";"), InputError);
  EXPECT_THROW((void)Workload::from_key(key + ";more=1"), InputError);
  EXPECT_THROW((void)Workload::from_key(" " + key), InputError);
  EXPECT_THROW((void)Workload::from_key(std::string(1'000'000, 'x')), InputError);
  const auto changed = [&key](const std::string& from, const std::string& to) {
    std::string text = key;
    return text.replace(text.find(from), from.size(), to);
  };
  for (const auto& [from, to] : std::vector<std::pair<std::string, std::string>>{{"depth=3", "depth=0"},
                                                                                 {"depth=3", "depth=6"},
                                                                                 {"depth=3", "depth="},
                                                                                 {"depth=3", "depth=99999999999"},
                                                                                 {"filters=32", "filters=-1"},
                                                                                 {"filters=32", "filters=100000"},
                                                                                 {"size=512", "size=1.5"},
                                                                                 {"size=512", "size=0"},
                                                                                 {"input=3x32x32", "input=3x32"},
                                                                                 {"input=3x32x32", "input=3x4x4"},
                                                                                 {"input=3x32x32", "input=x"},
                                                                                 {"classes=10", "classes=1"},
                                                                                 {"images=50000", "images=0"},
                                                                                 {"adam", "sgdm"},
                                                                                 {"fp32", "fp31"},
                                                                                 {"nchw", "NCHW"},
                                                                                 {"graph=0", "graph=2"},
                                                                                 {"threads=", "threads=0"},
                                                                                 {"size=512", "size="},
                                                                                 {"depth=3", "depth=03"},
                                                                                 {"device=unknown", "device="},
                                                                                 {"=cifar_cnn", "=bert_base"}}) {
    EXPECT_THROW((void)Workload::from_key(changed(from, to)), InputError) << from << " -> " << to;
  }
}

TEST(Workload, ValidateNamesTheField) {
  Workload workload = Workload::cifar_cnn(2, 16, 32);
  workload.device = "a;b";
  EXPECT_THAT([&] { workload.validate(); }, ThrowsMessage<InputError>(HasSubstr("device \"a;b\"")));
  workload.device = "line\nbreak";
  EXPECT_THROW(workload.validate(), InputError);
  workload.device = "Ger\xe4t 1";
  EXPECT_THAT([&] { workload.validate(); }, ThrowsMessage<InputError>("device \"Ger?t 1\" is not valid UTF-8"));
  workload.device = "Ger\xc3\xa4t 1";
  EXPECT_NO_THROW(workload.validate());
  workload.network = "\xff";
  EXPECT_THAT([&] { workload.validate(); }, ThrowsMessage<InputError>("network \"?\" is not valid UTF-8"));
  workload.network = "cifar_cnn:depth=2,base_filters=16";
  workload.device = "";
  EXPECT_THAT([&] { workload.validate(); }, ThrowsMessage<InputError>(HasSubstr("device")));
  EXPECT_THROW((void)Workload::cifar_cnn(0, 16, 32), InputError);
  EXPECT_THROW((void)Workload::cifar_cnn(2, 0, 32), InputError);
  EXPECT_THROW((void)Workload::cifar_cnn(2, 16, 0), InputError);
}

TEST(Workload, Shapes) {
  EXPECT_THAT(parse_shape("3x32x32"), ElementsAre(3, 32, 32));
  EXPECT_THAT(parse_shape("512"), ElementsAre(512));
  EXPECT_EQ(shape_text({1, 28, 28}), "1x28x28");
  for (const char* text : {"", "x", "3x", "x3", "3xx3", "0x3", "-1x3", "3X3", "3.0x3", "99999999999999999999"}) {
    EXPECT_THROW((void)parse_shape(text), InputError) << text;
  }
}

TEST(Workload, TableColumnsHaveDefaultsAndPlaces) {
  const testing::TemporaryFolder folder;
  CsvReader csv(folder.write("t.csv",
                             "depth,base_filters,batch_size,network,device,precision\n"
                             "3,32,64,,,\n"
                             ",,8,resnet18,card,fp16\n"
                             "3,32,64,,,fp33\n"
                             "9,32,64,,,\n"
                             "3,32,64,,Ger\xe4t,\n"));
  const WorkloadReader reader(csv, unstated_workload());
  ASSERT_TRUE(csv.next());
  Workload expected = Workload::cifar_cnn(3, 32, 64);
  expected.precision = Precision::unknown;
  EXPECT_EQ(reader.read(csv), expected);
  ASSERT_TRUE(csv.next());
  EXPECT_EQ(reader.read(csv).network, "resnet18");
  EXPECT_EQ(reader.read(csv).precision, Precision::fp16);
  ASSERT_TRUE(csv.next());
  EXPECT_THAT([&] { (void)reader.read(csv); }, ThrowsMessage<InputError>(HasSubstr("t.csv:4: precision \"fp33\"")));
  ASSERT_TRUE(csv.next());
  EXPECT_THAT([&] { (void)reader.read(csv); }, ThrowsMessage<InputError>(HasSubstr("t.csv:5: depth 9")));
  ASSERT_TRUE(csv.next());
  EXPECT_THAT([&] { (void)reader.read(csv); },
              ThrowsMessage<InputError>(HasSubstr("t.csv:6: device \"Ger?t\" is not valid UTF-8")));
}

}  // namespace
}  // namespace perfpred
