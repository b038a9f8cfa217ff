// SPDX-License-Identifier: Apache-2.0
// Times of kernels, and of steps from their kernels.
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>
#include <perfpred/roofline.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <limits>
#include <random>
#include <set>
#include <string>

#include "made_up_ops.h"
#include "optime/kernel_model.h"
#include "optime/map_fit.h"
#include "optime/op_model_state.h"
#include "refusal.h"

namespace perfpred {
namespace {

using ::testing::HasSubstr;
using testing::made_up_gpus;
using testing::made_up_seconds;
using testing::refusal;
using testing::TemporaryFolder;

TEST(MapFit, IsTheRidgeSolutionWhereErrorsAreSmall) {
  // y = a x with prior N(1, 0.5^2): (prior / s^2 + sum x y / v) / (1 / s^2 + sum x^2 / v), v = knee * noise.
  MapProblem problem;
  problem.prior = Eigen::VectorXd::Constant(1, 1);
  problem.deviation = Eigen::VectorXd::Constant(1, 0.5);
  const Eigen::VectorXd x = Eigen::VectorXd::LinSpaced(5, 0.1, 0.5);
  problem.measured = 1.2 * x;
  problem.weight.setOnes(5);
  problem.predict = [&](const Eigen::VectorXd& a, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) {
    predicted = a[0] * x;
    if (slopes != nullptr) slopes->col(0) = x;
  };
  const double v = problem.knee * problem.noise, squares = x.squaredNorm();
  EXPECT_NEAR(fit_map(problem, 50)[0], (1 / 0.25 + 1.2 * squares / v) / (1 / 0.25 + squares / v), 1e-3);
}

TEST(MapFit, OneWildMeasurementHardlyMatters) {
  MapProblem problem;
  problem.prior = Eigen::VectorXd::Zero(1);
  problem.deviation = Eigen::VectorXd::Constant(1, 100);
  problem.measured = Eigen::VectorXd::Constant(21, 1);
  problem.measured[0] = 1000;
  problem.weight.setOnes(21);
  problem.predict = [](const Eigen::VectorXd& a, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) {
    predicted.setConstant(a[0]);
    if (slopes != nullptr) slopes->setOnes();
  };
  EXPECT_NEAR(fit_map(problem, 50)[0], 1, 0.02);
}

TEST(MapFit, LeavesMeasurementsOutOfAMeanExactly) {
  // The mean of 1, 2, 3, 10 without 10 is 2, and without 1 and 2 it is 6.5.
  MapProblem problem;
  problem.knee = 1000;
  problem.prior = Eigen::VectorXd::Zero(1);
  problem.deviation = Eigen::VectorXd::Constant(1, 1e6);
  problem.measured = Eigen::Vector4d(0.1, 0.2, 0.3, 1.0);
  problem.weight.setOnes(4);
  problem.predict = [](const Eigen::VectorXd& a, Eigen::VectorXd& predicted, Eigen::MatrixXd* slopes) {
    predicted.setConstant(a[0]);
    if (slopes != nullptr) slopes->setOnes();
  };
  const LeaveOut leave_out(problem, fit_map(problem, 50));
  EXPECT_NEAR(leave_out.parameters_without({3})[0], 0.2, 1e-6);
  EXPECT_NEAR(leave_out.parameters_without({0, 1})[0], 0.65, 1e-6);
}

TEST(ResidualTrees, LearnAStepAndStayBounded) {
  std::vector<KernelFeatures> rows;
  std::vector<double> small, large;
  for (int i = 0; i < 400; ++i) {
    KernelFeatures row{};
    row[3] = static_cast<float>(i);
    rows.push_back(row);
    small.push_back(i < 150 ? -0.2 : 0.1);
    large.push_back(5);
  }
  const ResidualTrees step = ResidualTrees::fit(rows, small);
  EXPECT_NEAR(step.predict(rows[20]), -0.2, 0.01);
  EXPECT_NEAR(step.predict(rows[300]), 0.1, 0.01);
  EXPECT_LE(ResidualTrees::fit(rows, large).predict(rows[0]), ResidualTrees::limit);
}

class OpModel : public ::testing::Test {
 protected:
  void SetUp() override { testing::write_made_up_ops(folder_); }

  [[nodiscard]] std::vector<const OpRow*> rows_of(const OpFolder& ops, const std::string& but) const {
    std::vector<const OpRow*> rows;
    for (const OpRow& row : ops.rows) {
      if (row.gpu != but) rows.push_back(&row);
    }
    return rows;
  }

  TemporaryFolder folder_;
};

TEST_F(OpModel, LearnsARooflineAndCarriesItToANewDevice) {
  const OpFolder ops = read_op_folder(folder_.path());
  for (const auto& gpu : made_up_gpus) {
    const KernelModels models = KernelModels::fit(rows_of(ops, gpu.name), ops.gpus);
    const KernelModel& model = *models.of(KernelClass::linear);
    Kernel kernel;
    kernel.kind = KernelClass::linear;
    kernel.m = kernel.n = kernel.k = 4096;
    const KernelEstimate estimate = model.predict(kernel, ops.gpus.at(gpu.name), true);
    const double measured = made_up_seconds(gpu, kernel.flops(), kernel.bytes());
    EXPECT_NEAR(std::exp(estimate.log_sec) / measured, 1, 0.2) << gpu.name;
    EXPECT_LT(std::abs(estimate.log_sec - std::log(measured)), estimate.half_width());
    EXPECT_EQ(estimate.provenance,
              std::string(gpu.name) == "A100-40-PCIe" ? Provenance::other_family : Provenance::family);
  }
}

TEST_F(OpModel, AProbeTellsASlowDevice) {
  OpFolder ops = read_op_folder(folder_.path());
  std::vector<const OpRow*> probe;
  for (OpRow& row : ops.rows) {
    if (row.gpu != "V100-32-PCIe" || row.kernel.kind != KernelClass::linear) continue;
    row.sec *= 1.5;
    if (probe.size() < 16) probe.push_back(&row);
  }
  KernelModels models = KernelModels::fit(rows_of(ops, "V100-32-PCIe"), ops.gpus);
  KernelModel& model = *models.classes[static_cast<std::size_t>(KernelClass::linear)];
  Kernel kernel;
  kernel.m = kernel.n = kernel.k = 4096;
  kernel.kind = KernelClass::linear;
  const Hardware& gpu = ops.gpus.at("V100-32-PCIe");
  const KernelEstimate before = model.predict(kernel, gpu, true);
  model.probe(gpu, probe);
  const KernelEstimate after = model.predict(kernel, gpu, true);
  const double measured = 1.5 * made_up_seconds(made_up_gpus[1], kernel.flops(), kernel.bytes());
  EXPECT_NEAR(std::exp(after.log_sec) / measured, 1, 0.25);
  EXPECT_LT(std::abs(after.log_sec - std::log(measured)), 0.5 * std::abs(before.log_sec - std::log(measured)));
  EXPECT_LT(after.half_width(), before.half_width());
  EXPECT_EQ(after.provenance, Provenance::probe);
}

TEST_F(OpModel, SetsAsideADeviceThatWasThrottled) {
  OpFolder ops = read_op_folder(folder_.path());
  for (OpRow& row : ops.rows) {
    if (row.gpu == "T4" && row.kernel.kind == KernelClass::linear) row.sec *= 4;
  }
  const KernelModels models = KernelModels::fit(rows_of(ops, ""), ops.gpus);
  EXPECT_THAT(models.of(KernelClass::linear)->set_aside, ::testing::ElementsAre("T4 (test)", "T4 (train)"));
  EXPECT_THAT(models.of(KernelClass::elementwise)->set_aside, ::testing::IsEmpty());
}

TEST_F(OpModel, AStepIsTheSumOfItsKernelsUnlessTheHostIsSlower) {
  const OpFolder ops = read_op_folder(folder_.path());
  const KernelModels models = KernelModels::fit(rows_of(ops, ""), ops.gpus);
  const Hardware& gpu = ops.gpus.at("V100-32-PCIe");
  StepPart part;
  part.kernel.kind = KernelClass::linear;
  part.kernel.m = part.kernel.n = part.kernel.k = 4096;
  part.count = 10;
  const double expected = 10 * made_up_seconds(made_up_gpus[1], part.kernel.flops(), part.kernel.bytes());
  EXPECT_NEAR(step_time(models, std::vector{part}, gpu).sec / expected, 1, 0.1);
  part.kernel.m = part.kernel.n = part.kernel.k = 16;
  EXPECT_NEAR(step_time(models, std::vector{part}, gpu).sec, 10 * host_sec_per_op, 1e-9);
}

TEST_F(OpModel, AnswersForAnyNetworkOnAnyDevice) {
  const OpTimeModel model = OpTimeModel::fit(folder_.path());
  const DeviceCatalogue devices;
  for (const char* network : {"resnet50", "mobilenet_v2", "bert_base"}) {
    double last = 0;
    for (const std::int64_t batch : {2, 8, 32}) {
      Workload workload = Workload::zoo(network, batch);
      const StepTime time = model.predict(workload.graph(), devices.find("L4"), Precision::fp32);
      EXPECT_GT(time.sec.p50, last) << "a larger batch takes longer";
      last = time.sec.p50;
      EXPECT_LT(time.sec.p05, time.sec.p50);
      EXPECT_LT(time.sec.p50, time.sec.p95);
      EXPECT_EQ(time.costliest.size(), 10U);
      EXPECT_TRUE(std::is_sorted(time.costliest.begin(), time.costliest.end(),
                                 [](const TimeTerm& a, const TimeTerm& b) { return a.sec > b.sec; }));
      std::set<std::string> operators;
      double listed = 0;
      for (const TimeTerm& term : time.costliest) {
        EXPECT_TRUE(operators.insert(term.op).second) << term.op << " is listed twice";
        listed += term.sec;
      }
      EXPECT_GT(listed, 0.9 * time.device_sec) << network << " has more than ten operators, but few of them are slow";
      EXPECT_LE(listed, time.device_sec * (1 + 1e-9));
      EXPECT_NE(time.provenance, Provenance::runs);
    }
  }
}

/// NVIDIA's data sheet of an A100: 312 TFLOP/s in bf16, 19.5 in fp32, so that 2 * 8192^3 FLOPs take 3.5 or 56 ms at
/// least.
TEST(StandardModel, AProductIsTimedInTheTypeOfItsOwnOperands) {
  OpGraph step;
  const auto multiply = [&](std::int64_t size, DataType type) {
    const auto square = [&] { return step.add_tensor({size, size}, type, TensorRole::activation); };
    step.add_op(OpKind::mm, Phase::forward, -1, std::array{square(), square()}, std::array{square()});
  };
  multiply(8192, DataType::bf16);
  for (int i = 0; i < 2; ++i) multiply(16, DataType::f32);
  const auto seconds = [&](Precision precision) {
    return OpTimeModel::standard().predict(step, DeviceCatalogue().find("A100-SXM4-40GB"), precision).device_sec;
  };
  const double in_half = seconds(Precision::bf16), in_single = seconds(Precision::fp32);
  EXPECT_GT(in_half, 2 * std::pow(8192, 3) / 312e12);
  EXPECT_LT(in_half, 0.02);
  EXPECT_NEAR(in_single / in_half, 1, 0.1);  // whatever most products of the step are
  step = {};
  multiply(8192, DataType::f32);
  EXPECT_GT(seconds(Precision::bf16), 2 * std::pow(8192, 3) / 19.5e12);
}

TEST_F(OpModel, AStepIsNoFasterThanItsRoofline) {
  const OpTimeModel model = OpTimeModel::fit(folder_.path());
  const DeviceCatalogue devices;
  const Device gpu = devices.find("RTX 2080 Ti");
  const OpGraph step = Workload::zoo("vgg16", 16).graph();
  // Winograd's algorithm saves at most a factor of 2.25 (F(2x2, 3x3)) to 4 (F(4x4, 3x3)) of the multiplications.
  EXPECT_GT(model.predict(step, gpu, Precision::fp32).sec.p50, step.totals().flops / (4 * *gpu.fp32_tflops * 1e12));
}

TEST_F(OpModel, UnknownOperatorsCountByTheirBytesAndWiden) {
  const OpTimeModel model = OpTimeModel::fit(folder_.path());
  const DeviceCatalogue devices;
  const auto answer = [&](OpKind kind) {
    OpGraph step;
    const TensorId x = step.add_tensor({1024, 1024, 64}, DataType::f32, TensorRole::input);
    const TensorId y = step.add_like(x, TensorRole::activation);
    for (int i = 0; i < 50; ++i) step.add_op(kind, Phase::forward, -1, std::vector{x}, std::vector{y});
    return model.predict(step, devices.find("T4"), Precision::fp32);
  };
  const StepTime unknown = answer(OpKind::unknown), known = answer(OpKind::relu);
  EXPECT_EQ(unknown.provenance, Provenance::bytes);
  EXPECT_GT(unknown.sec.p95 / unknown.sec.p05, 2 * known.sec.p95 / known.sec.p05);
  // 50 times 2 x 256 MiB at 320 GB/s are 84 ms at least.
  EXPECT_GT(unknown.sec.p50, 0.084);
}

TEST_F(OpModel, RefusesDevicesWithoutPeaksAndWithAbsurdOnes) {
  const OpTimeModel model = OpTimeModel::fit(folder_.path());
  const OpGraph step = Workload::zoo("resnet18", 2).graph();
  Device device = DeviceCatalogue().find("T4");
  device.mem_bw_gbs = 320'000;  // MB/s
  EXPECT_THAT(refusal([&] { (void)model.predict(step, device, Precision::fp32); }), HasSubstr("mem_bw_gbs"));
  device.mem_bw_gbs = std::nullopt;
  EXPECT_THAT(refusal([&] { (void)model.predict(step, device, Precision::fp32); }), HasSubstr("has no mem_bw_gbs"));
  device = DeviceCatalogue().find("T4");
  device.fp32_tflops = device.fp32_vector_tflops = std::nullopt;
  EXPECT_THAT(refusal([&] { (void)model.predict(step, device, Precision::fp32); }), HasSubstr("fp32_tflops"));
  // Numbers that no data sheet has.
  constexpr double nan = std::numeric_limits<double>::quiet_NaN(), infinity = std::numeric_limits<double>::infinity();
  const auto refused = [&](std::optional<double> Device::*column, double value, Precision precision) {
    Device bad = DeviceCatalogue().find("A100-PCIe-40GB");
    bad.*column = value;
    return refusal([&] { (void)model.predict(step, bad, precision); });
  };
  for (const double value : {nan, infinity, 0.0, -1.0}) {
    EXPECT_THAT(refused(&Device::fp32_vector_tflops, value, Precision::fp32), HasSubstr("fp32_vector_tflops")) << value;
    EXPECT_THAT(refused(&Device::fp64_vector_tflops, value, Precision::fp64), HasSubstr("fp64_vector_tflops")) << value;
    EXPECT_THAT(refused(&Device::tf32_tflops, value, Precision::default_), HasSubstr("tf32_tflops")) << value;
    EXPECT_THAT(refused(&Device::boost_mhz, value, Precision::fp32), HasSubstr("boost_mhz")) << value;
    EXPECT_THAT(refused(&Device::tdp_w, value, Precision::fp32), HasSubstr("tdp_w")) << value;
  }
  EXPECT_THAT(refused(&Device::boost_mhz, 1.41, Precision::fp32), HasSubstr("boost_mhz"));  // GHz
}

TEST(StandardModel, RefusesOperatorsWithCountsThatNoneHas) {
  const Device device = DeviceCatalogue().find("T4");
  const auto refused = [&](const auto& change) {
    OpGraph step;
    const TensorId x = step.add_tensor({64, 64}, DataType::f32, TensorRole::input);
    const TensorId y = step.add_like(x, TensorRole::activation);
    change(step.add_op(OpKind::relu, Phase::forward, -1, std::vector{x}, std::vector{y}));
    return refusal([&] { (void)OpTimeModel::standard().predict(step, device, Precision::fp32); });
  };
  EXPECT_EQ(refused([](Op&) {}), "");
  for (const double flops : {-1.0, std::nan(""), HUGE_VAL}) {
    EXPECT_THAT(refused([&](Op& op) { op.flops = flops; }), HasSubstr("operator \"relu\"")) << flops;
  }
  EXPECT_THAT(refused([](Op& op) { op.bytes_read = -1; }), HasSubstr("operator \"relu\""));
  EXPECT_THAT(refused([](Op& op) { op.bytes_written = -(op.bytes_read + 1); }), HasSubstr("operator \"relu\""));
}

TEST(StandardModel, ARowWithOtherRatesIsNotTheDeviceThatWasMeasured) {
  const OpGraph step = Workload::zoo("resnet18", 32).graph();
  const auto answer = [&](const Device& device) {
    return OpTimeModel::standard().predict(step, device, Precision::fp32);
  };
  const Device listed = DeviceCatalogue().find("RTX 2080 Ti");
  const StepTime measured = answer(listed);
  EXPECT_EQ(measured.provenance, Provenance::probe);
  Device own = listed;
  own.launch_us = 4.5;  // which predictions of steps do not read
  own.source = "the lab's card";
  EXPECT_EQ(answer(own).provenance, Provenance::probe);
  EXPECT_EQ(answer(own).sec.p50, measured.sec.p50);
  own.mem_bw_gbs = 400;
  EXPECT_EQ(answer(own).provenance, Provenance::family);
  Device nameless = own;
  nameless.name = "A card that nobody measured";
  EXPECT_EQ(answer(own).sec.p50, answer(nameless).sec.p50);
  EXPECT_EQ(answer(own).sec.p95, answer(nameless).sec.p95);
}

TEST(StandardModel, DevicesThatAFileKeepsArePredictedAsBefore) {
  const TemporaryFolder folder;
  Device cpu;
  cpu.name = "Lab CPU";
  cpu.kind = DeviceKind::cpu;
  cpu.fp32_tflops = cpu.fp32_vector_tflops = 2;
  cpu.fp64_tflops = cpu.fp64_vector_tflops = 1;
  cpu.bf16_tflops = 16;
  cpu.fp16_tflops = 8;
  cpu.mem_bw_gbs = 200;
  cpu.l2_mb = 64;
  cpu.sms = 32;
  cpu.boost_mhz = 3000;
  cpu.tdp_w = 200;
  cpu.launch_us = 2;
  cpu.fp16_vector_tflops = 4;
  cpu.year = 2024;
  cpu.aliases = {"lab", "the big one"};
  const DeviceCatalogue catalogue;
  Device card = catalogue.find("A100-PCIe-40GB");
  card.name = "Lab Card";
  card.aliases.clear();
  OpModelState state = load_op_model({});
  state.measured.devices = {cpu, card};
  const OpTimeModel model = OpModelAccess::model(std::move(state));
  model.save(folder.file("ops.json"));
  const OpTimeModel loaded = OpTimeModel::load(folder.file("ops.json"));
  EXPECT_EQ(loaded.devices()[0], cpu);
  EXPECT_EQ(loaded.devices()[1], card);
  const OpGraph step = Workload::zoo("lstm:layers=1,hidden=1024,vocab=1000", 8).graph();
  for (const Device& device : {cpu, card}) {
    for (const Precision precision : {Precision::fp32, Precision::bf16, Precision::fp16, Precision::default_}) {
      const Device& kept = loaded.devices()[device.kind == DeviceKind::cpu ? 0 : 1];
      const StepTime before = model.predict(step, device, precision), after = loaded.predict(step, kept, precision);
      EXPECT_EQ(after.sec.p50, before.sec.p50) << device.name << " " << to_string(precision);
      EXPECT_EQ(after.sec.p95, before.sec.p95) << device.name << " " << to_string(precision);
    }
  }
}

/// Steps of a card of the user's own say of better cards what those of a card of the catalogue say.
TEST(StandardModel, ACardIsNoSlowerThanAWorseOneOfTheUsersOwn) {
  Device own = DeviceCatalogue().find("RTX 3090");
  own.name = "Lab Card";
  own.aliases.clear();
  OpModelState state = load_op_model({});
  const StepDevice on = step_device(own, Precision::fp32, StepArithmetic::as_graph);
  state.measured.devices = {own};
  state.steps.machines[{"lab", own.name}] = {
      {0.5, 0.5, 0}, on.chip, arithmetic_key(Precision::fp32, on, StepArithmetic::as_graph), std::nullopt};
  const OpTimeModel model = OpModelAccess::model(std::move(state));
  Device better = own;
  better.name = "Lab Card Ti";
  *better.mem_bw_gbs += 1;
  const OpGraph step = Workload::zoo("resnet50", 64).graph();
  const auto seconds = [&](const Device& device) { return model.predict(step, device, Precision::fp32).sec.p50; };
  EXPECT_LE(seconds(better), seconds(own));
}

TEST(StandardModel, AnswersForEveryGpuOfTheCatalogueWithinReachOfItsPeak) {
  const OpGraph step = Workload::zoo("resnet50", 64).graph();
  int asked = 0;
  const DeviceCatalogue catalogue;
  for (const Device& device : catalogue.devices()) {
    if (device.kind != DeviceKind::gpu || !device.matrix_flops(Precision::fp32) || !device.mem_bw_gbs) continue;
    // A step of convolutions: at most four times the peak (Winograd), at least a twentieth of it.
    const double at_peak = step.totals().flops / *device.matrix_flops(Precision::fp32);
    const StepTime time = OpTimeModel::standard().predict(step, device, Precision::fp32);
    EXPECT_GT(time.sec.p50, at_peak / 4) << device.name;
    EXPECT_LT(time.sec.p50, at_peak * 20) << device.name;
    ++asked;
  }
  EXPECT_GT(asked, 25);
}

TEST(StandardModel, ComputesNoProductFasterThanThePeakOfADeviceThatWasNotMeasured) {
  const OpGraph step = Workload::zoo("gpt2", 4).graph();
  const DeviceCatalogue catalogue;
  for (const Device& device : catalogue.devices()) {
    const auto limits = limits_if_known(device, execute(step, device.kind), Precision::fp32);
    if (device.kind != DeviceKind::gpu || !limits) continue;
    EXPECT_GT(OpTimeModel::standard().predict(step, device, Precision::fp32).sec.p50, limits->time_sec) << device.name;
  }
}

TEST_F(OpModel, AFileGivesTheSameAnswers) {
  const OpTimeModel model = OpTimeModel::fit(folder_.path());
  const std::string path = folder_.file("ops.json");
  model.save(path);
  const OpTimeModel loaded = OpTimeModel::load(path);
  const OpGraph step = Workload::zoo("bert_base", 4).graph();
  const DeviceCatalogue devices;
  for (const char* device : {"T4", "L4", "H100-PCIe-80GB", "MI100"}) {
    EXPECT_EQ(model.predict(step, devices.find(device), Precision::fp32).sec.p50,
              loaded.predict(step, devices.find(device), Precision::fp32).sec.p50);
  }
}

TEST_F(OpModel, AHundredStepsOfADeviceAreKeptInTheFile) {
  // A step of this card takes 20 ms and 2 ms an image.
  std::string steps = "source,gpu,model,dataset,batch,precision,ms_per_step\n";
  for (int batch = 1; batch <= 100; ++batch) {
    steps +=
        "lab,T4,resnet18,synthetic 224," + std::to_string(batch) + ",fp32," + std::to_string(20 + 2 * batch) + "\n";
  }
  const OpTimeModel model = OpTimeModel::fit(folder_.path(), {folder_.write("steps.csv", steps)});
  const DeviceCatalogue devices;
  const OpGraph step = Workload::zoo("resnet18", 64).graph();
  const StepTime time = model.predict(step, devices.find("T4"), Precision::fp32);
  EXPECT_NEAR(time.sec.p50, 0.148, 0.015);
  const std::string path = folder_.file("model.json");
  model.save(path);
  EXPECT_EQ(OpTimeModel::load(path).predict(step, devices.find("T4"), Precision::fp32).sec.p50, time.sec.p50);
}

TEST_F(OpModel, DamagedFilesAreRefusedOrAnswerWithNumbers) {
  OpTimeModel::fit(folder_.path()).save(folder_.file("ops.json"));
  const std::string whole = testing::slurp(folder_.file("ops.json"));
  const OpGraph step = Workload::zoo("bert_base", 1).graph();
  const Device device = DeviceCatalogue().find("T4");
  const std::array<std::string, 12> words = {"null",   "-1", "1e300", "\"x\"",         "[]",  "{}",
                                             "999999", "0",  "true",  "[[[1,2,3,4]]]", "2.5", ""};
  std::mt19937 random(5);
  int refused = 0;
  for (int round = 0; round < 400; ++round) {
    std::string text = whole;
    // Replaces a whole value now and then, else some bytes.
    std::size_t at = random() % text.size();
    if (round % 2 == 0) {
      at = text.find(':', at);
      if (at == std::string::npos) continue;
      const std::size_t end = text.find_first_of(",}", ++at);
      text.replace(at, end - at, words[random() % words.size()]);
    } else {
      text.replace(at, random() % 6, words[random() % words.size()]);
    }
    try {
      const OpTimeModel model = OpTimeModel::load(folder_.write("damaged.json", text));
      EXPECT_TRUE(std::isfinite(model.predict(step, device, Precision::fp32).sec.p50));
    } catch (const InputError&) {
      ++refused;
    } catch (const ModelError&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 100);
}

TEST_F(OpModel, WhatIsNoModelFileIsRefused) {
  EXPECT_THROW((void)OpTimeModel::load(""), InputError);
  EXPECT_THROW((void)OpTimeModel::load(folder_.file("none")), InputError);
  for (const char* text : {"", "{", "[]", "1e999"}) {
    EXPECT_THROW((void)OpTimeModel::load(folder_.write("ops.json", text)), ModelError) << text;
  }
  EXPECT_THAT(refusal([] { (void)OpTimeModel::fit(""); }), HasSubstr("operators or layers"));
}

TEST_F(OpModel, BadFoldersAreOneLine) {
  EXPECT_THAT(refusal([&] { (void)read_op_folder(folder_.file("none")); }), HasSubstr("not a folder"));
  folder_.write("op_linear.csv", "gpu,M,N,K,fwd_ms\nT4,64,64,64,0.1\nT5,64,64,64,0.1\n");
  EXPECT_THAT(refusal([&] { (void)read_op_folder(folder_.path()); }), HasSubstr("op_linear.csv:3: gpu \"T5\""));
  folder_.write("op_linear.csv", "gpu,M,N,K,fwd_ms\nT4,64,64,64,-1\n");
  EXPECT_THAT(refusal([&] { (void)read_op_folder(folder_.path()); }), HasSubstr("op_linear.csv:2: fwd_ms"));
  folder_.write("op_linear.csv", "gpu,M,N,fwd_ms\n");
  EXPECT_THAT(refusal([&] { (void)read_op_folder(folder_.path()); }), HasSubstr("K"));
  folder_.write("op_linear.csv", "gpu,M,N,K,fwd_ms\n");
  folder_.write("gpus.csv", "gpu,mem_bw_gbs,num_sm,l2_mb\nT4,320,40,4\n");
  EXPECT_THAT(refusal([&] { (void)read_op_folder(folder_.path()); }), HasSubstr("gpus.csv:2: neither"));
}

TEST_F(OpModel, DamagedFoldersAreRefusedOrRead) {
  const std::string whole = testing::slurp(folder_.file("op_linear.csv"));
  const std::array<std::string, 9> words = {",", "\n", "nan", "-1", "0", "\"", "1e400", std::string(1, '\0'), "x"};
  std::mt19937 random(6);
  for (int round = 0; round < 300; ++round) {
    std::string text = whole;
    text.replace(random() % text.size(), random() % 6, words[random() % words.size()]);
    folder_.write("op_linear.csv", text);
    try {
      EXPECT_FALSE(read_op_folder(folder_.path()).rows.empty());
    } catch (const InputError& error) {
      EXPECT_THAT(error.what(), HasSubstr("op_linear.csv"));
    }
  }
}

TEST(StandardModel, AStepOfFewOperatorsOnAFastDeviceTakesNoMoreThanAFewMilliseconds) {
  // Four operators: 4 dispatches of 10 to 100 us each, and what a step takes whatever it does.
  OpGraph step;
  const TensorId x = step.add_tensor({64, 256}, DataType::f32, TensorRole::input);
  TensorId y = x;
  for (int i = 0; i < 4; ++i) {
    const TensorId next = step.add_like(x, TensorRole::activation);
    step.add_op(OpKind::relu, Phase::forward, -1, std::vector{y}, std::vector{next});
    y = next;
  }
  const DeviceCatalogue devices;
  EXPECT_LT(OpTimeModel::standard().predict(step, devices.find("A100-80GB-PCIe"), Precision::fp32).sec.p50, 2e-3);
}

}  // namespace
}  // namespace perfpred
