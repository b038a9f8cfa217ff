// SPDX-License-Identifier: Apache-2.0
// How an op model is judged, and how good it is on measurements by others.
#include <perfpred/aggregator.h>
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/step_file.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <random>
#include <set>

#include "evaluate/step_evaluation.h"
#include "made_up_ops.h"
#include "refusal.h"
#include "sample_step.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using testing::refusal;
using testing::TemporaryFolder;

TEST(ErrorSample, IsAboutTheMeasurement) {
  ErrorSample sample;
  EXPECT_FALSE(sample.mean().has_value());
  sample.add(2, 3, 0.5);   // 50 % too much, log 1.5 = 0.41 inside
  sample.add(4, 3, 0.1);   // 25 % too little, outside
  sample.add(1, 1, 0.01);  // exact
  EXPECT_DOUBLE_EQ(*sample.mean(), 0.25);
  EXPECT_DOUBLE_EQ(*sample.middle(), 0.25);
  EXPECT_DOUBLE_EQ(*sample.coverage(), 2.0 / 3);
}

class MadeUpOps : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_made_up_ops(folder_); }
  TemporaryFolder folder_;
};

TEST_F(MadeUpOps, EveryTestRowOfEveryDeviceIsScoredOnce) {
  const OpEvaluation result = evaluate_ops_by_device(read_op_folder(folder_.path()), 0, 0);
  for (const char* kind : {"linear", "elementwise"}) {
    ASSERT_EQ(result.kinds.at(kind).size(), 3U);
    for (const auto& [gpu, sample] : result.kinds.at(kind)) EXPECT_EQ(sample.size(), 40U) << gpu;  // a third of 120
  }
  EXPECT_EQ(result.ops.at("T4").at("relu").size(), 40U);
  EXPECT_EQ(result.networks.size(), 3U);
  EXPECT_THAT(result.notes, ::testing::Contains(HasSubstr("op_dropout.csv")));
  EXPECT_THAT(result.notes, ::testing::Contains(HasSubstr("3 rows have no graph")));
}

TEST_F(MadeUpOps, RowsOfTheProbeAreNotScored) {
  const OpEvaluation result = evaluate_ops_by_device(read_op_folder(folder_.path()), 8, 0);
  for (const auto& [gpu, sample] : result.kinds.at("linear")) EXPECT_EQ(sample.size(), 32U) << gpu;
  const OpEvaluation none = evaluate_ops_by_device(read_op_folder(folder_.path()), 40, 0);
  EXPECT_EQ(none.kinds.count("linear"), 0U);
  EXPECT_THAT(none.notes, ::testing::Contains(HasSubstr("op_linear.csv has 40 rows of T4: too few for a probe of 40")));
}

TEST_F(MadeUpOps, AClassOfFewRowsIsNotScored) {
  std::string rows = "gpu,B,M,N,K,fwd_ms\n";
  for (int i = 0; i < 12; ++i) rows += "T4,8,64,64," + std::to_string(64 + i) + ",0.1\n";
  folder_.write("op_bmm.csv", rows);
  const OpEvaluation result = evaluate_ops_seen(read_op_folder(folder_.path()));
  EXPECT_EQ(result.kinds.count("bmm"), 0U);
  EXPECT_EQ(result.kinds.at("linear").at("T4").size(), 40U);
  EXPECT_THAT(result.notes, ::testing::Contains(HasSubstr("rows of op_bmm.csv are not scored")));
}

TEST_F(MadeUpOps, SeenScoresTheTestSplit) {
  const OpEvaluation result = evaluate_ops_seen(read_op_folder(folder_.path()));
  for (const auto& [gpu, sample] : result.kinds.at("linear")) {
    EXPECT_EQ(sample.size(), 40U) << gpu;
    EXPECT_LT(*sample.mean(), 0.1) << gpu;
  }
}

TEST_F(MadeUpOps, ATestFolderIsScoredWhole) {
  const OpFolder train = read_op_folder(folder_.path());
  TemporaryFolder other;
  testing::write_made_up_ops(other);
  other.write("op_bmm.csv", "gpu,B,M,N,K,fwd_ms\nT4,8,64,64,64,0.1\n");
  const OpEvaluation result = evaluate_op_test(train, read_op_folder(other.path()));
  EXPECT_EQ(result.kinds.at("linear").at("T4").size(), 120U);
  EXPECT_EQ(result.kinds.count("bmm"), 0U);
  EXPECT_THAT(result.notes, ::testing::Contains(HasSubstr("op_bmm.csv is not scored")));
}

TEST_F(MadeUpOps, SaysWhatATestFolderLacks) {
  const OpFolder train = read_op_folder(folder_.path());
  const std::string relu = folder_.file("op_elementwise.csv");
  ASSERT_TRUE(std::filesystem::remove(relu));
  const OpEvaluation result = evaluate_op_test(train, read_op_folder(folder_.path()));
  EXPECT_EQ(result.kinds.count("elementwise"), 0U);
  EXPECT_THAT(result.notes, ::testing::Contains(HasSubstr("has no op_elementwise.csv")));
}

constexpr const char* step_header = "source,licence,gpu,model,dataset,batch,precision,ms_per_step\n";

/// Steps of four networks on three devices: FLOPs at 40 % of the peak.
std::string made_up_steps() {
  std::string text = step_header;
  const std::vector<std::pair<std::string, double>> gpus = {{"RTX2080Ti", 13.45}, {"TITANXp", 12.15}, {"TITANV", 13.8}};
  const std::vector<std::pair<std::string, double>> networks = {
      {"resnet18", 3.63}, {"resnet50", 8.18}, {"vgg16", 30.94}, {"squeezenet1_1", 0.7}};
  for (const auto& [gpu, tflops] : gpus) {
    for (const auto& [network, gflops] : networks) {
      text += "lab,MIT," + gpu + "," + network + ",synthetic 3x224x224,12,fp32," +
              std::to_string(12 * 3 * gflops / (0.4 * tflops)) + "\n";
    }
  }
  return text;
}

// What PyTorch 2.11 dispatches for the attention of 2 samples of 16 heads of 64: matmul clones queries and keys, then
// values, since permute() left their heads apart; an index is a view; a mask of one row a sample is read once.
TEST_F(MadeUpOps, AGraphsCallsMoveWhatPyTorchMoves) {
  folder_.write("graph_ops.csv",
                "model,mode,option,seq,batch,node,node_op,count,phase,op,B,M,N,K,H,mem_elems,in_elems\n"
                "mlp,inf,,128,8,getitem,getitem,3,fwd,mem,,,,,,512,512\n"
                "mlp,inf,,128,8,matmul,BMM,3,fwd,bmm,32,128,64,128,,,524288\n"
                "mlp,inf,,128,8,add,VECadd,3,fwd,add,4096,,,,128,,524544\n"
                "mlp,inf,,128,8,matmul_1,BMM,3,fwd,bmm,32,128,128,64,,,786432\n"
                "mlp,inf,,128,8,matmul_1,BMM,3,bwd,bmm,32,128,64,128,,,786432\n"
                "mlp,inf,,128,8,contiguous,contiguous,3,fwd,mem,,,,,,524288,262144\n");
  const OpFolder folder = read_op_folder(folder_.path());
  const auto row = std::find_if(folder.end_to_end.begin(), folder.end_to_end.end(),
                                [](const EndToEndRow& r) { return r.model == "mlp"; });
  ASSERT_NE(row, folder.end_to_end.end());
  const double head = 2 * 16 * 128 * 64, scores = 2 * 16 * 128 * 128;
  std::vector<double> elements;
  for (const StepPart& part : row->parts) {
    EXPECT_EQ(part.count, 3);
    elements.push_back(part.kernel.bytes() / 4);
  }
  const std::vector<double> expected = {
      2 * 2 * head, 2 * head + scores, 2 * scores + 2 * 128, 2 * head, 2 * head + scores, 2 * head + scores, 2 * head};
  ASSERT_EQ(elements.size(), expected.size());
  for (std::size_t i = 0; i < expected.size(); ++i) EXPECT_NEAR(elements[i], expected[i], 1) << i;
}

TEST(StepRows, SayWhyTheyAreNotScored) {
  const TemporaryFolder folder;
  const std::string path = folder.write("steps.csv", made_up_steps() +
                                                         "lab,MIT,T4,resnet18,x,,fp32,3\n"
                                                         "lab,MIT,V100,resnet18,x,8,fp32,3\n"
                                                         "lab,MIT,Z80,resnet18,x,8,fp32,3\n"
                                                         "lab,MIT,T4,mynet,x,8,fp32,3\n"
                                                         "lab,MIT,T4,resnet18,x,8,int4,3\n"
                                                         "lab,MIT,T4,resnet18,x,8,fp32,\n");
  const StepTable file = read_step_table(path);
  EXPECT_EQ(file.rows.size(), 12U);
  const std::map<std::string, std::size_t> reasons = {{"ambiguous device", 1}, {"no batch size", 1},
                                                      {"no time", 1},          {"unknown device", 1},
                                                      {"unknown network", 1},  {"unknown precision", 1}};
  EXPECT_EQ(file.unscored, reasons);
  folder.write("steps.csv", std::string(step_header) + "lab,MIT,T4,resnet18,x,8,fp32,-3\n");
  EXPECT_THAT(refusal([&] { (void)read_step_table(path); }), HasSubstr("steps.csv:2: ms_per_step"));
}

TEST(StepRows, APrecisionMayNameTheLayout) {
  const TemporaryFolder folder;
  std::string text = step_header;
  for (const char* precision : {"fp16", "amp-nchw", "amp-nhwc", "bf16-nhwc", "fp32-nwhc"}) {
    text += std::string("lab,MIT,RTX 3090,resnet18,synthetic 3x224x224,12,") + precision + ",30\n";
  }
  const StepTable file = read_step_table(folder.write("steps.csv", text));
  ASSERT_EQ(file.rows.size(), 4U);
  const auto copied = [&](std::size_t row) {
    double bytes = 0;
    for (const StepKernel& kernel : *file.rows[row].kernels) bytes += kernel.transposed;
    return bytes;
  };
  EXPECT_GT(copied(0), 0);
  EXPECT_EQ(copied(1), copied(0));
  EXPECT_EQ(copied(2), 0);
  EXPECT_EQ(copied(3), 0);
  EXPECT_EQ(file.rows[3].machine.precision, Precision::bf16);
  EXPECT_EQ(file.rows[3].machine.layout, Layout::nhwc);
  EXPECT_EQ(file.rows[0].machine, file.rows[1].machine);  // all else is nchw
  EXPECT_EQ(file.unscored, (std::map<std::string, std::size_t>{{"unknown precision", 1}}));
}

TEST(StepRows, RunsAreSteps) {
  Workload image = Workload::zoo("resnet18", 8);
  image.device = "T4";
  image.precision = Precision::fp16;
  image.layout = Layout::nhwc;
  image.train_images = 800;
  Workload words = Workload::zoo("gpt2", 4);
  words.device = "H200";
  words.train_images = 800;
  Workload replayed = image;
  replayed.cuda_graph = true;
  Workload elsewhere = words;
  elsewhere.device = "Z80";
  std::vector<AggregateRow> rows;
  for (const Workload& workload : {image, words, replayed, elsewhere}) {
    AggregateRow& row = rows.emplace_back();
    row.workload = workload;
    row.params = 1;
    row.n = 1;
    row.steps_per_epoch = 800 / workload.batch_size;
    row.avg_time_mean = 5;
    row.avg_time_std = row.thr_std = 0;
    row.thr_mean = 160;
  }
  const TemporaryFolder folder;
  write_aggregate(folder.file("runs_agg.csv"), rows);
  const StepTable table = read_step_tables({folder.write("steps.csv", made_up_steps()), folder.file("runs_agg.csv")});
  ASSERT_EQ(table.rows.size(), 14U);
  const std::map<std::string, std::size_t> reasons = {{"replayed from a CUDA graph", 1}, {"unknown device", 1}};
  EXPECT_EQ(table.unscored, reasons);
  const StepRow &first = table.rows[12], &second = table.rows[13];
  EXPECT_DOUBLE_EQ(first.sec, 5.0 / 100);
  EXPECT_DOUBLE_EQ(second.sec, 5.0 / 200);
  EXPECT_EQ(first.machine, (MachineKey{"runs", "T4", Precision::fp16, StepArithmetic::as_graph, Layout::nhwc}));
  EXPECT_EQ(second.machine, (MachineKey{"runs", "H200-SXM-141GB", Precision::fp32}));
  EXPECT_EQ(first.input_bytes, 0);  // a row of a table copies its batch
  EXPECT_GT(table.rows[0].input_bytes, 0);
  EXPECT_EQ(first.kernels->size(), step_kernels(execute(image.graph(), DeviceKind::gpu)).size());
  EXPECT_EQ(second.kernels->size(), step_kernels(execute(words.graph(), DeviceKind::gpu)).size());
}

TEST(StepRows, ADeviceLeftOutIsNotLearnedFromAndItsProbeNotScored) {
  const TemporaryFolder folder;
  const StepTable file = read_step_table(folder.write("steps.csv", made_up_steps()));
  const StepEvaluation result = evaluate_steps(file, StepProtocol::device, {});
  EXPECT_EQ(result.all.size(), 12U);
  const StepEvaluation probed = evaluate_steps(file, StepProtocol::device, {"vgg16"});
  EXPECT_EQ(probed.all.size(), 9U);
  EXPECT_EQ(probed.unscored.at("probe"), 3U);
  for (const ScoredStep& step : probed.steps) EXPECT_NE(step.row.model, "vgg16");
  // One that was not measured is replaced by the lightest.
  const StepEvaluation replaced = evaluate_steps(file, StepProtocol::device, {"shufflenet_v2_x0_5"});
  for (const ScoredStep& step : replaced.steps) EXPECT_NE(step.row.model, "squeezenet1_1");
}

TEST(StepRows, AFamilyOfNetworksIsLeftOutWhole) {
  const TemporaryFolder folder;
  std::string text = made_up_steps();
  for (const char* gpu : {"RTX2080Ti", "TITANXp", "TITANV"}) {
    for (const char* network : {"vgg11", "squeezenet1_0"}) {
      text += std::string("lab,MIT,") + gpu + ',' + network + ",synthetic 3x224x224,12,fp32,50\n";
    }
  }
  const StepTable file = read_step_table(folder.write("steps.csv", text));
  std::set<std::string> families;
  for (const StepRow& row : file.rows) families.insert(row.network_family);
  EXPECT_EQ(families, (std::set<std::string>{"resnet", "squeezenet", "vgg"}));
  const StepEvaluation result = evaluate_steps(file, StepProtocol::family, {});
  EXPECT_EQ(result.all.size(), 18U);
  // Without ResNets, both are predicted by the same model.
  std::vector<const StepRow*> others;
  for (const StepRow& row : file.rows) {
    if (row.network_family != "resnet") others.push_back(&row);
  }
  const StepModel model = StepModel::fit(others);
  for (const ScoredStep& step : result.steps) {
    if (step.row.network_family != "resnet") continue;
    EXPECT_DOUBLE_EQ(step.predicted_sec, std::exp(model.predict(step.row).log_sec)) << step.row.model;
  }
}

TEST(StepRows, NetworksThatTheZooLacksAreThoseOfStepFiles) {
  const TemporaryFolder folder, graphs;
  graphs.write("mynet.json", testing::linear_step().dump());
  add_graphs(graphs.path());
  const StepTable file = read_step_table(folder.write("steps.csv", std::string(step_header) +
                                                                       "lab,MIT,T4,mynet,synthetic 224,32,fp32,3\n"
                                                                       "lab,MIT,T4,mynet,synthetic 224,32,half,3\n"
                                                                       "lab,MIT,T4,mynet,synthetic 224,32,amp,3\n"
                                                                       "lab,MIT,T4,yournet,synthetic 224,32,amp,3\n"));
  EXPECT_EQ(file.unscored, (std::map<std::string, std::size_t>{{"unknown network", 1}}));
  ASSERT_EQ(file.rows.size(), 3U);
  double flops = 0;
  for (const StepKernel& kernel : *file.rows[0].kernels) {
    if (kernel.group == StepGroup::product) flops += kernel.flops;
  }
  EXPECT_EQ(flops, 4.0 * 32 * testing::inputs * testing::outputs);  // forward, gradient of the weight
  // The file is in single precision: 4 bytes a number.
  EXPECT_EQ(file.rows[0].device.byte_scale, 1);
  EXPECT_EQ(file.rows[1].device.byte_scale, 0.5);
  EXPECT_EQ(file.rows[2].device.byte_scale, 0.5);
}

TEST(StepRows, AStepFileOfOneBatchSizeAnswersForNoOther) {
  const TemporaryFolder folder, graphs;
  nlohmann::json step = testing::linear_step();
  step.erase("other_batch_size");
  for (auto& tensor : step["tensors"]) tensor.erase("growth");
  graphs.write("onesize.json", step.dump());
  add_graphs(graphs.path());
  const StepTable file = read_step_table(folder.write("steps.csv", std::string(step_header) +
                                                                       "lab,MIT,T4,onesize,synthetic 224,8,fp32,3\n"
                                                                       "lab,MIT,T4,onesize,synthetic 224,9,fp32,3\n"));
  EXPECT_EQ(file.rows.size(), 1U);
  EXPECT_EQ(file.unscored, (std::map<std::string, std::size_t>{{"graph of another batch size", 1}}));
}

const std::vector<std::string> step_networks = {"alexnet",
                                                "vgg11",
                                                "vgg13_bn",
                                                "resnet18",
                                                "resnet34",
                                                "densenet121",
                                                "googlenet",
                                                "squeezenet1_0",
                                                "squeezenet1_1",
                                                "mnasnet0_5",
                                                "mobilenet_v2",
                                                "mobilenet_v3_small",
                                                "shufflenet_v2_x0_5",
                                                "resnext50_32x4d"};

/// Steps of the formula on four devices, which take longer by `factor` of network and device.
StepTable steps_times(const std::function<double(const StepRow&)>& factor) {
  std::string text = step_header;
  for (const char* gpu : {"RTX2080Ti", "TITANXp", "TITANRTX", "T4"}) {
    for (const std::string& network : step_networks)
      text += std::string("lab,MIT,") + gpu + ',' + network + ",x,8,fp32,1\n";
  }
  const TemporaryFolder folder;
  StepTable file = read_step_table(folder.write("steps.csv", text));
  EXPECT_EQ(file.rows.size(), 4 * step_networks.size());
  for (StepRow& row : file.rows) row.sec = std::exp(StepModel().predict(row).log_sec) * factor(row);
  return file;
}

TEST(StepIntervals, HoldFamiliesOfNetworksThatDifferByMoreThanTheirSteps) {
  std::mt19937_64 random(1);
  std::normal_distribution<double> normal;
  std::map<std::string, double> effects;
  const StepTable file = steps_times([&](const StepRow& row) {  // e^(0.25 z) for all steps of a family
    const auto [effect, is_new] = effects.emplace(row.network_family, 0);
    if (is_new) effect->second = 0.25 * normal(random);
    return std::exp(effect->second + 0.01 * normal(random));
  });
  const double covered = *evaluate_steps(file, StepProtocol::family, {}).all.coverage();
  EXPECT_GE(covered, 0.75);
}

TEST(KnownNetworks, ANetworkThatTakesLongerOnSomeDevicesIsExpectedToDoSoOnOthers) {
  const StepTable file = steps_times([](const StepRow& row) { return row.model == "googlenet" ? 1.6 : 1; });
  const StepEvaluation result = evaluate_steps(file, StepProtocol::device, {});
  int scored = 0;
  for (const ScoredStep& step : result.steps) {
    if (step.row.model != "googlenet") continue;
    EXPECT_NEAR(step.predicted_sec / step.row.sec, 1, 0.15) << step.row.gpu;
    ++scored;
  }
  EXPECT_EQ(scored, 4);
}

TEST(KnownNetworks, AProbeOfSuchANetworkDoesNotPassForASlowDevice) {
  const StepTable file = steps_times([](const StepRow& row) { return row.model == "googlenet" ? 1.6 : 1; });
  const StepEvaluation result = evaluate_steps(file, StepProtocol::device, {"googlenet"});
  EXPECT_LT(*result.all.mean(), 0.05);
}

TEST(KnownNetworks, ErrorsThatDifferFromDeviceToDeviceAreNotCarried) {
  const StepTable file = steps_times([n = std::size_t{0}](const StepRow&) mutable {
    const std::size_t gpu = n / step_networks.size();
    return (n++ + gpu) % 2 == 0 ? 1.3 : 1 / 1.3;
  });
  const StepModel model = StepModel::fit(pointers_to(file.rows));
  for (const StepRow& row : file.rows)
    EXPECT_NEAR(model.known(row.network, row.arithmetic, row.phases).log_factor, 0, 0.06) << row.model;
}

class ReferenceOps : public ::testing::Test {
 protected:
  void SetUp() override {
    const char* folder = std::getenv("PERFPRED_REFERENCE_DIR");
    if (folder == nullptr) GTEST_SKIP() << "PERFPRED_REFERENCE_DIR is not set";
    folder_ = folder;
  }

  /// Mean over NVIDIA's devices of their mean errors.
  static double device_mean(const OpEvaluation& result, const std::string& kind) {
    double sum = 0, n = 0;
    for (const auto& [gpu, sample] : result.kinds.at(kind)) {
      if (gpu.rfind("MI", 0) == 0) continue;
      sum += *sample.mean();
      ++n;
    }
    return sum / n;
  }

  static void expect_errors(const OpEvaluation& result, const std::map<std::string, double>& bounds) {
    for (const auto& [kind, bound] : bounds) EXPECT_LE(device_mean(result, kind), bound) << kind;
  }

  static void expect_networks(const OpEvaluation& result, double mean, double middle) {
    ErrorSample sample;
    for (const ScoredNetwork& network : result.networks) {
      if (network.row.gpu.rfind("MI", 0) != 0) sample.add(network.row.sec, network.predicted_sec, 0);
    }
    EXPECT_EQ(sample.size(), 34U);
    EXPECT_LE(*sample.mean(), mean);
    EXPECT_LE(*sample.middle(), middle);
  }

  std::string folder_;
};

// Bounds are at most 15 % above what docs/results/operators.md reports.
TEST_F(ReferenceOps, DevicesSeen) {
  const OpEvaluation result = evaluate_ops_seen(read_op_folder(folder_ + "/neusight"));
  expect_errors(result, {{"linear", 0.119},
                         {"bmm", 0.137},
                         {"elementwise", 0.012},
                         {"softmax", 0.114},
                         {"layernorm", 0.09},
                         {"conv", 0.179}});
  expect_networks(result, 0.09, 0.05);
}

TEST_F(ReferenceOps, DeviceLeftOut) {
  const OpEvaluation result = evaluate_ops_by_device(read_op_folder(folder_ + "/neusight"), 0, 0);
  expect_errors(result, {{"linear", 0.145},
                         {"bmm", 0.175},
                         {"elementwise", 0.098},
                         {"softmax", 0.127},
                         {"layernorm", 0.11},
                         {"conv", 0.218}});
  expect_networks(result, 0.134, 0.116);
}

TEST_F(ReferenceOps, DeviceLeftOutWithAProbe) {
  const OpEvaluation result = evaluate_ops_by_device(read_op_folder(folder_ + "/neusight"), 8, 0);
  expect_errors(result, {{"linear", 0.095},
                         {"bmm", 0.149},
                         {"elementwise", 0.026},
                         {"softmax", 0.065},
                         {"layernorm", 0.035},
                         {"conv", 0.213}});
  expect_networks(result, 0.095, 0.044);
}

TEST_F(ReferenceOps, HalfPrecisionProducts) {
  const OpFolder folder = read_op_folder(folder_ + "/modern_ops");
  const auto error = [](const OpEvaluation& result, const char* gpu) {
    return *result.ops.at(gpu).at("gemm_bf16_training").mean();
  };
  const OpEvaluation left_out = evaluate_ops_by_device(folder, 0, 0);
  EXPECT_LE(error(left_out, "A100-SXM4-80GB"), 0.081);
  EXPECT_LE(error(left_out, "L40S"), 0.186);
  EXPECT_LE(error(left_out, "RTX-PRO-6000-Server"), 0.142);
  const OpEvaluation probed = evaluate_ops_by_device(folder, 16, 0);
  EXPECT_LE(error(probed, "A100-SXM4-80GB"), 0.072);
  EXPECT_LE(error(probed, "L40S"), 0.126);
  EXPECT_LE(error(probed, "RTX-PRO-6000-Server"), 0.058);
}

TEST_F(ReferenceOps, TrainingStepsOfADeviceLeftOut) {
  const StepTable file = read_step_table(folder_ + "/cnn_training/single_gpu_training.csv");
  const StepEvaluation result = evaluate_steps(file, StepProtocol::device, {"shufflenet_v2_x0_5", "vgg16", "resnet50"});
  std::map<std::string, ErrorSample> single, half;
  for (const ScoredStep& step : result.steps) {
    if (step.row.source.rfind("ryujaehun", 0) != 0) continue;
    const bool is_half = step.row.precision == "half";
    if (is_half || step.row.precision.rfind("fp32", 0) == 0) {
      (is_half ? half : single)[step.row.gpu].add(step.row.sec, step.predicted_sec, 0);
    }
  }
  const auto mean = [](const std::map<std::string, ErrorSample>& by_gpu) {
    double sum = 0;
    for (const auto& [gpu, sample] : by_gpu) sum += *sample.mean();
    return sum / static_cast<double>(by_gpu.size());
  };
  EXPECT_LE(mean(single), 0.065);
  EXPECT_LE(mean(half), 0.108);
}

}  // namespace
}  // namespace perfpred
