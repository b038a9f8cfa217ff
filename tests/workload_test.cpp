// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>
#include <string>

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

TEST(Workload, StepsAreRoundedUp) {
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 128).steps_per_epoch(), 391);
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 50'000).steps_per_epoch(), 1);
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 50'001).steps_per_epoch(), 1);
  EXPECT_EQ(Workload::cifar_cnn(2, 16, 49'999).steps_per_epoch(), 2);
  Workload huge = Workload::cifar_cnn(2, 16, std::numeric_limits<std::int64_t>::max());
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
  workload.depth = workload.base_filters = std::nullopt;
  workload.input = {512};
  workload.classes = 30522;
  workload.train_images = 1;
  check();
}

TEST(Workload, WhatIsNoKeyIsRefused) {
  const std::string key = Workload::cifar_cnn(3, 32, 512).key();
  for (std::size_t size = 0; size + 1 < key.size() - std::string("threads=").size(); ++size) {
    EXPECT_THROW((void)Workload::from_key(key.substr(0, size)), InputError) << key.substr(0, size);
  }
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
  workload.network = "cifar_cnn";
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
