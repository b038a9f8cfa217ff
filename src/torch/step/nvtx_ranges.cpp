// SPDX-License-Identifier: Apache-2.0
#include "torch/step/nvtx_ranges.h"

#include <nvtx3/nvToolsExt.h>

#include <array>
#include <thread>

namespace perfpred {
namespace {

constexpr const char* whole = "train_step";
constexpr std::array<const char*, 4> parts = {"forward", "loss", "backward", "optimizer_step"};

}  // namespace

void run_with_ranges(TrainingStep& step, const Batch& batch) {
  const auto caller = std::this_thread::get_id();
  nvtxRangePushA(whole);
  nvtxRangePushA(parts.front());
  step.on_phase([](Phase ended) {
    nvtxRangePop();
    const auto next = static_cast<std::size_t>(ended) + 1;
    if (next < parts.size()) nvtxRangePushA(parts.at(next));
  });
  step.on_backward_thread([caller](bool begins) {
    if (std::this_thread::get_id() == caller) return;  // the ranges are open here
    if (begins) {
      nvtxRangePushA(whole);
      nvtxRangePushA(parts.at(static_cast<std::size_t>(Phase::backward)));
    } else {
      nvtxRangePop();
      nvtxRangePop();
    }
  });
  step.run(batch);
  step.on_phase(nullptr);
  step.on_backward_thread(nullptr);
  nvtxRangePop();
}

}  // namespace perfpred
