// SPDX-License-Identifier: Apache-2.0
// Formulas of the time of a kernel.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <random>
#include <vector>

#include "optime/kernel_time.h"

namespace perfpred {
namespace {

Hardware some_gpu() {
  Hardware gpu;
  gpu.name = "some";
  gpu.family = KernelFamily::volta_turing;
  gpu.flops = gpu.vector_flops = 14e12;
  gpu.bandwidth = 900e9;
  gpu.sms = 80;
  gpu.threads = 80 * threads_per_sm;
  gpu.l2 = 6e6;
  return gpu;
}

double prior_seconds(const Kernel& kernel, const Hardware& gpu, const DeviceEffects& effects = {}) {
  const KernelFormula& form = formula(kernel.kind);
  std::vector<double> parameters;
  for (const KernelParameter& parameter : form.parameters) parameters.push_back(parameter.mean);
  return std::exp(form.log_time(parameters.data(), effects, kernel, gpu));
}

const std::array<KernelClass, kernel_classes> all_classes = {
    KernelClass::linear,    KernelClass::bmm,  KernelClass::elementwise, KernelClass::softmax,
    KernelClass::layernorm, KernelClass::conv, KernelClass::gemm_bf16};

Kernel random_kernel(KernelClass kind, std::mt19937& random) {
  const auto size = [&] { return static_cast<double>(8 << (random() % 8)); };
  Kernel kernel;
  kernel.kind = kind;
  kernel.batch = kind == KernelClass::linear || kind == KernelClass::gemm_bf16 ? 1 : size();
  kernel.m = kind == KernelClass::conv ? static_cast<double>(4 + random() % 60) : size();
  kernel.n = size();
  kernel.k = size();
  return kernel;
}

TEST(KernelTime, NeverBeatsThePeaks) {
  std::mt19937 random(1);
  const Hardware gpu = some_gpu();
  for (const KernelClass kind : {KernelClass::linear, KernelClass::bmm, KernelClass::gemm_bf16}) {
    for (int i = 0; i < 500; ++i) {
      const Kernel kernel = random_kernel(kind, random);
      EXPECT_GE(prior_seconds(kernel, gpu), kernel.flops() / gpu.flops);
    }
  }
}

// F(4x4, 3x3) multiplies 36 times where the definition multiplies 144 times (Lavin, Gray 2016).
TEST(KernelTime, AConvolutionIsAtMostFourTimesFasterThanItsDefinitionAndALargeOneIsFaster) {
  std::mt19937 random(4);
  const Hardware gpu = some_gpu();
  for (int i = 0; i < 500; ++i) {
    const Kernel kernel = random_kernel(KernelClass::conv, random);
    EXPECT_GE(prior_seconds(kernel, gpu), kernel.flops() / (4 * gpu.flops));
  }
  Kernel large;
  large.kind = KernelClass::conv;
  large.batch = 64;
  large.m = 32;
  large.n = large.k = 512;
  EXPECT_LT(prior_seconds(large, gpu), large.flops() / gpu.flops);
}

// A card whose power allows half of the usual rate: calls that keep all units busy take twice as long, calls of one
// tile among many idle units do not.
TEST(KernelTime, ALimitOfPowerSlowsFullDevicesOnly) {
  const KernelFormula& form = formula(KernelClass::gemm_bf16);
  std::vector<double> parameters;
  for (const KernelParameter& parameter : form.parameters) parameters.push_back(parameter.mean);
  const auto power =
      std::find_if(form.effects.begin(), form.effects.end(), [](const auto& e) { return e.name == "power"; });
  ASSERT_NE(power, form.effects.end());
  DeviceEffects limited{};
  limited[static_cast<std::size_t>(power - form.effects.begin())] = -std::log(2.0);
  const auto slower = [&](double size) {
    Kernel kernel;
    kernel.kind = KernelClass::gemm_bf16;
    kernel.m = kernel.n = size;
    kernel.k = 8192;
    kernel.element_bytes = 2;
    const auto log_time = [&](const DeviceEffects& e) {
      return form.log_time(parameters.data(), e, kernel, some_gpu());
    };
    return std::exp(log_time(limited) - log_time({}));
  };
  EXPECT_NEAR(slower(8192), 2, 0.2);
  EXPECT_NEAR(slower(64), 1, 0.05);
}

// Forward passes of timm's vit_gigantic_patch14_224 run at 139 TFLOP/s on an RTX 4090 and at 204 on an RTX PRO 6000
// Max-Q, of 165 and 439 at the peak (timm, results/benchmark-infer-amp-*): products take most of them.
TEST(KernelTime, UnitsOfHalfTheRateComeNearTheirPeakAndALimitOf300WattsIsFarFromIt) {
  const auto rate = [](const char* device) {
    Kernel kernel;
    kernel.kind = KernelClass::gemm_bf16;
    kernel.m = kernel.n = kernel.k = 8192;
    kernel.element_bytes = 2;
    return kernel.flops() / prior_seconds(kernel, hardware_of(DeviceCatalogue().find(device), Precision::bf16)) / 1e12;
  };
  EXPECT_GT(rate("RTX 4090"), 139);
  EXPECT_LT(rate("RTX 4090"), 165);
  EXPECT_GT(rate("RTX PRO 6000 Blackwell Max-Q"), 204);
  EXPECT_LT(rate("RTX PRO 6000 Blackwell Max-Q"), 1.4 * 204);
}

TEST(KernelTime, MoreWorkIsNeverFaster) {
  std::mt19937 random(2);
  const Hardware gpu = some_gpu();
  for (const KernelClass kind : all_classes) {
    for (int i = 0; i < 500; ++i) {
      const Kernel kernel = random_kernel(kind, random);
      for (double Kernel::*size : {&Kernel::batch, &Kernel::m, &Kernel::n, &Kernel::k}) {
        Kernel larger = kernel;
        larger.*size *= 2;
        EXPECT_GE(prior_seconds(larger, gpu), 0.999 * prior_seconds(kernel, gpu)) << formula(kind).name;
      }
    }
  }
}

/// 8 GB in rows of so many numbers: starting, and what a cache holds of the whole, count for nothing.
Kernel rows_of(KernelClass kind, double numbers) {
  Kernel kernel;
  kernel.kind = kind;
  kernel.n = numbers;
  kernel.m = 1e9 / numbers;
  return kernel;
}

// PyTorch's softmax reads long rows three times and writes them once, its layer norm reads them twice: 4 / 2 and 3 / 2
// times the traffic of rows that stay in registers (up to 1,024 numbers of a softmax) or in the cache.
TEST(KernelTime, RowsThatDoNotFitTheCacheAreReadAgain) {
  Hardware gpu = some_gpu();
  gpu.bandwidth = 1e9;  // memory is what counts
  const auto slower = [&](KernelClass kind, double fits) {
    return prior_seconds(rows_of(kind, 16384), gpu) / prior_seconds(rows_of(kind, fits), gpu);
  };
  EXPECT_NEAR(slower(KernelClass::softmax, 1024), 2, 0.1);
  EXPECT_NEAR(slower(KernelClass::layernorm, 512), 1.5, 0.1);
}

TEST(KernelTime, RowsThatFitAWholeCacheMayNotFitOnePartition) {
  EXPECT_EQ(l2_partitions("Ampere", 40e6), 2);  // A100
  EXPECT_EQ(l2_partitions("Ampere", 6e6), 1);   // RTX 3090
  EXPECT_EQ(l2_partitions("Ada", 72e6), 1);     // RTX 4090
  EXPECT_EQ(l2_partitions("Hopper", 50e6), 2);  // H100
  Hardware whole = some_gpu(), divided = some_gpu();
  whole.bandwidth = divided.bandwidth = 1e9;
  divided.l2_partitions = 2;
  // 320 softmax rows or 1,280 layer norm rows are in flight: these fill 4.5 of the 6 MB.
  for (const Kernel& rows : {rows_of(KernelClass::softmax, 3520), rows_of(KernelClass::layernorm, 880)}) {
    EXPECT_GT(prior_seconds(rows, divided), 1.1 * prior_seconds(rows, whole)) << static_cast<int>(rows.kind);
  }
}

// Of a device whose cache holds half as many rows as its specification says, as of one with two partitions.
TEST(KernelTime, ADeviceMayHoldFewerRowsInItsCache) {
  Hardware whole = some_gpu(), divided = some_gpu();
  divided.l2_partitions = 2;
  for (const KernelClass kind : {KernelClass::softmax, KernelClass::layernorm}) {
    const KernelFormula& form = formula(kind);
    const auto effect = std::find_if(form.effects.begin(), form.effects.end(),
                                     [](const auto& e) { return e.name == "rows_in_flight"; });
    ASSERT_NE(effect, form.effects.end());
    DeviceEffects half{};
    half[static_cast<std::size_t>(effect - form.effects.begin())] = std::log(2.0);
    for (const double numbers : {512, 880, 3520, 16384}) {
      const Kernel rows = rows_of(kind, numbers);
      EXPECT_NEAR(prior_seconds(rows, whole, half), prior_seconds(rows, divided), 1e-9 * prior_seconds(rows, divided));
    }
  }
}

// 512 threads load 4,096 numbers in two rounds of 16 bytes each, and 3,072 numbers in one and two of single numbers.
TEST(KernelTime, ASoftmaxWaitsForItsRoundsOfLoads) {
  Hardware gpu = some_gpu();
  gpu.bandwidth = 1e15;
  Kernel row = rows_of(KernelClass::softmax, 4096), shorter = row;
  shorter.n = 3072;
  EXPECT_GT(prior_seconds(shorter, gpu), 1.1 * prior_seconds(row, gpu));
}

TEST(KernelTime, ASlowerDeviceIsNeverFaster) {
  std::mt19937 random(3);
  for (const KernelClass kind : all_classes) {
    for (int i = 0; i < 200; ++i) {
      const Kernel kernel = random_kernel(kind, random);
      for (double Hardware::*rate : {&Hardware::flops, &Hardware::bandwidth, &Hardware::power_share}) {
        Hardware slower = some_gpu();
        slower.*rate /= 2;
        EXPECT_GE(prior_seconds(kernel, slower), prior_seconds(kernel, some_gpu())) << formula(kind).name;
      }
    }
  }
}

TEST(KernelTime, PowerSharesAreThoseOfTheFormula) {
  // T4: 12 nm, 1.59 GHz, 8.141 TFLOP/s, 70 W give X = 3.60 and exp(-log(1 + X^8.4) / 15) = 0.488; V100 0.861.
  EXPECT_NEAR(power_share("Turing", 1.59, 8.141, 70), 0.488, 0.001);
  EXPECT_NEAR(power_share("Volta", 1.37, 14.029, 250), 0.861, 0.001);
  EXPECT_EQ(power_share("Quantum", 1.37, 14.029, 250), 1);
}

}  // namespace
}  // namespace perfpred
