// SPDX-License-Identifier: Apache-2.0
#include <perfpred/error.h>

#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "temporary_folder.h"
#include "tools/features_file.h"

namespace perfpred {
namespace {

TEST(FeaturesFile, HoldsWhatCanBeCountedByHand) {
  AggregateRow cnn, zoo;
  cnn.workload = Workload::cifar_cnn(2, 16, 100);
  cnn.n = 1;
  cnn.avg_time_mean = 2.5;
  zoo.workload = Workload::zoo("resnet18", 32);
  zoo.n = 0;  // ran out of memory, say: no label
  const testing::TemporaryFolder folder;
  write_features(folder.file("features.csv"), std::vector<AggregateRow>{cnn, zoo}, DeviceCatalogue());
  std::ifstream file(folder.file("features.csv"));
  std::string header, first, second;
  std::getline(file, header);
  std::getline(file, first);
  std::getline(file, second);
  EXPECT_EQ(header,
            "key,depth,base_filters,log2_batch_size,log10_params,log10_steps_per_epoch,steps,samples,layers,"
            "other_ops,flops,elements,conv_params,deep_params,dense_params,avg_time_mean");
  // Convolutions 3-16-16 on 32 x 32 and 16-32-32 on 16 x 16, 3 x 3 with bias; dense 2048-128-10.
  const double conv = 9 * (3 * 16 + 16 * 16 + 16 * 32 + 32 * 32) + 16 + 16 + 32 + 32;
  const double dense = 2048 * 128 + 128 + 128 * 10 + 10;
  const double flops = 2 * (2 * 1024 * 9 * 3 * 16 +  // the first layer needs no gradient of its input
                            3 * (1024 * 9 * 16 * 16 + 256 * 9 * (16 * 32 + 32 * 32) + 2048 * 128 + 128 * 10));
  std::istringstream fields(first.substr(first.find(',')));
  std::vector<double> values;
  for (char comma = 0; fields >> comma;) fields >> values.emplace_back();
  ASSERT_EQ(values.size(), 15U);
  EXPECT_EQ(values[0], 2);
  EXPECT_EQ(values[1], 16);
  EXPECT_NEAR(values[2], 6.643856189774724, 1e-12);  // log2 100
  EXPECT_NEAR(values[3], 5.447496, 1e-6);            // log10 280218
  EXPECT_EQ(values[5], 500);
  EXPECT_EQ(values[6], 50'000);
  EXPECT_EQ(values[7], 6);
  EXPECT_EQ(values[8], 4 + 2 + 1);  // ReLU, pooling, ReLU
  EXPECT_EQ(values[9], flops);
  EXPECT_EQ(values[11], conv);
  EXPECT_EQ(values[12], 0);
  EXPECT_EQ(values[13], dense);
  EXPECT_EQ(values[14], 2.5);
  EXPECT_NE(second.find("network=resnet18"), std::string::npos);
  EXPECT_NE(second.find(",,,,,,"), std::string::npos);
  EXPECT_EQ(second.back(), ',');
}

}  // namespace
}  // namespace perfpred
