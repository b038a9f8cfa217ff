// SPDX-License-Identifier: Apache-2.0
// The formula of a step's time.
#include "optime/step_formula.h"

#include <perfpred/device.h>
#include <perfpred/op_graph.h>
#include <perfpred/workload.h>

#include <gtest/gtest.h>

namespace perfpred {
namespace {

TEST(StepFormula, ItsSlopesAreThoseOfDifferences) {
  struct Case {
    const char *device, *network;
    Precision precision;
    StepArithmetic arithmetic;
    std::int64_t batch;
  };
  const Case cases[] = {{"RTX2080Ti", "mobilenet_v2", Precision::fp16, StepArithmetic::as_graph, 256},
                        {"GTX1080Ti", "shufflenet_v2_x0_5", Precision::fp16, StepArithmetic::half, 4},
                        {"TITANV", "vgg11_bn", Precision::fp64, StepArithmetic::double_, 4},
                        {"TITANXp", "resnext50_32x4d", Precision::fp32, StepArithmetic::as_graph, 16}};
  for (const Case& c : cases) {
    SCOPED_TRACE(c.network);
    std::vector<StepKernel> kernels = step_kernels(Workload::zoo(c.network, c.batch).graph());
    find_repeats(kernels);
    const StepDevice device = step_device(DeviceCatalogue().find(c.device), c.precision, c.arithmetic);
    StepParameters parameters;
    for (std::size_t i = 0; i < step_parameters; ++i) parameters[i] = step_priors()[i].mean;
    const MachineEffects effects = {0.1, -0.2, 0.3};
    StepSlopes slopes;
    (void)StepFormula(parameters, device, effects).log_step(kernels, 1e-3, true, &slopes);
    constexpr double h = 1e-5;
    const auto difference = [&](auto change) {
      const auto at = [&](double by) {
        StepParameters p = parameters;
        MachineEffects e = effects;
        change(p, e, by);
        return StepFormula(p, device, e).log_step(kernels, 1e-3, true, nullptr);
      };
      return (at(h) - at(-h)) / (2 * h);
    };
    for (std::size_t i = 0; i < step_parameters; ++i) {
      const double expected = difference([i](StepParameters& p, MachineEffects&, double by) { p[i] += by; });
      EXPECT_NEAR(slopes.parameters[i], expected, 1e-6) << "parameter " << i;
    }
    const auto machine = [&](double MachineEffects::*effect) {
      EXPECT_NEAR(slopes.machine.*effect,
                  difference([effect](StepParameters&, MachineEffects& e, double by) { e.*effect += by; }), 1e-6);
    };
    machine(&MachineEffects::compute);
    machine(&MachineEffects::memory);
    machine(&MachineEffects::host);
  }
}

}  // namespace
}  // namespace perfpred
