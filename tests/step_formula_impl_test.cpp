// SPDX-License-Identifier: Apache-2.0
// The formula of a step's time.
#include "optime/step_formula.h"

#include <perfpred/device.h>
#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>
#include <perfpred/workload.h>

#include <gtest/gtest.h>

#include <cmath>
#include <string>
#include <vector>

#include "optime/op_model_state.h"

namespace perfpred {
namespace {

/// A device of the catalogue, or `cpu`: one with 0.5 TFLOP/s and 40 GB/s.
Device device_of(const std::string& name) {
  if (name != "cpu") return DeviceCatalogue().find(name);
  Device device;
  device.name = name;
  device.kind = DeviceKind::cpu;
  device.fp32_tflops = device.fp32_vector_tflops = 0.5;
  device.mem_bw_gbs = 40;
  return device;
}

TEST(StepFormula, ItsSlopesAreThoseOfDifferences) {
  struct Case {
    const char *device, *network;
    Precision precision;
    StepArithmetic arithmetic;
    std::int64_t batch;
    Precision graph = Precision::fp32;
  };
  const Case cases[] = {
      {"RTX2080Ti", "mobilenet_v2", Precision::fp16, StepArithmetic::as_graph, 256},
      {"GTX1080Ti", "shufflenet_v2_x0_5", Precision::fp16, StepArithmetic::half, 4},
      {"TITANV", "vgg11_bn", Precision::fp64, StepArithmetic::double_, 4},
      {"TITANXp", "resnext50_32x4d", Precision::fp32, StepArithmetic::as_graph, 16},
      {"cpu", "mobilenet_v2", Precision::fp32, StepArithmetic::as_graph, 8},
      {"RTX3090", "lstm:layers=2,hidden=650,vocab=10000", Precision::fp16, StepArithmetic::as_graph, 20},
      {"H200", "resnet18", Precision::fp32, StepArithmetic::as_graph, 64},
      {"H200", "resnet18", Precision::bf16, StepArithmetic::as_graph, 64, Precision::bf16}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.network);
    Workload workload = Workload::zoo(c.network, c.batch);
    workload.precision = c.graph;
    std::vector<StepKernel> kernels = step_kernels(execute(workload.graph(), device_of(c.device).kind));
    find_repeats(kernels);
    const StepDevice device = step_device(device_of(c.device), c.precision, c.arithmetic);
    const StepParameters parameters = prior_means();
    const MachineEffects effects = {0.1, -0.2, 0.3};
    const StepFormula of(parameters, device, effects);
    const StepSlopes slopes = of.log_slopes(kernels, 1e-3, true);
    EXPECT_EQ(slopes.log_sec, of.log_step(kernels, 1e-3, true));
    constexpr double h = 1e-5;
    const auto difference = [&](auto change) {
      const auto at = [&](double by) {
        StepParameters p = parameters;
        MachineEffects e = effects;
        change(p, e, by);
        return StepFormula(p, device, e).log_step(kernels, 1e-3, true);
      };
      return (at(h) - at(-h)) / (2 * h);
    };
    for (const StepParameter& row : step_parameters) {
      const double expected = difference([&](StepParameters& p, MachineEffects&, double by) { p.*row.value += by; });
      EXPECT_NEAR(slopes.parameters.*row.value, expected, 1e-6) << row.name;
    }
    const auto machine = [&](double MachineEffects::*effect) {
      EXPECT_NEAR(slopes.machine.*effect,
                  difference([effect](StepParameters&, MachineEffects& e, double by) { e.*effect += by; }), 1e-6);
    };
    machine(&MachineEffects::compute);
    machine(&MachineEffects::memory);
    machine(&MachineEffects::host);

    const auto log_clocks = [&](const MachineEffects& e, MachineEffects* by) {
      const StepFormula formula(parameters, device, e);
      std::vector<double> seconds;
      for (const StepKernel& kernel : kernels) seconds.push_back(formula.seconds(kernel));
      if (by != nullptr) *by = formula.slopes(kernels, seconds);
      return std::log(formula.clocks(kernels, seconds).total_sec);
    };
    MachineEffects of_clocks;
    (void)log_clocks(effects, &of_clocks);
    for (double MachineEffects::*effect : {&MachineEffects::compute, &MachineEffects::memory, &MachineEffects::host}) {
      MachineEffects more = effects, less = effects;
      more.*effect += h;
      less.*effect -= h;
      EXPECT_NEAR(of_clocks.*effect, (log_clocks(more, nullptr) - log_clocks(less, nullptr)) / (2 * h), 1e-6);
    }
  }
}

/// Two generations of cores after Skylake do 1.18 and 1.19 times as much in a clock (Intel of Ice Lake and Sapphire
/// Rapids), which the servers of Hopper's cards have.
TEST(StepFormula, ASmallStepIsFasterBesideTheHostsOfNewerCards) {
  EXPECT_EQ(usual_host("Volta"), 0);
  EXPECT_NEAR(std::exp(usual_host("Hopper")), 1 / (1.18 * 1.19), 0.02);
  EXPECT_LT(usual_host("Blackwell"), usual_host("Hopper"));
  EXPECT_LT(usual_host("Hopper"), usual_host("Ampere"));

  std::vector<StepKernel> kernels =
      step_kernels(execute(Workload::zoo("shufflenet_v2_x0_5", 1).graph(), DeviceKind::gpu));
  find_repeats(kernels);
  StepDevice device = step_device(device_of("H200"), Precision::fp32, StepArithmetic::as_graph);
  const auto log_sec = [&] { return StepFormula(prior_means(), device, {}).log_step(kernels, 0, true); };
  const double newer = log_sec();
  device.host = 0;
  EXPECT_NEAR(newer - log_sec(), usual_host("Hopper"), 0.02);
}

TEST(StepFormula, ADepthwiseConvolutionReadsAnElementForEachTap) {
  const StepParameters parameters = prior_means();
  const auto ratio = [&](const char* device) {
    const StepFormula formula(parameters, step_device(device_of(device), Precision::fp32, StepArithmetic::as_graph),
                              {});
    StepKernel kernel;
    kernel.group = StepGroup::depthwise_weight;
    kernel.bytes = 1e9;
    kernel.flops = 2 * 9 * 1e8;
    kernel.width = 9;
    const double three_by_three = formula.seconds(kernel);
    kernel.flops = 2 * 49 * 1e8;
    kernel.width = 49;
    return formula.seconds(kernel) / three_by_three;
  };
  EXPECT_GT(ratio("cpu"), 1.5);
  EXPECT_NEAR(ratio("T4"), 49.0 / 9, 0.01);
}

/// Seconds of the first kernel of a group, channels and a width in ResNet-18's step with 128 pictures on an H200, by
/// the standard model, without what it knows of the machine.
double of_resnet18(Precision precision, Layout layout, StepGroup group, double channels, double width) {
  Workload workload = Workload::zoo("resnet18", 128);
  workload.precision = precision;
  workload.layout = layout;
  const StepFormula formula(OpModelAccess::state(OpTimeModel::standard()).steps.parameters,
                            step_device(device_of("H200"), precision, StepArithmetic::as_graph), {});
  const ExecutedStep executed = execute(workload.graph(), DeviceKind::gpu);
  const OpGraph& step = executed.graph();
  for (const StepKernel& kernel : step_kernels(executed)) {
    const Op& op = step.ops()[kernel.op];
    const Shape& result = step.shape(step.outputs(op)[0]);
    const bool first = group == StepGroup::conv_forward ? kernel.three_by_three : op.phase == Phase::forward;
    if (kernel.group == group && first && static_cast<double>(result[1]) == channels &&
        static_cast<double>(result[3]) == width) {
      return formula.seconds(kernel);
    }
  }
  return 0;
}

TEST(StepFormula, ABatchNormOfFewChannelsLeavesMostOfALargeDeviceIdle) {
  // Nsight Compute's sums of the kernels of one operator, microseconds.
  constexpr StepGroup norm = StepGroup::batch_norm;
  const auto ratio = [](Precision precision, Layout layout, double channels, double width, double measured) {
    return 1e6 * of_resnet18(precision, layout, norm, channels, width) / measured;
  };
  for (const double of_measured :
       {ratio(Precision::bf16, Layout::nchw, 64, 112, 1295 + 210),
        ratio(Precision::bf16, Layout::nchw, 64, 56, 371 + 61), ratio(Precision::bf16, Layout::nchw, 128, 28, 112 + 34),
        ratio(Precision::fp32, Layout::nchw, 64, 56, 230), ratio(Precision::fp32, Layout::nchw, 128, 28, 67)}) {
    EXPECT_GT(of_measured, 0.81);
    EXPECT_LT(of_measured, 1.4);
  }
  // In channels-last memory 584 microseconds in place of 1,505.
  EXPECT_LT(of_resnet18(Precision::bf16, Layout::nhwc, norm, 64, 112),
            0.5 * of_resnet18(Precision::bf16, Layout::nchw, norm, 64, 112));
}

TEST(StepFormula, OnHopperConvolutionsInSinglePrecisionAreDirectOrByFourierTransforms) {
  // Nsight Compute: a direct product, and transforms of filters, images and results with a product, microseconds.
  const auto ratio = [](double channels, double width, double measured) {
    return 1e6 * of_resnet18(Precision::fp32, Layout::nchw, StepGroup::conv_forward, channels, width) / measured;
  };
  for (const double of_measured : {ratio(64, 56, 715), ratio(128, 28, 13 + 32 + 42 + 199 + 41)}) {
    EXPECT_GT(of_measured, 0.68);
    EXPECT_LT(of_measured, 1.39);
  }
}

TEST(StepFormula, APowerLimitSlowsProductsOfVectorUnitsOnly) {
  const StepParameters parameters = prior_means();
  StepKernel kernel;
  kernel.group = StepGroup::conv_forward;
  kernel.flops = 1e15;  // of computing alone
  kernel.depth = kernel.width = 1e4;
  for (const Precision precision : {Precision::fp32, Precision::fp16}) {
    StepDevice device = step_device(DeviceCatalogue().find("TITANV"), precision, StepArithmetic::as_graph);
    device.matrix.power_share = 1;
    const double unlimited = StepFormula(parameters, device, {}).seconds(kernel);
    device.matrix.power_share = 0.5;
    const double factor = precision == Precision::fp32 ? 2 : 1;
    EXPECT_NEAR(StepFormula(parameters, device, {}).seconds(kernel) / unlimited, factor, 1e-3);
  }
}

TEST(StepFormula, MemoryIsOnlyAsFastAsTheMultiprocessorsThatReadIt) {
  StepKernel kernel;
  kernel.group = StepGroup::elementwise;
  kernel.bytes = 1e12;
  const StepDevice device = step_device(device_of("H200"), Precision::fp32, StepArithmetic::as_graph);
  const auto seconds = [&](double bandwidth, double multiprocessors) {
    StepDevice other = device;
    other.matrix.bandwidth *= bandwidth;
    other.matrix.clock_bytes *= bandwidth / multiprocessors;
    return StepFormula(prior_means(), other, {}).seconds(kernel);
  };
  EXPECT_NEAR(seconds(2, 2) / seconds(1, 1), 0.5, 1e-4);
  EXPECT_GT(seconds(2, 1), 0.55 * seconds(1, 1));
  EXPECT_LT(seconds(2, 1), seconds(1, 1));
  EXPECT_LT(seconds(1, 2), seconds(1, 1));
  EXPECT_GT(seconds(1, 1e9), 0.5 * seconds(1, 1));
}

TEST(StepFormula, ConvolutionsOnMatrixUnitsWaitForCopies) {
  const StepParameters parameters = prior_means();
  StepKernel kernel;
  kernel.group = StepGroup::conv_forward;
  kernel.flops = 1e9;
  kernel.bytes = 1e7;
  kernel.depth = kernel.width = 64;
  const auto waits = [&](const char* name, Precision precision) {
    const Device device = device_of(name);
    const StepFormula formula(parameters, step_device(device, precision, StepArithmetic::as_graph), {});
    StepKernel copied = kernel;
    copied.transposed = 1e8;
    return (formula.seconds(copied) - formula.seconds(kernel)) / (1e8 / (device.mem_bw_gbs.value() * 1e9));
  };
  for (const char* device : {"V100-SXM2-16GB", "T4", "A100-80GB-PCIe", "H200"}) {
    EXPECT_GT(waits(device, Precision::fp16), 1) << device;  // no copy is faster than the memory
    EXPECT_LT(waits(device, Precision::fp16), 3) << device;
    EXPECT_EQ(waits(device, Precision::fp32), 0) << device;
  }
  EXPECT_GT(waits("H200", Precision::bf16), 1);
  EXPECT_GT(waits("H200", Precision::tf32), 1);
  EXPECT_GT(waits("H200", Precision::default_), 1);
  EXPECT_EQ(waits("H200", Precision::fp64), 0);
  EXPECT_EQ(waits("P100-PCIe-16GB", Precision::fp16), 0);  // has no such units
  EXPECT_EQ(waits("cpu", Precision::fp32), 0);
}

std::vector<StepKernel> rnn_kernels(const ExecutedStep& step, OpKind kind) {
  std::vector<StepKernel> kernels = step_kernels(step);
  std::erase_if(kernels, [&](const StepKernel& kernel) { return kernel.kind != kind; });
  return kernels;
}

double flops_of(const std::vector<StepKernel>& kernels) {
  double flops = 0;
  for (const StepKernel& kernel : kernels) flops += kernel.flops;
  return flops;
}

// Two layers of two LSTMs of 64, the second one of both of the first one's: the products of torch.nn.LSTM's equations.
TEST(StepKernels, OfARecurrentNetworkAreItsProductsPositionByPosition) {
  const OpGraph step = Workload::zoo("lstm:layers=2,hidden=64,vocab=100,bidirectional=1", 3, {7}).graph();
  const double multiplied = 2 * 256 * (64 + 64) + 2 * 256 * (128 + 64), forward = 2 * 7 * 3 * multiplied;
  for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu}) {
    const ExecutedStep executed = execute(step, device);
    const auto kernels = rnn_kernels(executed, OpKind::rnn), backward = rnn_kernels(executed, OpKind::rnn_backward);
    EXPECT_EQ(flops_of(kernels), forward);
    EXPECT_EQ(flops_of(backward), 2 * forward);
    int in_turn = 0;
    for (const StepKernel& kernel : kernels) {
      if (kernel.group != StepGroup::recurrent) continue;
      ++in_turn;
      EXPECT_EQ(kernel.calls, 7);
      EXPECT_EQ(kernel.rows, 3);
      EXPECT_EQ(kernel.width, 256);
      EXPECT_EQ(kernel.depth, 64);
    }
    EXPECT_EQ(in_turn, 4);
  }
}

TEST(StepFormula, PositionsOfARecurrentNetworkWaitForEachOther) {
  const Device card = DeviceCatalogue().find("V100-SXM2-16GB");
  const StepDevice device = step_device(card, Precision::fp32, StepArithmetic::as_graph);
  const StepParameters parameters = prior_means();
  const auto seconds = [&](const char* cell, std::int64_t batch, std::int64_t positions) {
    const Workload job =
        Workload::zoo(std::string("lstm:layers=1,hidden=512,vocab=100,cell=") + cell, batch, {positions});
    double sec = 0;
    for (const StepKernel& kernel : rnn_kernels(execute(job.graph(), DeviceKind::gpu), OpKind::rnn)) {
      sec += StepFormula(parameters, device, {}).seconds(kernel);
    }
    return sec;
  };
  for (const char* cell : {"lstm", "gru", "tanh"}) {
    SCOPED_TRACE(cell);
    // As many products, 64 of which are one in turn: at least so many times the least time between two kernels.
    EXPECT_GT(seconds(cell, 64, 64), 64 * 3e-6);
    EXPECT_GT(seconds(cell, 1, 4096), 20 * seconds(cell, 64, 64));
    EXPECT_NEAR(seconds(cell, 16, 128) / seconds(cell, 16, 64), 2, 0.1);
  }
}

}  // namespace
}  // namespace perfpred
