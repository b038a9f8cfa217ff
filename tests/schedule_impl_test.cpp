// SPDX-License-Identifier: Apache-2.0
#include "parallel/schedule.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <tuple>

#include "parallel/stages.h"

namespace perfpred::testing {
namespace {

constexpr double forward = 1, backward = 2;

double sec_of(const StagePass& pass) { return pass.forward ? forward : backward; }

/// Narayanan et al. 2021: a pipeline of p stages takes (m + (p - 1) / v) micro-batches' time (sections 2.2.1, 2.2.2).
TEST(PipelineSchedule, TakesAsLongAsPublished) {
  for (const std::int64_t stages : {1, 2, 4, 8}) {
    for (const std::int64_t chunks : {1, 2, 3}) {
      for (const std::int64_t batches : {stages, 3 * stages}) {
        double end = 0;
        for (const StagePass& pass : pipeline_schedule(stages, chunks, batches, forward, backward))
          end = std::max(end, pass.begin_sec + sec_of(pass));
        const double of_chunk = forward + backward;
        EXPECT_DOUBLE_EQ(end, static_cast<double>(batches * chunks + stages - 1) * of_chunk)
            << stages << " stages, " << chunks << " chunks, " << batches << " micro-batches";
      }
    }
  }
}

/// Every pass once, none before what it needs, and one at a time.
TEST(PipelineSchedule, KeepsTheOrderOfTheNetwork) {
  for (const auto& [stages, chunks, batches] : {std::tuple{4, 1, 2}, {4, 1, 9}, {4, 2, 8}, {3, 4, 6}, {4, 2, 6}}) {
    const auto passes = pipeline_schedule(stages, chunks, batches, forward, backward);
    ASSERT_EQ(passes.size(), static_cast<std::size_t>(2 * stages * chunks * batches));
    const auto begin_of = [&](std::int64_t stage, std::int64_t batch, std::int64_t chunk, bool is_forward) {
      const auto found = std::find_if(passes.begin(), passes.end(), [&](const StagePass& pass) {
        return pass.stage == stage && pass.micro_batch == batch && pass.chunk == chunk && pass.forward == is_forward;
      });
      EXPECT_NE(found, passes.end());
      return found->begin_sec;
    };
    for (std::size_t i = 1; i < passes.size(); ++i) {
      if (passes[i].stage != passes[i - 1].stage) continue;
      ASSERT_GE(passes[i].begin_sec, passes[i - 1].begin_sec + sec_of(passes[i - 1]));
    }
    for (std::int64_t batch = 0; batch < batches; ++batch) {
      double ready = 0;
      for (std::int64_t layer = 0; layer < stages * chunks; ++layer) {
        const double begin = begin_of(layer % stages, batch, layer / stages, true);
        ASSERT_GE(begin, ready);
        ready = begin + forward;
      }
      for (std::int64_t layer = stages * chunks - 1; layer >= 0; --layer) {
        const double begin = begin_of(layer % stages, batch, layer / stages, false);
        ASSERT_GE(begin, ready);
        ready = begin + backward;
      }
    }
  }
}

/// What memory takes for granted: micro-batches whose activations a stage holds when its first backward pass begins.
TEST(PipelineSchedule, HoldsWhatMemoryCounts) {
  for (const std::int64_t chunks : {1, 2, 3}) {
    constexpr std::int64_t stages = 4, batches = 12;
    const auto passes = pipeline_schedule(stages, chunks, batches, forward, backward);
    for (std::int64_t stage = 0; stage < stages; ++stage) {
      std::int64_t held = 0;
      for (const StagePass& pass : passes) {
        if (pass.stage != stage) continue;
        if (!pass.forward) break;
        ++held;
      }
      std::int64_t counted = 0;
      for (const std::int64_t of_chunk : in_flight(stage, stages, chunks, batches)) counted += of_chunk;
      EXPECT_EQ(held, counted) << "stage " << stage << ", " << chunks << " chunks";
    }
  }
}

}  // namespace
}  // namespace perfpred::testing
