// SPDX-License-Identifier: Apache-2.0
#include "parallel/schedule.h"

#include <perfpred/error.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <utility>

namespace perfpred {
namespace {

/// Passes of a pipeline whose stages compute in fixed orders.
class Pipeline {
 public:
  Pipeline(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches)
      : stages_(stages),
        chunks_(chunks),
        micro_batches_(micro_batches),
        group_(micro_batches % stages == 0 ? stages : micro_batches),
        ends_(static_cast<std::size_t>(stages * passes_of_a_stage()), NAN) {}

  [[nodiscard]] std::vector<StagePass> run(double forward_sec, double backward_sec) {
    std::vector<std::vector<StagePass>> orders;
    for (std::int64_t stage = 0; stage < stages_; ++stage) orders.push_back(order_of(stage));
    std::vector<std::size_t> done(orders.size(), 0);
    std::vector<double> free_from(orders.size(), 0);
    for (bool moves = true; std::exchange(moves, false);) {
      for (std::size_t s = 0; s < orders.size(); ++s) {
        for (; done[s] < orders[s].size(); ++done[s], moves = true) {
          StagePass& pass = orders[s][done[s]];
          const double ready = ready_at(pass);
          if (std::isnan(ready)) break;
          pass.begin_sec = std::max(ready, free_from[s]);
          free_from[s] = pass.begin_sec + (pass.forward ? forward_sec : backward_sec);
          ends_[place(pass)] = free_from[s];
        }
      }
    }
    std::vector<StagePass> all;
    for (std::size_t s = 0; s < orders.size(); ++s) {
      if (done[s] < orders[s].size()) throw Error("stages of a pipeline wait for each other");
      all.insert(all.end(), orders[s].begin(), orders[s].end());
    }
    return all;
  }

 private:
  [[nodiscard]] std::int64_t passes_of_a_stage() const { return 2 * chunks_ * micro_batches_; }

  /// Forward passes as the stage warms up, then one of each kind in turn, then backward passes.
  [[nodiscard]] std::vector<StagePass> order_of(std::int64_t stage) const {
    const std::int64_t count = chunks_ * micro_batches_;
    const std::int64_t behind = stages_ - 1 - stage;
    const std::int64_t warm_up = std::min(count, chunks_ == 1 ? behind : 2 * behind + (chunks_ - 1) * group_);
    std::vector<StagePass> order;
    std::int64_t forward = 0, backward = 0;
    while (forward < warm_up) order.push_back(pass_of(stage, forward++, true));
    while (forward < count) {
      order.push_back(pass_of(stage, forward++, true));
      order.push_back(pass_of(stage, backward++, false));
    }
    while (backward < count) order.push_back(pass_of(stage, backward++, false));
    return order;
  }

  /// Micro-batches come in groups, each of which goes through a chunk before the next chunk has its turn.
  [[nodiscard]] StagePass pass_of(std::int64_t stage, std::int64_t turn, bool forward) const {
    const std::int64_t round = group_ * chunks_;
    const std::int64_t chunk = turn % round / group_;
    return {stage, turn / round * group_ + turn % group_, forward ? chunk : chunks_ - 1 - chunk, forward};
  }

  [[nodiscard]] std::size_t place(const StagePass& pass) const {
    const std::int64_t way = pass.forward ? 0 : 1;
    return static_cast<std::size_t>(((pass.stage * chunks_ + pass.chunk) * micro_batches_ + pass.micro_batch) * 2 +
                                    way);
  }

  /// When what a pass takes from another is there; not a number as long as that is not known.
  [[nodiscard]] double ready_at(const StagePass& pass) const {
    StagePass before = pass;
    const bool ends_here = pass.forward ? pass.stage == 0 : pass.stage == stages_ - 1;
    const bool is_first = ends_here && pass.chunk == (pass.forward ? 0 : chunks_ - 1);
    if (is_first && pass.forward) return 0;
    const std::int64_t back = pass.forward ? -1 : 1;
    if (is_first) {
      before.forward = true;  // the last chunk's own forward pass
    } else if (ends_here) {
      before.stage = stages_ - 1 - pass.stage;
      before.chunk += back;
    } else {
      before.stage += back;
    }
    return ends_[place(before)];
  }

  std::int64_t stages_, chunks_, micro_batches_, group_;
  std::vector<double> ends_;
};

}  // namespace

std::vector<StagePass> pipeline_schedule(std::int64_t stages, std::int64_t chunks, std::int64_t micro_batches,
                                         double forward_sec, double backward_sec) {
  return Pipeline(stages, chunks, micro_batches).run(forward_sec, backward_sec);
}

}  // namespace perfpred
