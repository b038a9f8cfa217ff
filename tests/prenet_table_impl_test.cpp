// SPDX-License-Identifier: Apache-2.0
// Tables of PreNeT's collector. Their columns as data_collection/run.py of its repository names them.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "optime/layers/layer_rates.h"
#include "optime/layers/layer_rows.h"
#include "optime/layers/prenet_table.h"
#include "refusal.h"
#include "temporary_folder.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;
using testing::TemporaryFolder;

constexpr const char* times = "timeUsed_median,timeUsed_min,timeUsed_max,timeUsed_std\n";

TEST(PrenetTable, IsReadUnderTheNameOfItsFile) {
  const TemporaryFolder folder;
  const std::string dense =
      folder.write("benchmark_dense_Tesla_T4_20230401.csv",
                   std::string("batchsize,dim_input,dim_output,use_bias,activation_fct,precision,optimizer,") + times +
                       "8,128,256,True,relu,32,None,0.5,0.4,0.9,0.01\n"
                       "16,64,32,False,None,16,SGD,2,1.5,3,0.1\n");
  const std::vector<LayerRow> rows = read_layer_rows(dense);
  ASSERT_EQ(rows.size(), 2U);
  const LayerRow& forward = rows[0];
  EXPECT_EQ(forward.device, "T4");
  EXPECT_EQ(forward.layer.type, LayerType::linear);
  EXPECT_EQ(forward.layer.batch_size, 8);
  EXPECT_EQ(forward.layer.in, 128);
  EXPECT_EQ(forward.layer.out, 256);
  EXPECT_TRUE(forward.layer.bias);
  EXPECT_EQ(forward.layer.activation, "relu");
  EXPECT_FALSE(forward.layer.backward);
  EXPECT_DOUBLE_EQ(forward.forward_sec.value(), 0.5e-3);
  EXPECT_DOUBLE_EQ(forward.step_sec.value(), 0.5e-3);
  const LayerRow& trained = rows[1];
  EXPECT_EQ(trained.layer.precision, Precision::fp16);
  EXPECT_EQ(trained.layer.optimizer, Optimizer::sgd);
  EXPECT_TRUE(trained.layer.backward);
  EXPECT_FALSE(trained.layer.input_gradient);
  EXPECT_FALSE(trained.layer.bias);
  EXPECT_FALSE(trained.forward_sec);
  EXPECT_DOUBLE_EQ(trained.step_sec.value(), 2e-3);
  EXPECT_DOUBLE_EQ(trained.min_sec.value(), 1.5e-3);
  EXPECT_DOUBLE_EQ(trained.max_sec.value(), 3e-3);

  // The forward alone is one part; so is the whole step where its parts are not known.
  const std::vector<LayerPart> parts = parts_of(rows, DeviceKind::gpu);
  ASSERT_EQ(parts.size(), 2U);
  EXPECT_DOUBLE_EQ(parts[1].sec, 2e-3);
  EXPECT_GT(parts[1].kernels.size(), parts[0].kernels.size());
}

TEST(PrenetTable, HasOneFileForEachTypeOfLayer) {
  const TemporaryFolder folder;
  const std::string attention = folder.write("benchmark_attention_V100-PCIe-16GB_2024-03-01.csv",
                                             std::string("batchsize,seq_len,embed_dim,num_heads,precision,optimizer,") +
                                                 times + "4,128,512,8,32,Adam,7,6,9,1\n");
  const LayerRow row = read_layer_rows(attention).at(0);
  EXPECT_EQ(row.device, "V100-PCIe-16GB");
  EXPECT_EQ(row.layer.type, LayerType::attention);
  EXPECT_EQ(row.layer.seq_len, 128);
  EXPECT_EQ(row.layer.in, 512);
  EXPECT_EQ(row.layer.num_heads, 8);
  const std::string convolution = folder.write(
      "benchmark_convolution_T4_20230401.csv",
      std::string("batchsize,matsize,kernelsize,channels_in,channels_out,strides,padding,activation_fct,use_bias,"
                  "precision,optimizer,") +
          times + "2,56,3,16,32,2,SAME,tanh,True,32,RMSprop,1,1,1,0\n");
  const LayerCase layer = read_layer_rows(convolution).at(0).layer;
  EXPECT_EQ(layer.image_size, 56);
  EXPECT_EQ(layer.kernel_size, 3);
  EXPECT_EQ(layer.in, 16);
  EXPECT_EQ(layer.out, 32);
  EXPECT_EQ(layer.stride, 2);
  EXPECT_EQ(layer.padding, same_padding);
  EXPECT_EQ(layer.optimizer, Optimizer::rmsprop);
  const std::string lstm = folder.write(
      "benchmark_lstm_T4_20230401.csv",
      std::string("batchsize,seq_len,dim_input,dim_output,num_layers,is_bidirectional,precision,optimizer,") + times +
          "2,10,16,32,2,True,32,None,1,1,1,0\n");
  const LayerCase recurrent = read_layer_rows(lstm).at(0).layer;
  EXPECT_EQ(recurrent.type, LayerType::rnn);
  EXPECT_EQ(recurrent.variant, "lstm");
  EXPECT_EQ(recurrent.in, 16);
  EXPECT_EQ(recurrent.out, 32);
  EXPECT_EQ(recurrent.num_layers, 2);
  EXPECT_TRUE(recurrent.bidirectional);
}

TEST(PrenetTable, OurLayersAreWrittenAndReadBack) {
  const TemporaryFolder folder;
  const std::vector<LayerRow> rows =
      read_layer_rows(std::string(PERFPRED_SOURCE_DIR) + "/data/amd_epyc_2_threads/layers.csv");
  const auto [files, left_out] = write_prenet_tables(rows, folder.path(), "20260102");
  EXPECT_EQ(static_cast<std::ptrdiff_t>(left_out),
            std::ranges::count_if(rows, [](const LayerRow& row) { return row.outcome != "ok"; }));
  EXPECT_THAT(files, ::testing::Contains(folder.file("benchmark_dense_AMD_EPYC_20260102.csv")));
  std::vector<std::string> written, read;
  for (const LayerRow& row : rows) {
    if (row.outcome == "ok")
      written.push_back(layer_key(row.layer) + '|' + std::to_string(row.backward_sec.value_or(0)));
  }
  for (const std::string& file : files) {
    EXPECT_THAT(testing::slurp(file), HasSubstr("timeUsed_median"));
    for (const LayerRow& row : read_layer_rows(file)) {
      EXPECT_EQ(row.device, "AMD EPYC");
      read.push_back(layer_key(row.layer) + '|' + std::to_string(row.backward_sec.value_or(0)));
    }
  }
  EXPECT_THAT(read, ::testing::UnorderedElementsAreArray(written));
}

TEST(PrenetTable, TheDeviationIsWrittenAndReadBack) {
  const TemporaryFolder folder;
  const std::string table = folder.file("layers.csv");
  LayerRow row;
  row.layer = parse_layer("linear:in=128,out=256");
  row.device = "T4";
  row.forward_sec = row.step_sec = 7e-3;
  row.std_sec = 1.25e-3;
  LayerRow bare = row, disturbed = row;
  bare.layer.out = 512;
  bare.std_sec.reset();
  disturbed.layer.out = 1024;
  disturbed.outcome = "untrusted";
  {
    LayerRecorder recorder(table);
    for (const LayerRow& one : {row, bare, disturbed}) recorder.append(one);
  }
  const std::vector<LayerRow> rows = read_layer_rows(table);
  const auto [files, left_out] = write_prenet_tables(rows, folder.path(), "20260102");
  EXPECT_EQ(left_out, 1U);
  ASSERT_EQ(files.size(), 1U);
  const std::vector<LayerRow> read = read_layer_rows(files[0]);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_DOUBLE_EQ(read[0].std_sec.value(), 1.25e-3);
  EXPECT_FALSE(read[1].std_sec);
  EXPECT_THAT(testing::slurp(files[0]), HasSubstr(",timeUsed_std,"));
}

// The tables in data/ are older than the column.
TEST(LayerRecorder, AppendsToATableWithoutDeviations) {
  const TemporaryFolder folder;
  std::vector<std::string> header = names_of(layer_row_columns());
  header.pop_back();
  const std::string table = folder.write("layers.csv", csv_line(header));
  LayerRow row;
  row.layer = parse_layer("linear:in=128,out=256");
  row.device = "T4";
  row.forward_sec = row.step_sec = 7e-3;
  row.std_sec = 1e-3;
  LayerRecorder(table).append(row);
  EXPECT_TRUE(LayerRecorder(table).holds(row));
  const std::vector<LayerRow> rows = read_layer_rows(table);
  ASSERT_EQ(rows.size(), 1U);
  EXPECT_FALSE(rows[0].std_sec);
}

TEST(PrenetTable, WhatIsMissingIsSaid) {
  const TemporaryFolder folder;
  const std::string row = std::string("batchsize,dim_input,dim_output,optimizer,") + times + "8,128,256,None,,,,\n";
  const auto says = [&](const std::string& name) {
    return testing::refusal([&] { static_cast<void>(read_layer_rows(folder.write(name, row))); });
  };
  EXPECT_THAT(says("layers.csv"), HasSubstr("say which layer this is, and on what device"));
  EXPECT_THAT(says("layers.csv"), StartsWith(folder.file("layers.csv") + ":2: "));
  EXPECT_THAT(says("benchmark_dense_T4_1.csv"), HasSubstr(":2: timeUsed_median"));
}

}  // namespace
}  // namespace perfpred
