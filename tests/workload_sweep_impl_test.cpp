// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <span>
#include <string>
#include <vector>

#include "refusal.h"
#include "temporary_folder.h"
#include "tools/workload_sweep.h"

namespace perfpred {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

const Workload base;

std::vector<SweptField> fields(const std::vector<std::string>& networks, const std::vector<std::string>& inputs) {
  return {{"network", networks}, {"batch_size", {"2"}}, {"input", inputs}};
}

TEST(Sweep, ATransformerKeepsItsNameThroughAListsCommas) {
  const auto sweep =
      sweep_workloads(std::span(&base, 1),
                      fields({"resnet18", "transformer:layers=1", "hidden=16", "heads=2", "vocab=50", "vgg11"}, {}));
  ASSERT_EQ(sweep.size(), 3U);
  EXPECT_EQ(sweep[1].network, "transformer:layers=1,hidden=16,heads=2,vocab=50");
  EXPECT_EQ(sweep[2].network, "vgg11");
}

TEST(Sweep, ATablesNetworkBringsItsOwnInputAndClassesWhereNothingIsSaid) {
  const testing::TemporaryFolder folder;
  const std::string table = folder.write("configs.csv",
                                         "network,batch_size,input\n"
                                         "resnet18,4,\n"
                                         "bert_base,,8\n"
                                         "resnet18,,3x64x64\n");
  const auto own = read_configurations(table, std::span(&base, 1), fields({}, {}));
  ASSERT_EQ(own.size(), 3U);
  EXPECT_THAT(own[0].input, ElementsAre(3, 224, 224));
  EXPECT_EQ(own[0].classes, 1000);
  EXPECT_EQ(own[0].batch_size, 4);
  EXPECT_EQ(own[0].train_images, 1'281'167);
  EXPECT_THAT(own[1].input, ElementsAre(8));
  EXPECT_EQ(own[1].classes, 30522);
  EXPECT_EQ(own[1].batch_size, 2);
  EXPECT_THAT(own[2].input, ElementsAre(3, 64, 64));
  // An option fills what rows leave out, also where it names what another network has by default.
  const auto small = read_configurations(folder.write("more.csv", "network,classes\nresnet18,10\n"),
                                         std::span(&base, 1), fields({}, {"3x32x32"}));
  EXPECT_THAT(small[0].input, ElementsAre(3, 32, 32));
  EXPECT_EQ(small[0].classes, 10);
}

TEST(Sweep, AKnownNetworkKeepsWhatIsKnownOfIt) {
  std::vector<Workload> bases = {Workload::cifar_cnn(2, 16, 64), Workload::zoo("resnet18", 64, {3, 64, 64})};
  bases[1].classes = 10;
  bases[1].train_images = 1024;
  const auto sweep = sweep_workloads(bases, {{"network", {"ResNet18", "resnet34", "CIFAR_CNN"}}, {"depth", {"3"}}});
  ASSERT_EQ(sweep.size(), 3U);
  EXPECT_EQ(sweep[0], bases[1]);
  EXPECT_EQ(sweep[1].train_images, 1'281'167);
  EXPECT_EQ(sweep[1].depth(), std::nullopt);
  EXPECT_EQ(sweep[2], Workload::cifar_cnn(3, 16, 64));
}

TEST(Sweep, ThreadsFollowTheDeviceUnlessTheyAreGiven) {
  std::vector<Workload> bases(2, Workload::zoo("resnet18", 8));
  bases[0].device = "one CPU";
  bases[0].threads = 2;
  bases[1].device = "other CPU";
  bases[1].threads = 16;
  const auto on_each = sweep_workloads(bases, {{"device", {"one CPU", "other CPU", "T4"}}});
  EXPECT_EQ(on_each[0].threads, 2);
  EXPECT_EQ(on_each[1].threads, 16);
  EXPECT_EQ(on_each[2].threads, std::nullopt);
  EXPECT_EQ(fill_workload(bases, {}, {{"device", {"T4"}}}).threads, std::nullopt);
  EXPECT_EQ(fill_workload(bases, {{"threads", {"4"}}}, {{"device", {"other CPU"}}}).threads, 4);
  const testing::TemporaryFolder folder;
  const std::string table = folder.write("configs.csv", "device,threads\nthis,\nT4,\nother CPU,8\n");
  const auto rows =
      read_configurations(table, bases, {}, [](const std::string& name) { return name == "this" ? "one CPU" : name; });
  EXPECT_EQ(rows[0], bases[0]);
  EXPECT_EQ(rows[1].device, "T4");
  EXPECT_EQ(rows[1].threads, std::nullopt);
  EXPECT_EQ(rows[2].threads, 8);
}

TEST(Sweep, ADepthThatNoNetworkHasIsRefused) {
  EXPECT_THROW((void)sweep_workloads(std::span(&base, 1), {{"network", {"resnet18"}}, {"depth", {"3"}}}), InputError);
  EXPECT_THROW((void)fill_workload(std::span(&base, 1), {{"network", {"resnet18"}}}, {{"depth", {"3"}}}).validate(),
               InputError);
  EXPECT_EQ(fill_workload(std::span(&base, 1), {{"depth", {"3"}}}, {{"network", {"resnet18"}}}).depth(), std::nullopt);
}

TEST(Sweep, SizesOfACifarCnnMayStandInItsNameOrApart) {
  const std::string named = "cifar_cnn:depth=3,base_filters=32";
  const std::vector<Workload> bases = {Workload::cifar_cnn(1, 4, 16)};
  const Workload expected = Workload::cifar_cnn(3, 32, 16);
  const auto swept = [&](const std::vector<SweptField>& fields) { return sweep_workloads(bases, fields); };
  EXPECT_THAT(swept({{"depth", {"3"}}, {"base_filters", {"32"}}}), ElementsAre(expected));
  EXPECT_THAT(swept({{"network", {"cifar_cnn:depth=3", "base_filters=32"}}}), ElementsAre(expected));
  EXPECT_THAT(swept({{"network", {named}}, {"depth", {"3"}}}), ElementsAre(expected));
  EXPECT_EQ(testing::refusal([&] {
              (void)swept({{"network", {named}}, {"depth", {"4"}}});
            }),
            "depth 4 is given, but network " + named + " has another");
  EXPECT_EQ(fill_workload(bases, {}, {{"network", {named}}}), expected);
  EXPECT_EQ(fill_workload(bases, {{"depth", {"4"}}}, {{"network", {named}}}), expected);  // as of other networks
  const testing::TemporaryFolder folder;
  const auto rows = read_configurations(folder.write("configs.csv", "network,depth,base_filters\ncifar_cnn,3,32\n\"" +
                                                                        named + "\",,\n\"" + named + "\",3,\n"),
                                        bases, {});
  EXPECT_THAT(rows, ElementsAre(expected, expected, expected));
  const std::string torn = folder.write("torn.csv", "network,depth\n\"" + named + "\",4\n");
  EXPECT_EQ(testing::refusal([&] { (void)read_configurations(torn, bases, {}); }),
            torn + ":2: depth 4 is given, but network " + named + " has another");
}

TEST(Sweep, OptionsBesideATableHaveOneValueEach) {
  const testing::TemporaryFolder folder;
  const std::string table = folder.write("configs.csv", "network\nresnet18\n");
  EXPECT_THAT(testing::refusal([&] {
                (void)read_configurations(table, std::span(&base, 1), fields({}, {"3x32x32", "3x64x64"}));
              }),
              HasSubstr("one value"));
  // Of what every row has, an option says nothing; a program's default may be idle.
  EXPECT_EQ(testing::refusal([&] {
              (void)read_configurations(table, std::span(&base, 1), {{"network", {"vgg11"}}});
            }),
            "network is a column of " + table + " and given as an option, too");
  EXPECT_EQ(read_configurations(table, std::span(&base, 1), {{"network", {"vgg11"}, false}}).at(0).network, "resnet18");
}

}  // namespace
}  // namespace perfpred
