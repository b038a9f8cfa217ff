// SPDX-License-Identifier: Apache-2.0
// Orders that the standard model's answers keep whatever it was fitted on, over the devices of the catalogue.
#include <perfpred/device.h>
#include <perfpred/error.h>
#include <perfpred/op_graph.h>
#include <perfpred/op_time_model.h>
#include <perfpred/workload.h>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "optime/hardware.h"

namespace perfpred {
namespace {

constexpr double tolerance = 1.05;
const char* const networks[] = {"resnet50",      "vgg16",    "densenet121", "mobilenet_v2",
                                "regnet_y_16gf", "vit_b_16", "bert_base",   "gpt2"};
constexpr Precision precisions[] = {Precision::fp32, Precision::tf32, Precision::bf16, Precision::fp16};

std::vector<Device> gpus() {
  std::vector<Device> devices;
  const DeviceCatalogue catalogue;
  for (const Device& device : catalogue.devices()) {
    if (device.kind == DeviceKind::gpu && device.mem_bw_gbs && kernel_family(device.arch) != KernelFamily::none)
      devices.push_back(device);
  }
  return devices;
}

const OpGraph& graph_of(const std::string& network, std::int64_t batch, Precision precision) {
  static std::map<std::tuple<std::string, std::int64_t, Precision>, OpGraph> known;
  const auto [found, is_new] = known.try_emplace({network, batch, precision});
  if (is_new) {
    Workload workload = Workload::zoo(network, batch);
    workload.precision = precision;
    found->second = workload.graph();
  }
  return found->second;
}

/// Seconds of a step; 0 where the device has no such peak.
double seconds(const std::string& network, std::int64_t batch, const Device& device, Precision precision) {
  static std::map<std::tuple<std::string, std::int64_t, std::string, Precision>, double> known;
  const auto [found, is_new] = known.try_emplace({network, batch, device.name, precision}, 0);
  if (is_new && device.matrix_flops(computed_precision(device, precision)))
    found->second = OpTimeModel::standard().predict(graph_of(network, batch, precision), device, precision).sec.p50;
  return found->second;
}

/// Of one architecture, and nothing that the catalogue says of both is less, but how much memory there is. A rate that
/// is missing does not exist; another value that is missing is not known.
bool is_at_most_as_good(const Device& device, const Device& other) {
  if (device.name == other.name || device.arch != other.arch || device.vendor != other.vendor) return false;
  for (auto rate :
       {&Device::fp64_tflops, &Device::fp32_tflops, &Device::tf32_tflops, &Device::bf16_tflops, &Device::fp16_tflops,
        &Device::fp32_vector_tflops, &Device::fp16_vector_tflops, &Device::mem_bw_gbs}) {
    if ((device.*rate).value_or(0) > (other.*rate).value_or(0)) return false;
  }
  for (auto limit : {&Device::l2_mb, &Device::sms, &Device::boost_mhz, &Device::tdp_w}) {
    if (device.*limit && other.*limit && *(device.*limit) > *(other.*limit)) return false;
  }
  return true;
}

/// All pairs of the catalogue.
TEST(Laws, ADeviceThatIsAtMostAsGoodIsNeverFaster) {
  const std::vector<Device> devices = gpus();
  std::size_t pairs = 0;
  std::map<std::string, double> broken;  // by pair, the largest ratio
  for (const Device& device : devices) {
    for (const Device& other : devices) {
      if (!is_at_most_as_good(device, other)) continue;
      ++pairs;
      for (const char* network : networks) {
        for (const Precision precision : precisions) {
          const double a = seconds(network, 32, other, precision), b = seconds(network, 32, device, precision);
          if (a == 0 || b == 0 || a <= tolerance * b) continue;
          double& ratio = broken[device.name + " is faster than " + other.name];
          ratio = std::max(ratio, a / b);
        }
      }
    }
  }
  EXPECT_GE(pairs, 4000U);
  // The row of the 1660 Ti Max-Q states no power limit, and what larger cards of its chip leave is too little.
  broken.erase("GTX 1650 Ti Max-Q is faster than GTX 1660 Ti Max-Q");
  for (const auto& [pair, ratio] : broken) ADD_FAILURE() << pair << " by " << ratio;
}

/// A superchip whose catalogue row states no power limit, and a card that differs from another in its memory alone.
TEST(Laws, TheSameChipWithOtherMemoryIsNotFaster) {
  constexpr double rounding = 1 + 1e-9;
  const DeviceCatalogue catalogue;
  for (const auto& [name, better] :
       {std::pair("GH200-96GB", "H200-SXM-141GB"), std::pair("Quadro RTX 8000", "Quadro RTX 6000"),
        std::pair("Quadro RTX 6000", "Quadro RTX 8000")}) {
    for (const char* network : networks) {
      for (const Precision precision : precisions) {
        const double least = seconds(network, 32, catalogue.find(better), precision);
        const double own = seconds(network, 32, catalogue.find(name), precision);
        EXPECT_LE(least, rounding * own) << name << " " << better << " " << network << " " << to_string(precision);
      }
    }
  }
}

TEST(Laws, ASampleTakesNoLongerInALargerBatch) {
  for (const Device& device : gpus()) {
    for (const char* network : networks) {
      for (const Precision precision : precisions) {
        double before = 0;
        for (std::int64_t batch = 1; batch <= 128; batch *= 2) {
          const double sample = seconds(network, batch, device, precision) / static_cast<double>(batch);
          if (before > 0) {
            EXPECT_LE(sample, tolerance * before)
                << device.name << " " << network << " " << to_string(precision) << " " << batch;
          }
          before = sample;
        }
      }
    }
  }
}

/// One structure in four sizes: the networks of a family have one builder.
TEST(Laws, ALargerGpt2IsNotFaster) {
  for (const Device& device : gpus()) {
    for (const Precision precision : precisions) {
      for (const std::int64_t batch : {1, 4}) {
        double before = 0;
        for (const char* network : {"gpt2", "gpt2_medium", "gpt2_large", "gpt2_xl"}) {
          const double step = seconds(network, batch, device, precision);
          EXPECT_GE(step, before) << device.name << " " << network << " " << to_string(precision) << " " << batch;
          before = step;
        }
      }
    }
  }
}

TEST(Laws, TF32IsNeverSlowerThanSinglePrecision) {
  for (const Device& device : gpus()) {
    for (const char* network : networks) {
      for (const std::int64_t batch : {1, 32, 256}) {
        EXPECT_LE(seconds(network, batch, device, Precision::tf32),
                  tolerance * seconds(network, batch, device, Precision::fp32))
            << device.name << " " << network << " " << batch;
      }
    }
  }
}

/// Winograd's F(4x4, 3x3) needs four times fewer multiplications (Lavin, Gray 2016), on vector units. PyTorch may
/// compute on them where TF32 is only allowed.
TEST(Laws, NoStepIsFasterThanItsProductsAtThePeak) {
  constexpr double winograd = 4, rounding = 1.05;
  for (const Device& device : gpus()) {
    for (const char* network : networks) {
      for (const Precision precision : precisions) {
        const Precision computed = computed_precision(device, precision);
        if (!device.matrix_flops(computed)) continue;
        const double vector = device.fp32_vector_tflops.value_or(0) * 1e12;
        double peak = std::max(*device.matrix_flops(computed), device.convolution_flops(computed).value_or(0));
        if (peak <= rounding * vector || computed == Precision::tf32) peak = std::max(peak, winograd * vector);
        const double flops = graph_of(network, 256, precision).totals().conv_matmul_flops;
        EXPECT_GE(seconds(network, 256, device, precision), flops / peak)
            << device.name << " " << network << " " << to_string(precision);
      }
    }
  }
}

}  // namespace
}  // namespace perfpred
