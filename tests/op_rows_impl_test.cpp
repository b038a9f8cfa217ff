// SPDX-License-Identifier: Apache-2.0
// What is read from folders of operators and from tables of steps.
#include "optime/op_rows.h"

#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>

#include "evaluate/op_evaluation.h"
#include "made_up_ops.h"
#include "optime/step_model.h"
#include "refusal.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using testing::refusal;
using testing::TemporaryFolder;

std::string refused(const TemporaryFolder& folder) {
  return refusal([&] { (void)read_op_folder(folder.path()); });
}

TEST(OpFolder, APeakIsThatOfTheRowsPrecision) {
  TemporaryFolder folder;
  folder.write("op_linear.csv", "gpu,M,N,K,fwd_ms\nT4,64,64,64,0.1\n");
  const std::string columns = "gpu,mem_bw_gbs,num_sm,l2_mb,fp32_matrix_gflops,bf16_gflops\n";
  folder.write("gpus.csv", columns + "T4,320,40,4,,65000\n");
  EXPECT_THAT(refused(folder), HasSubstr("op_linear.csv:2: gpu \"T4\" has no fp32_matrix_gflops in gpus.csv"));
  folder.write("gpus.csv", columns + "T4,320,40,4,8141,65000\n");
  EXPECT_THAT(refused(folder), HasSubstr("gpus.csv:2: fp32_matrix_gflops and bf16_gflops are both given"));
  folder.write("gpus.csv", columns + "T4,320,40,4,8141,\n");
  EXPECT_EQ(read_op_folder(folder.path()).rows.size(), 1U);
  folder.write("op_gemm_bf16.csv", "gpu,M,N,K,fwd_ms\nT4,64,64,64,0.1\n");
  EXPECT_THAT(refused(folder), HasSubstr("op_gemm_bf16.csv:2: gpu \"T4\" has no bf16_gflops in gpus.csv"));
}

TEST(OpFolder, RefusesOtherUnitsAndOtherSplits) {
  TemporaryFolder folder;
  const std::string columns = "gpu,mem_bw_gbs,num_sm,l2_mb,fp32_matrix_gflops\n";
  folder.write("op_linear.csv", "gpu,split,M,N,K,fwd_ms\nT4,train,64,64,64,0.1\n");
  folder.write("gpus.csv", columns + "T4,320000,40,4,8141\n");
  EXPECT_THAT(refused(folder), HasSubstr("gpus.csv:2: mem_bw_gbs \"320000\" is not between 1 and 100000; is the unit"));
  folder.write("gpus.csv", columns + "T4,320,40,4,8.141\n");
  EXPECT_THAT(refused(folder), HasSubstr("fp32_matrix_gflops \"8.141\" is not between"));
  folder.write("gpus.csv", columns + "T4,320,40,4,8141\n");
  EXPECT_EQ(read_op_folder(folder.path()).rows.size(), 1U);
  folder.write("op_linear.csv", "gpu,split,M,N,K,fwd_ms\nT4,Test,64,64,64,0.1\n");
  EXPECT_THAT(refused(folder), HasSubstr("op_linear.csv:2: split \"Test\" is not train or test"));
}

TEST(OpFolder, OneDeviceCannotBeLeftOut) {
  TemporaryFolder folder;
  folder.write("gpus.csv", "gpu,mem_bw_gbs,num_sm,l2_mb,fp32_matrix_gflops\nT4,320,40,4,8141\n");
  std::string rows = "gpu,M,N,K,fwd_ms\n";
  for (int i = 0; i < 40; ++i) rows += "T4,64,64,64,0.1\n";
  folder.write("op_linear.csv", rows);
  EXPECT_THAT(refusal([&] { (void)evaluate_ops_by_device(read_op_folder(folder.path()), 0, 0); }),
              HasSubstr("takes two devices"));
}

/// The only row of a table of steps of such a network on such data.
StepTable table_of(const std::string& model, const std::string& dataset, const std::string& batch = "8") {
  TemporaryFolder folder;
  return read_step_table(folder.write("steps.csv", "source,gpu,model,dataset,batch,precision,ms_per_step\nlab,T4," +
                                                       model + "," + dataset + "," + batch + ",fp32,50\n"));
}

TEST(StepTable, NumbersInADatasetsNameAreNoSizes) {
  const auto input_bytes = [](const std::string& dataset) {
    return table_of("resnet50", dataset).rows.at(0).input_bytes;
  };
  const auto pictures = [](double side) { return 4 * 8 * 3 * side * side; };
  for (const char* name : {"ImageNet", "ILSVRC2012", "ImageNet-1k", "ImageNet-21k", "ImageNet v2", ""}) {
    EXPECT_EQ(input_bytes(name), pictures(224)) << name;
  }
  EXPECT_EQ(input_bytes("synthetic 160"), pictures(160));
  EXPECT_EQ(input_bytes("synthetic 3x96x96"), pictures(96));
  EXPECT_EQ(input_bytes("CIFAR-10"), pictures(32));
  EXPECT_EQ(input_bytes("cifar10"), pictures(32));
}

TEST(StepTable, HasNetworksOfTextToo) {
  const StepTable table = table_of("bert_base", "text");
  ASSERT_EQ(table.rows.size(), 1U);
  EXPECT_GT(table.rows[0].kernels->size(), 100U);
}

TEST(StepTable, SaysWhyARowIsLeftOut) {
  EXPECT_EQ(table_of("alexnet", "synthetic 16").unscored.count("picture that does not fit the network"), 1U);
  EXPECT_EQ(table_of("mynet", "synthetic 224").unscored.count("unknown network"), 1U);
  EXPECT_THAT(refusal([] { (void)table_of("resnet50", "ImageNet", "0.3"); }), HasSubstr("steps.csv:2: batch \"0.3\""));
}

TEST(StepTable, StepsOfADeviceOfOnesOwnAreLearned) {
  const TemporaryFolder folder;
  testing::write_made_up_ops(folder);
  const std::string own =
      "name,aliases,arch,sms,fp32_tflops,fp32_vector_tflops,mem_bw_gbs\nLab Card,the lab's,Turing,40,8.1,8.1,320\n";
  DeviceCatalogue devices;
  devices.add(folder.write("own.csv", own));
  std::string steps = "source,gpu,model,dataset,batch,precision,ms_per_step\n";
  for (int batch = 1; batch <= 100; ++batch) {
    steps += std::string("lab,") + (batch % 2 == 0 ? "LAB CARD" : "the lab's") + ",resnet18,synthetic 224," +
             std::to_string(batch) + ",fp32," + std::to_string(20 + 2 * batch) + "\n";
  }
  const std::string table = folder.write("steps.csv", steps);
  EXPECT_EQ(read_step_table(table).unscored.at("unknown device"), 100U);

  const std::string path = folder.file("model.json");
  OpTimeModel::fit(folder.path(), {table}, {}, devices).save(path);
  const OpTimeModel model = OpTimeModel::load(path);
  ASSERT_EQ(model.devices().size(), 1U);
  EXPECT_EQ(model.devices()[0], devices.find("Lab Card"));
  const OpGraph step = Workload::zoo("resnet18", 64).graph();
  const StepTime time = model.predict(step, devices.find("Lab Card"), Precision::fp32);
  EXPECT_NEAR(time.sec.p50, 0.148, 0.015);
  EXPECT_EQ(time.provenance, Provenance::probe);
  Device other = devices.find("Lab Card");
  other.mem_bw_gbs = 640;  // not the card that was measured
  EXPECT_NE(model.predict(step, other, Precision::fp32).provenance, Provenance::probe);
}

}  // namespace
}  // namespace perfpred
