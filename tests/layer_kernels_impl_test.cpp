// SPDX-License-Identifier: Apache-2.0
// What is learned of layers and what is asked of networks are the same kernels.
#include <perfpred/executed_step.h>
#include <perfpred/workload.h>

#include <gmock/gmock.h>

#include <algorithm>
#include <string>
#include <vector>

#include "network/layers.h"
#include "optime/layers/layer_step.h"
#include "optime/step_kernels.h"

namespace perfpred {
namespace {

/// A kernel in words: all that its time depends on.
std::string text_of(const StepKernel& k, Phase phase) {
  std::string text = std::string(to_string(phase)) + " " + std::string(to_string(k.kind)) + " of " +
                     std::string(to_string(k.type)) + ", group " + std::to_string(static_cast<int>(k.group));
  for (const double size : {k.flops, k.bytes, k.batch, k.rows, k.width, k.depth, k.calls, k.transposed, k.reread,
                            k.fourier_flops, k.channels, k.numbers}) {
    text += " " + std::to_string(size);
  }
  for (const bool is : {k.dispatched, k.three_by_three, k.grouped, k.aligned, k.sizes_aligned})
    text += is ? " 1" : " 0";
  return text;
}

/// Forward and backward, sorted, of the operators that are wanted.
template <class Wanted>
void add_kernels(const ExecutedStep& step, const Wanted& wanted, std::vector<std::string>& texts) {
  for (const StepKernel& kernel : step_kernels(step)) {
    const Op& op = step.graph().ops()[kernel.op];
    if (op.phase != Phase::forward && op.phase != Phase::backward) continue;
    if (wanted(kernel.op)) texts.push_back(text_of(kernel, op.phase));
  }
  std::sort(texts.begin(), texts.end());
}

/// Pooling to one pixel, which layers_of() has no layer for; the sum of a tensor's two gradients; the loss's gradient.
bool is_between_layers(const Op& op) {
  const auto kinds = {OpKind::adaptive_avg_pool2d, OpKind::adaptive_avg_pool2d_backward, OpKind::mean, OpKind::div};
  return op.layer < 0 || std::find(kinds.begin(), kinds.end(), op.kind) != kinds.end() ||
         (op.kind == OpKind::add && op.phase == Phase::backward);
}

TEST(ExecutedStep, ANetworksKernelsAreThoseOfItsLayers) {
  for (const char* name :
       {"alexnet", "vgg11_bn", "resnet18", "mobilenet_v2", "lstm:layers=1,hidden=64,vocab=100,bidirectional=1",
        "lstm:layers=1,hidden=64,vocab=100,cell=gru"}) {
    for (const DeviceKind device : {DeviceKind::gpu, DeviceKind::cpu, DeviceKind::other}) {
      SCOPED_TRACE(std::string(name) + " on " + std::string(to_string(device)));
      Workload workload = Workload::zoo(name, 4);
      workload.optimizer = Optimizer::none;
      std::vector<std::string> of_network, of_layers;
      const ExecutedStep step = execute(workload.graph(), device);
      add_kernels(
          step, [&](std::size_t op) { return !is_between_layers(step.graph().ops()[op]); }, of_network);
      for (const LayerCase& layer : layers_of(build_network(workload))) {
        const LayerStep alone = layer_step(layer, device);
        const auto own = [&](std::size_t op) {
          return alone.own[op] && !is_between_layers(alone.executed.graph().ops()[op]);
        };
        add_kernels(alone.executed, own, of_layers);
      }
      EXPECT_THAT(of_network, testing::ElementsAreArray(of_layers));
    }
  }
}

}  // namespace
}  // namespace perfpred
